package bad

f(x) := x

allow if f(1, 2, 3)
