# input: {"ns": 1773145800000000000, "tz": "America/Chicago", "t": "2026-03-10T12:30:00Z"}
# input: {"ns": 0, "tz": "UTC", "t": "2026-03-08T02:30:00.123456789-06:00"}
# input: {"ns": -1, "tz": "Europe/Berlin", "t": "2026-02-29T00:00:00Z"}
# input: {"ns": 1774744200000000001, "tz": "Asia/Kathmandu", "t": "2026-03-10 12:30:00"}
# input: {"ns": 9223372036854775807, "tz": "", "t": "9999-12-31T23:59:59Z"}
# input: {"ns": 1e30, "tz": "Nowhere/City", "t": "1677-09-21T00:12:43Z"}
# input: {"ns": 1.5, "tz": "Local", "t": "2026-12-31T23:59:60Z"}
# input: {"ns": "5", "tz": 5, "t": 5}
# input: {"ns": 1762063200000000000, "tz": "US/Pacific", "t": "2026-03-10t12:30:00z"}
# input: {"ns": 951782400000000000, "tz": "EST5EDT", "t": "2026-03-10T12:30:00+0100"}
# input: {"ns": -9223372036854775808, "tz": "GMT", "t": "0001-01-01T00:00:00Z"}
# input: {"ns": 1773145800000000000, "tz": "america/chicago", "t": "2026-03-10T12:30:00,5Z"}
# input: {"ns": 1773145800000000000, "tz": "Etc/GMT+5", "t": "2026-3-10T12:30:00Z"}
package corpus.time

parsed := time.parse_rfc3339_ns(input.t)

date := time.date(input.ns)

date_tz := time.date([input.ns, input.tz])

clock := time.clock(input.ns)

clock_tz := time.clock([input.ns, input.tz])

weekday := time.weekday(input.ns)

weekday_tz := time.weekday([input.ns, input.tz])

added := time.add_date(input.ns, 1, 1, 1)

added_back := time.add_date(input.ns, 0, -1, 0)

added_31 := time.add_date(1769860800000000000, 0, 1, 0)

added_far := time.add_date(input.ns, 1000, 0, 0)

diff := time.diff(input.ns, 1700000000000000000)

diff_tz := time.diff([input.ns, input.tz], [1700000000000000000, "UTC"])

diff_back := time.diff(0, input.ns)

formatted := time.format(input.ns)

formatted_tz := time.format([input.ns, input.tz])

formatted_layout := time.format([input.ns, input.tz, "2006-01-02 15:04:05.000 MST Monday Jan"])

formatted_named := time.format([input.ns, input.tz, "RFC1123"])

formatted_kitchen := time.format([input.ns, input.tz, time_layout]) if time_layout := "3:04PM"

formatted_zone := time.format([input.ns, input.tz, "2006-01-02T15:04:05.999999999Z07:00"])

parsed_layout := time.parse_ns("2006-01-02", "2026-03-10")

parsed_named := time.parse_ns("RFC3339", input.t)

parsed_zone := time.parse_ns("2006-01-02 15:04:05 -0700", "2026-03-10 12:30:00 -0500")

parsed_month := time.parse_ns("Jan 2, 2006 at 3:04pm (MST)", "Feb 3, 2013 at 7:54pm (UTC)")

durations := {x: y | some x in ["1h", "1.5h", "2m3s", "-1s", "1us", "1µs", "0", "", "1", "1d", "1h 1m", "9999999h", ".5s"]; y := time.parse_duration_ns(x)}

compared if time.parse_rfc3339_ns(input.t) > input.ns

now_is_a_number := is_number(time.now_ns())

now_is_the_same if time.now_ns() == time.now_ns()

hours := floor((input.ns - 1773100000000000000) / 3600000000000)
