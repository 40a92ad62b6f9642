package bad

data := 1

allow := 1
