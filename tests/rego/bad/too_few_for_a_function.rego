package bad

f(x, y) := x + y

allow := f(1)
