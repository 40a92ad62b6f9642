package refused

allow if {
	some {"name": n} in input.xs
	n == "a"
}
