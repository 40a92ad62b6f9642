package bad

v := 1

allow := v(2)
