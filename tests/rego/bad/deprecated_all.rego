package bad

allow if all([true])
