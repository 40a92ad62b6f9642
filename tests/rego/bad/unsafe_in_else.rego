package bad

allow := 1 if {
	input.a
} else := x
