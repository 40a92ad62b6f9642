allow := 1
