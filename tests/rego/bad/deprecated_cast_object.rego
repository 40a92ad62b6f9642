package bad

allow := cast_object({})
