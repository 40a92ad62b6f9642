package refused

allow if [{"a": 1}, x] = [input.o, 1]
