package bad

allow := sprintf("%s", "a")
