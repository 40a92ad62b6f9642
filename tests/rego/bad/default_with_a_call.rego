package bad

default allow := count([1])
