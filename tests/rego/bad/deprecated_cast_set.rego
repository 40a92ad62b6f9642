package bad

allow := cast_set([1])
