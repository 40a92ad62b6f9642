package refused

f({"a": 1}) := true

allow if f(input.o)
