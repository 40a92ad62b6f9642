package bad

allow := no.such.function(1)
