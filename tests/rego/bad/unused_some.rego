package bad

allow if {
	some x
	input.a
}
