package bad

f(x, y, z) := x

allow if upper("a") == "A" with upper as f
