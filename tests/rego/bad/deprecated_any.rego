package bad

allow if any([true])
