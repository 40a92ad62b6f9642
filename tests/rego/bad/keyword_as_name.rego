package bad

if := 1

allow := 1
