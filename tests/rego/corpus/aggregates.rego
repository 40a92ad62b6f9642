# input: {"xs": [3, 1, 2], "o": {"a": 1}, "t": "héllo😀", "bools": [true, false], "mixed": [1, "a"]}
# input: {"xs": [], "o": {}, "t": "", "bools": [], "mixed": [null]}
# input: {"xs": [1.5, -1], "o": null, "t": 5, "bools": [true, true], "mixed": [[1], {"a": 1}]}
# input: {"xs": {"k": 1}, "o": "x", "t": null, "bools": ["x"], "mixed": true}
# input: {}
package corpus.aggregates

counts := [count([1, 2]), count({1, 2}), count({"a": 1}), count("text"), count("")]

count_xs := count(input.xs)

count_o := count(input.o)

count_text := count(input.t)

count_mixed := count(input.mixed)

sum_xs := sum(input.xs)

product_xs := product(input.xs)

max_xs := max(input.xs)

min_xs := min(input.xs)

sort_xs := sort(input.xs)

sum_mixed := sum(input.mixed)

product_mixed := product(input.mixed)

max_mixed := max(input.mixed)

min_mixed := min(input.mixed)

sort_mixed := sort(input.mixed)

sum_set := sum({1, 2, 2})

max_empty := max([])

min_empty_set := min(set())

sum_empty := sum([])

product_empty := product([])

sum_floats := sum([0.1, 0.2, 0.3])

sum_big := sum([9223372036854775807, 1])

sum_object := sum(input.o)
