package bad

allow if not input.o[k] == 1
