package bad

allow if {
	input := 1
}
