# input: {"c": "10.0.0.0/8", "ip": "10.1.2.3", "d": "10.1.0.0/16"}
# input: {"c": "10.0.0.0/8", "ip": "11.1.2.3", "d": "192.168.0.0/16"}
# input: {"c": "2001:db8::/32", "ip": "2001:db8::1", "d": "2001:db8:1::/48"}
# input: {"c": "10.0.0.1/8", "ip": "10.0.0.0/9", "d": "10.0.0.1"}
# input: {"c": "10.0.0.0/33", "ip": "x", "d": "10.0.0.0"}
# input: {"c": "::ffff:10.0.0.0/104", "ip": "10.1.1.1", "d": "::1/128"}
# input: {"c": "0.0.0.0/0", "ip": "::1", "d": "0.0.0.0/32"}
# input: {"c": "010.0.0.0/8", "ip": "8.0.0.1", "d": "10.0.0.0/08"}
# input: {"c": "192.168.1.0/30", "ip": "192.168.1.5", "d": "192.168.1.4/30"}
# input: {"c": "fe80::1%eth0/64", "ip": "fe80::1%eth0", "d": " 10.0.0.0/8"}
# input: {"c": 5, "ip": null, "d": []}
package corpus.net

holds := net.cidr_contains(input.c, input.ip)

holds_net := net.cidr_contains(input.c, input.d)

valid := net.cidr_is_valid(input.c)

valid_d := net.cidr_is_valid(input.d)

expanded := net.cidr_expand("192.168.1.0/30")

expanded_input := net.cidr_expand(input.d) if endswith(input.d, "/30")
