package bad

allow := cast_array({1})
