package refused

allow := x if x := upper("a") with upper as lower
