package bad

allow if input.a

allow(x) if x
