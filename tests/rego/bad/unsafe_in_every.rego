package bad

allow if every x in input.a { x == y }
