package bad

allow := "a
