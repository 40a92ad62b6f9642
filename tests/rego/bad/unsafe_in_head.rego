package bad

allow := x if input.a
