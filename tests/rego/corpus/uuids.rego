# input: {"u": "00000000-0000-1000-8000-00805f9b34fb"}
# input: {"u": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}
# input: {"u": "550e8400-e29b-41d4-a716-446655440000"}
# input: {"u": "{550e8400-e29b-41d4-a716-446655440000}"}
# input: {"u": "550E8400E29B41D4A716446655440000"}
# input: {"u": "urn:uuid:550e8400-e29b-41d4-a716-446655440000"}
# input: {"u": "nothing"}
# input: {"u": 5}
package corpus.uuids

parsed := uuid.parse(input.u)

same_key if uuid.rfc4122("k") == uuid.rfc4122("k")

length := count(uuid.rfc4122("k"))
