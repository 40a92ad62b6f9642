package bad

allow := 01
