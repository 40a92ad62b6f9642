package refused

allow if {
	input.a
	(input.b in input.c) == true
}
