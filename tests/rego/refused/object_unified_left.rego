package refused

allow if {
	{"a": x} = input.o
	x == 1
}
