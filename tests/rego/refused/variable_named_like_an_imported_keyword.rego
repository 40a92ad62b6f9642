package refused

import rego.v1

allow if {
	some v1 in input.l
	v1 == "v"
}
