package refused

allow := x if {
	x := 1
	y := [x | some x in [2, 3]]
	count(y) == 2
}
