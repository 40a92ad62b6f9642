package bad

o[k] := v if {
	k := "a"
	v := o.b
}

allow := o
