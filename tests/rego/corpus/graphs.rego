# input: {"g": {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["a"], "x": ["y"]}, "from": ["a"]}
# input: {"g": {"a": ["b"], "b": []}, "from": ["a", "nowhere"]}
# input: {"g": {"a": []}, "from": []}
# input: {"g": {}, "from": ["a"]}
# input: {"g": {"a": "b"}, "from": ["a"]}
# input: {"g": null, "from": null}
package corpus.graphs

reachable := graph.reachable(input.g, input.from)

reachable_of_sets := graph.reachable({"a": {"b"}, "b": {"c"}, "c": set()}, {"a"})

paths := graph.reachable_paths(input.g, input.from)

walked := [[path, value] | walk(input.g, [path, value])]

walked_leaves := {value | walk(input.g, [_, value]); is_string(value)}

walk_set := [path | walk({"s": {1, 2}}, [path, _])]

walk_scalar := [v | walk(5, [_, v])]

walk_fixed := v if walk({"a": [1, 2]}, [["a", 1], v])
