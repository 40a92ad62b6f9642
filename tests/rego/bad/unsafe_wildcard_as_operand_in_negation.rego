package bad

allow if not input.n > input.xs[_]
