package bad

allow := cast_string("a")
