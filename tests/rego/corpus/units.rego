# input: {"u": "10K"}
# input: {"u": "10Ki"}
# input: {"u": "1.5MiB"}
# input: {"u": "100m"}
# input: {"u": "1GB"}
# input: {"u": "1gib"}
# input: {"u": "0"}
# input: {"u": ""}
# input: {"u": "KB"}
# input: {"u": "1 KB"}
# input: {"u": "\"1KB\""}
# input: {"u": "-5k"}
# input: {"u": "1e3"}
# input: {"u": "1E"}
# input: {"u": "1Ei"}
# input: {"u": "1EiB"}
# input: {"u": "0.1PB"}
# input: {"u": "5X"}
# input: {"u": "1.1K"}
# input: {"u": 5}
package corpus.units

parsed := units.parse(input.u)

bytes := units.parse_bytes(input.u)
