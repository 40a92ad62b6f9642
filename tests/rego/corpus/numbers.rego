# input: {"a": 7, "b": 2, "z": 0, "big": 12345678901234567890123, "f": 2.5, "t": "7"}
# input: {"a": -7, "b": 3, "z": 0.0, "big": -9223372036854775808, "f": -2.5, "t": "-1.5e3"}
# input: {"a": 1.5, "b": 0.5, "z": -0, "big": 18446744073709551616, "f": 0.1, "t": "0x10"}
# input: {"a": 1e20, "b": 1e-5, "z": "0", "big": 9223372036854775807, "f": 1e21, "t": " 1"}
# input: {"a": "7", "b": null, "z": [], "big": true, "f": "x", "t": ""}
# input: {}
package corpus.numbers

sum2 := input.a + input.b

difference := input.a - input.b

product2 := input.a * input.b

quotient := input.a / input.b

remainder := input.a % input.b

by_zero := input.a / input.z

rem_zero := input.a % input.z

not_by_zero if not input.a / input.z

third := 1 / 3

two_thirds := 2 / 3

tenth := 1 / 10

seventh := input.a / 7

big_plus := input.big + 1

big_square := input.big * input.big

big_cube := (input.big * input.big) * input.big

big_minus := input.big - 0.5

big_half := input.big / 2

big_rem := input.big % 7

big_same if input.big + 1 > input.big

max_int := 9223372036854775807 + 1

min_int := -9223372036854775808 - 1

mul_int := 4294967296 * 4294967296

ns := 1773145800000000000 + 3600000000000

ns_float := 1773145800000000000 * 1.0

ns_half := 1773145800000000001 / 2

float_sum := 0.1 + 0.2

float_product := 1.1 * 1.1

float_input := input.f

float_twice := input.f * 2

float_texts := [json.marshal(x) | some x in [1.0, 1.50, 1e2, 1e20, 1e21, 1e-7, 0.1, 100000000000000000000, -0, -0.0, 1.0e0, 123456789.123456789, 5e-324, 1.7976931348623157e308]]

input_texts := json.marshal(input)

computed_texts := [json.marshal(x) | some x in [1 / 3, 10 / 2, 0.1 + 0.2, 2.5 * 2, 1e3 * 1, 1e20 + 1, 1e21 + 1, 7 / 2, 1 / 1000000, 3 - 3.0]]

strings_of_numbers := [sprintf("%v", [x]) | some x in [1.0, 1.50, 1e2, 1e21, 1e-7, 0.1, -0, 1 / 3, 10 / 2, 12345678901234567890]]

rounds := [round(x) | some x in [2.5, -2.5, 0.5, 1.4999, -0.4, 1e20, 3]]

ceils := [ceil(x) | some x in [2.1, -2.1, 0, 1e20, 3]]

floors := [floor(x) | some x in [2.9, -2.1, 0, 1e20, 3]]

abss := [abs(x) | some x in [2.9, -2.1, 0, -9223372036854775808]]

round_input := round(input.f)

ceil_input := ceil(input.f)

floor_input := floor(input.f)

abs_input := abs(input.big)

floor_text := floor(input.t)

rems := [5 % 3, -5 % 3, 5 % -3, -5 % -3, 0 % 7]

rem_float := 5.5 % 2

rem_float_input := input.f % 2

ranges := [numbers.range(1, 3), numbers.range(3, 1), numbers.range(2, 2)]

range_step := [numbers.range_step(1, 10, 3), numbers.range_step(10, 1, 4)]

range_input := numbers.range(input.z, input.b)

range_step_zero := numbers.range_step(1, 3, input.z)

range_float := numbers.range(1, x) if x := 2.5

to_numbers := [to_number(x) | some x in ["1", "1.5", "-2", "1e3", true, false, null, 7]]

to_number_text := to_number(input.t)

to_number_odd := {x: y | some x in ["+1", "0x10", "1_000", "", " ", "Inf", "NaN", ".5", "5.", "01", "1e", "--1", "１"]; y := to_number(x)}

format_ints := [format_int(255, 2), format_int(255, 8), format_int(255, 10), format_int(255, 16), format_int(-255, 16), format_int(2.7, 10)]

format_int_big := format_int(input.big, 10)

format_int_base := format_int(5, 3)

format_int_text := format_int(input.t, 10)

exponents := [1e2 == 100, 1E2, 12e-1]

equal_floats if 1.0 == 1

is_whole if input.f == floor(input.f)

rand_bound := x if {
	x := rand.intn("seed", 1)
}

rand_same if rand.intn("k", 1000) == rand.intn("k", 1000)

floor_huge := floor(x) if x := 1e300

format_int_huge := format_int(x, 10) if x := 1e300

whole_huge if {
	x := 1e300
	x == floor(x)
}
