package bad

o := {"a": 1}

allow := o.b
