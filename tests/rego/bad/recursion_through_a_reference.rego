package bad

allow if data.bad[input.name]
