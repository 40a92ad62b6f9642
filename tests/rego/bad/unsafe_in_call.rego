package bad

allow if upper(x) == "A"
