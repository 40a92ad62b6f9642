package refused

allow if {
	[path, value] = walk(input)
	path == ["a"]
	value == 1
}
