package bad

text := "a"

allow := abs(text)
