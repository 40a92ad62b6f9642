package bad

allow if re_match("a", "a")
