package refused

s := {"z": true}

allow if not data[input.k].s.z
