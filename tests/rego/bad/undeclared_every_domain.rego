package bad

allow if every x in y { x == 1 }
