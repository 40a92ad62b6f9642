package refused

allow if walk(input, [_, {"a": 1}])
