package bad

f(x) := y if x > 1

allow := f(1)
