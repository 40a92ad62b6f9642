package bad

allow if 1 == "a"
