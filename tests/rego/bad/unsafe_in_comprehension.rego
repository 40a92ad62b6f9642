package bad

allow := [x | input.a == 1]
