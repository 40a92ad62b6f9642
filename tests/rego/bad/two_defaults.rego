package bad

default allow := false

default allow := true
