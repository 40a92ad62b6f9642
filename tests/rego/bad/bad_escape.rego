package bad

allow := "\q"
