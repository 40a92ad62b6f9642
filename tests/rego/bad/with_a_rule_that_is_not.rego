package bad

allow := x if x := input.a with foo.bar as 1
