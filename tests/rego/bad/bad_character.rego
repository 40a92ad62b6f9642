package bad

allow := 1 ; ?
