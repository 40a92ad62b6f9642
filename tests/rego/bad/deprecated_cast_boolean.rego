package bad

allow := cast_boolean(true)
