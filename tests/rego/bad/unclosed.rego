package bad

allow if { input.a
