package refused

s := {"z": true}

allow if not data.refused[`s`].z
