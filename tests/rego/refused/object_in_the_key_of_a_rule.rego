package refused

r[[c, {"n": 1}]] := 1 if some c in input.c

allow if r[[1, {"n": 1}]]
