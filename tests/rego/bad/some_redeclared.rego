package bad

allow if {
	x := 1
	some x in [2]
	x == 2
}
