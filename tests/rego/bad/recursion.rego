package bad

allow if other

other if allow
