package bad

f(x) := f(x - 1) if x > 0

allow := f(3)
