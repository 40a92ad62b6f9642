package refused

pairs contains [k, input.o[k]]

allow if pairs[["a", 1]]
