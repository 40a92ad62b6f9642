package bad

allow := set_diff({1}, {2})
