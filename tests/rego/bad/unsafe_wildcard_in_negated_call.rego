package bad

allow if not startswith(input.xs[_], "a")
