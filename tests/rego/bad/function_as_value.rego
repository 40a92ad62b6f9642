package bad

f(x) := x

allow := f
