package bad

default allow := input.a
