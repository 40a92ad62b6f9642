# input: {"a": "1.2.3", "b": "1.2.4"}
# input: {"a": "1.10.0", "b": "1.9.0"}
# input: {"a": "1.0.0-alpha", "b": "1.0.0"}
# input: {"a": "1.0.0-alpha.1", "b": "1.0.0-alpha.beta"}
# input: {"a": "1.0.0+b1", "b": "1.0.0+b2"}
# input: {"a": "v1.0.0", "b": "1.0.0"}
# input: {"a": "1.0", "b": "1.0.0"}
# input: {"a": "01.0.0", "b": "1.0.0"}
# input: {"a": "", "b": 5}
# input: {"a": "1.0.0-", "b": "1.0.0"}
# input: {"a": "1.0.0-01", "b": "1.0.0-1"}
# input: {"a": "99999999999999999999.0.0", "b": "1.0.0"}
package corpus.semver

compared := semver.compare(input.a, input.b)

valid_a := semver.is_valid(input.a)

valid_b := semver.is_valid(input.b)
