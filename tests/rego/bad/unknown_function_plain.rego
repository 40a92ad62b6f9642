package bad

allow := nosuch(1)
