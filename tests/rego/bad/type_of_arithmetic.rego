package bad

allow := "a" + 1
