package bad

allow if {
	x == 1
	x := 1
}
