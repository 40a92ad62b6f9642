package bad

allow = true { input.a == 1 }
