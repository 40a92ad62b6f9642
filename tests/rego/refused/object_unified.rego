package refused

allow if input.o = {"a": _}
