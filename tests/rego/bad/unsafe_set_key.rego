package bad

allow contains x if input.a
