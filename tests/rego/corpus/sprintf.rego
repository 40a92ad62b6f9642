# input: {"s": "text", "i": 42, "f": 3.14159, "b": true, "n": null, "a": [1, "x", null], "o": {"k": [1], "a": "b"}, "big": 12345678901234567890}
# input: {"s": "é😀\n\"", "i": -7, "f": 1e21, "b": false, "n": 0, "a": [], "o": {}, "big": -9223372036854775809}
# input: {"s": 5, "i": "x", "f": 2, "b": 1, "n": "n", "a": {"x": 1}, "o": [2], "big": 1.5}
package corpus.sprintf

value_s := sprintf("%v", [input.s])

value_i := sprintf("%v", [input.i])

value_f := sprintf("%v", [input.f])

value_b := sprintf("%v", [input.b])

value_n := sprintf("%v", [input.n])

value_a := sprintf("%v", [input.a])

value_o := sprintf("%v", [input.o])

value_set := sprintf("%v", [{"b", 1, "a"}])

value_empty_set := sprintf("%v", [set()])

value_big := sprintf("%v", [input.big])

string_s := sprintf("%s", [input.s])

string_i := sprintf("%s", [input.i])

string_a := sprintf("%s", [input.a])

string_b := sprintf("%s", [input.b])

string_n := sprintf("%s", [input.n])

decimal_i := sprintf("%d", [input.i])

decimal_f := sprintf("%d", [input.f])

decimal_s := sprintf("%d", [input.s])

decimal_big := sprintf("%d", [input.big])

float_f := sprintf("%f", [input.f])

float_i := sprintf("%f", [input.i])

float_2 := sprintf("%.2f", [input.f])

float_wide := sprintf("%8.3f|", [input.f])

exponent := sprintf("%e", [input.f])

general := sprintf("%g", [input.f])

quoted := sprintf("%q", [input.s])

hex_i := sprintf("%x", [input.i])

hex_upper := sprintf("%X", [input.i])

hex_s := sprintf("%x", [input.s])

octal := sprintf("%o", [input.i])

binary := sprintf("%b", [input.i])

character := sprintf("%c", [input.i])

unicode := sprintf("%U", [input.i])

bool_t := sprintf("%t", [input.b])

type_T := sprintf("%T", [input.s])

padded := sprintf("%5d|%-5d|%05d|%+d", [input.i, input.i, input.i, input.i])

padded_text := sprintf("%10s|%-10s|%.2s", [input.s, input.s, input.s])

percent := sprintf("100%%", [])

too_few := sprintf("%s %s", [input.s])

too_many := sprintf("%s", [input.s, input.i])

no_verb := sprintf("text", [])

bad_verb := sprintf("%z", [input.s])

trailing := sprintf("end %", [])

indexed := sprintf("%[2]v %[1]v", [input.s, input.i])

star := sprintf("%*d", [6, input.i])

sharp := sprintf("%#v", [input.s])

mixed := sprintf("user %s (%d) has %v", [input.s, input.i, input.a])

not_an_array := sprintf("%s", input.a)

format_not_text := sprintf(input.i, [])
