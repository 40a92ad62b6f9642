package bad

allow[x] { x := 1 }
