package bad

allow := concat(",")
