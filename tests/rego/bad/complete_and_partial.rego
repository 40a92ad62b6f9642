package bad

allow if input.a

allow contains "a" if input.b
