package bad

allow if input.a with input.a as x
