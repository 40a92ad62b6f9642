package bad

allow if upper("a", "b", "c")
