package bad

allow if not input.o[_] == 1
