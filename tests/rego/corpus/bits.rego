# input: {"a": 12, "b": 10, "s": 2}
# input: {"a": -1, "b": 255, "s": 0}
# input: {"a": 1, "b": 1, "s": 70}
# input: {"a": 1.5, "b": 2, "s": -1}
# input: {"a": 18446744073709551615, "b": 1, "s": 1}
# input: {"a": 2.0, "b": "1", "s": null}
package corpus.bits

anded := bits.and(input.a, input.b)

ored := bits.or(input.a, input.b)

xored := bits.xor(input.a, input.b)

negated := bits.negate(input.a)

left := bits.lsh(input.a, input.s)

right := bits.rsh(input.a, input.s)
