# input: {"a": [1, 2, 3], "b": ["x"], "i": 1, "j": 2}
# input: {"a": [], "b": [], "i": -1, "j": 9}
# input: {"a": "x", "b": null, "i": 2, "j": 1}
# input: {"a": [1, 2, 3], "b": [[1]], "i": 0.5, "j": 2.5}
# input: {}
package corpus.arrays

joined := array.concat(input.a, input.b)

reversed := array.reverse(input.a)

sliced := array.slice(input.a, input.i, input.j)

sliced_fixed := [array.slice([1, 2, 3], -5, 99), array.slice([1, 2, 3], 2, 1), array.slice([1, 2, 3], 1, 2)]

indexed := input.a[input.i]

same if [1, 2] == [1, 2.0]

plus_array := input.a + input.b
