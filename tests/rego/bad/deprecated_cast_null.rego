package bad

allow := cast_null(null)
