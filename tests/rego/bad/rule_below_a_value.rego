package bad

a := 1

a.b := 2

allow := a
