package refused

s contains input.o

allow if s[{"a": x}]
