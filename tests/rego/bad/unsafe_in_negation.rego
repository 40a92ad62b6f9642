package bad

allow if not input.a[x] == x
