package bad

f(x) := x

f(x, y) := y

allow := f(1)
