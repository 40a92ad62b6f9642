package bad

allow if net.cidr_overlap("10.0.0.0/8", "10.0.0.1")
