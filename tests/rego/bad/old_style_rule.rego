package bad

allow { input.a }
