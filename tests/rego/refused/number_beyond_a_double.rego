package refused

allow if input.a < 1e400
