package bad

allow := count(1)
