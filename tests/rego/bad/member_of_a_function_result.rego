package bad

allow := count([1]).x
