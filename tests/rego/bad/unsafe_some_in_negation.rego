package bad

allow if {
	some k
	not input.o[k] == 1
}
