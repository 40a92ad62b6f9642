# Shift, embargo, corrections, partnership, and how long an answer is kept because of them.
package cwms.time_test

import data.cwms.authz

at(text) := time.parse_rfc3339_ns(text)

second := 1000000000

hour := 3600 * second

answer(user, action, context, now) := got if {
	got := authz.allow with input as {"user": user, "resource": "timeseries", "action": action, "context": context}
		with time.now_ns as now
}

operator(start, end, zone) := {"id": "pat", "roles": ["dam_operator"], "offices": ["SWT"], "shift_start": start, "shift_end": end, "timezone": zone}

manual := {"office_id": "SWT", "data_source": "MANUAL"}

# --- shift -------------------------------------------------------------------------------------------------------

shifts := {
	"first minute": {"op": operator(6, 18, "UTC"), "at": "2026-03-10T06:00:00Z", "in": true},
	"minute before": {"op": operator(6, 18, "UTC"), "at": "2026-03-10T05:59:59Z", "in": false},
	"last minute": {"op": operator(6, 18, "UTC"), "at": "2026-03-10T17:59:59Z", "in": true},
	"end": {"op": operator(6, 18, "UTC"), "at": "2026-03-10T18:00:00Z", "in": false},
	"whole day": {"op": operator(0, 24, "UTC"), "at": "2026-03-10T23:59:59Z", "in": true},
	"night, evening": {"op": operator(22, 6, "UTC"), "at": "2026-03-10T23:00:00Z", "in": true},
	"night, morning": {"op": operator(22, 6, "UTC"), "at": "2026-03-10T05:59:59Z", "in": true},
	"night, its end": {"op": operator(22, 6, "UTC"), "at": "2026-03-10T06:00:00Z", "in": false},
	"night, noon": {"op": operator(22, 6, "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
	"night, before": {"op": operator(22, 6, "UTC"), "at": "2026-03-10T21:59:59Z", "in": false},
	"no hours": {"op": operator(6, 6, "UTC"), "at": "2026-03-10T06:00:00Z", "in": false},
	"Chicago winter": {"op": operator(6, 18, "America/Chicago"), "at": "2026-01-10T12:00:00Z", "in": true},
	"Chicago winter, early": {"op": operator(6, 18, "America/Chicago"), "at": "2026-01-10T11:59:00Z", "in": false},
	"Chicago summer": {"op": operator(6, 18, "America/Chicago"), "at": "2026-07-10T11:00:00Z", "in": true},
	"Chicago summer, early": {"op": operator(6, 18, "America/Chicago"), "at": "2026-07-10T10:59:00Z", "in": false},
	"Chicago, day before": {"op": operator(18, 24, "America/Chicago"), "at": "2026-01-10T05:00:00Z", "in": true},
	"half an hour": {"op": operator(6, 18, "Asia/Kolkata"), "at": "2026-01-10T00:30:00Z", "in": true},
	"half an hour, early": {"op": operator(6, 18, "Asia/Kolkata"), "at": "2026-01-10T00:29:59Z", "in": false},
	"no such zone": {"op": operator(0, 24, "America/Atlantis"), "at": "2026-03-10T12:00:00Z", "in": false},
	"engine's zone": {"op": operator(0, 24, "Local"), "at": "2026-03-10T12:00:00Z", "in": false},
	"empty zone": {"op": operator(0, 24, ""), "at": "2026-03-10T12:00:00Z", "in": false},
	"zone is a number": {"op": operator(0, 24, 5), "at": "2026-03-10T12:00:00Z", "in": false},
	"text": {"op": operator("0", "24", "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
	"text start": {"op": operator("0", 24, "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
	"text end": {"op": operator(0, "24", "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
	"null": {"op": operator(null, 24, "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
	"negative": {"op": operator(-1, 24, "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
	"too late": {"op": operator(0, 25, "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
	"fraction": {"op": operator(0.5, 24, "UTC"), "at": "2026-03-10T12:00:00Z", "in": false},
}

test_shift[name] if {
	some name, s in shifts
	answer(s.op, "create", manual, at(s.at)).allow == s["in"]
}

# The client's clock is not asked.
test_timestamp_of_input_does_not_count if {
	context := object.union(manual, {"timestamp": "2026-03-10T12:00:00Z"})
	answer(operator(6, 18, "UTC"), "create", context, at("2026-03-10T20:00:00Z")).allow == false
}

test_reading_is_not_bound if answer(operator(6, 18, "UTC"), "read", manual, at("2026-03-10T20:00:00Z")).allow == true

test_others_always_in_shift if {
	user := {"id": "pat", "roles": ["water_manager"], "offices": ["SWT"], "shift_start": 6, "shift_end": 7, "timezone": "UTC"}
	answer(user, "create", manual, at("2026-03-10T20:00:00Z")).allow == true
	authz.in_shift with input as {"user": user} with time.now_ns as at("2026-03-10T20:00:00Z")
}

# --- corrections ---------------------------------------------------------------------------------------------------

day := at("2026-03-10T12:30:00Z")

corrections := {
	"just now": {"created": day, "ok": true},
	"in time": {"created": (day - (24 * hour)) + 1, "ok": true},
	"a day ago": {"created": day - (24 * hour), "ok": false},
	"long ago": {"created": 0, "ok": false},
	"to come": {"created": day + 1, "ok": false},
	"text": {"created": "2026-03-10T12:00:00Z", "ok": false},
	"null": {"created": null, "ok": false},
}

test_correction[name] if {
	some name, c in corrections
	answer(operator(6, 18, "UTC"), "update", object.union(manual, {"created_ns": c.created}), day).allow == c.ok
}

test_correction_needs_shift_and_source if {
	context := object.union(manual, {"created_ns": day})
	answer(operator(13, 18, "UTC"), "update", context, day).allow == false
	answer(operator(6, 18, "UTC"), "update", object.union(context, {"data_source": "AUTOMATED"}), day).allow == false
}

# --- embargo ---------------------------------------------------------------------------------------------------------

viewer := {
	"id": "pat", "roles": ["Viewer Users"], "offices": ["SWT"],
	"ts_privileges": [
		{"ts_group_code": "A", "ts_group_id": "1", "privilege": "read", "embargo_hours": 24},
		{"ts_group_code": "B", "ts_group_id": 2, "privilege": "read", "embargo_hours": 0},
		{"ts_group_code": "C", "ts_group_id": "3", "privilege": "read", "embargo_hours": "24"},
		{"ts_group_code": "D", "ts_group_id": "4", "privilege": "read"},
		{"ts_group_code": "E", "ts_group_id": "5", "privilege": "read", "embargo_hours": 1},
		{"ts_group_code": "E", "ts_group_id": "5", "privilege": "write", "embargo_hours": 48},
		{"ts_group_code": "F", "ts_group_id": "6", "privilege": "read", "embargo_hours": -5},
	],
}

embargoes := {
	"inside": {"group": "1", "age": (24 * hour) - 1, "ok": false},
	"its end": {"group": "1", "age": 24 * hour, "ok": true},
	"id as a number": {"group": 1, "age": 25 * hour, "ok": true},
	"none": {"group": "2", "age": 0, "ok": true},
	"none, data of a fast clock": {"group": 2, "age": 0 - second, "ok": true},
	"period is a text": {"group": "3", "age": 9999 * hour, "ok": false},
	"group without a period, inside": {"group": "4", "age": (168 * hour) - 1, "ok": false},
	"group without a period": {"group": "4", "age": 168 * hour, "ok": true},
	"the longest, inside": {"group": "5", "age": (48 * hour) - 1, "ok": false},
	"the longest": {"group": "5", "age": 48 * hour, "ok": true},
	"negative period": {"group": "6", "age": 9999 * hour, "ok": false},
	"unknown group, inside": {"group": "99", "age": (168 * hour) - 1, "ok": false},
	"unknown group": {"group": "99", "age": 168 * hour, "ok": true},
	"group is true": {"group": true, "age": 9999 * hour, "ok": false},
	"group is a fraction": {"group": 1.5, "age": 25 * hour, "ok": false},
	"group is a list": {"group": ["1"], "age": 9999 * hour, "ok": false},
}

test_embargo[name] if {
	some name, e in embargoes
	context := {"office_id": "SWT", "ts_group_id": e.group, "timestamp_ns": day - e.age}
	answer(viewer, "read", context, day).allow == e.ok
}

test_no_embargo_without_both[name] if {
	some name, more in {
		"neither": {}, "no group": {"timestamp_ns": day}, "no time": {"ts_group_id": "1"},
		"null group": {"timestamp_ns": day, "ts_group_id": null}, "null time": {"timestamp_ns": null, "ts_group_id": "1"},
	}
	answer(viewer, "read", object.union({"office_id": "SWT"}, more), day).allow == true
}

test_embargo_time_of_another_type[name] if {
	some name, given in {"text": "0", "list": [0], "object": {}, "true": true}
	answer(viewer, "read", {"office_id": "SWT", "ts_group_id": "1", "timestamp_ns": given}, day).allow == false
	answer(viewer, "read", {"office_id": "SWT", "ts_group_id": "2", "timestamp_ns": given}, day).allow == false
}

test_privileges_of_another_type[name] if {
	some name, given in {"text": "x", "object": {"1": {"ts_group_id": "1", "embargo_hours": 0}}, "texts": ["1"], "null": null}
	user := object.union(viewer, {"ts_privileges": given})
	answer(user, "read", {"office_id": "SWT", "ts_group_id": "1", "timestamp_ns": day - hour}, day).allow == false
	answer(user, "read", {"office_id": "SWT", "ts_group_id": "1", "timestamp_ns": day - (168 * hour)}, day).allow == true
}

# Privileges of somebody the proxy does not know shorten nothing.
test_privileges_of_nobody if {
	user := object.union(viewer, {"authenticated": false})
	context := {"classification": "public", "ts_group_id": "2", "timestamp_ns": day - (167 * hour)}
	answer(user, "read", context, day).allow == false
	answer(viewer, "read", context, day).allow == true
}

test_exempt[persona] if {
	some persona in ["data_manager", "water_manager", "system_admin", "hec_employee"]
	context := {"office_id": "SWT", "ts_group_id": "1", "timestamp_ns": day}
	answer(object.union(viewer, {"persona": persona}), "read", context, day).allow == true
	answer(object.union(viewer, {"roles": ["Viewer Users", persona]}), "read", context, day).allow == true
}

test_not_exempt[persona] if {
	some persona in ["dam_operator", "automated_processor", "external_cooperator", "Viewer Users", "DATA_MANAGER"]
	context := {"office_id": "SWT", "ts_group_id": "1", "timestamp_ns": day}
	got := answer(object.union(viewer, {"persona": persona}), "read", context, day)
	got.allow == false
	got.reason == "The data is under embargo."
}

# --- how long an answer is kept --------------------------------------------------------------------------------------

clock(text, ns) := at(text) + ns

cooperator := {
	"id": "pat", "roles": ["external_cooperator"], "offices": ["SWT"], "allowed_parameters": ["Flow"],
	"partnership_expiry_ns": day + (100 * second),
}

grouped(age) := {"office_id": "SWT", "ts_group_id": "1", "timestamp_ns": day - age}

lifetimes := {
	"shift, mid hour": {"user": operator(6, 18, "UTC"), "do": "create", "context": manual, "at": day, "allow": true, "ttl": 300},
	"shift ends": {
		"user": operator(6, 18, "UTC"), "do": "create", "context": manual,
		"at": at("2026-03-10T17:58:20Z"), "allow": true, "ttl": 99,
	},
	"shift ends within the second": {
		"user": operator(6, 18, "UTC"), "do": "create", "context": manual,
		"at": clock("2026-03-10T17:59:59Z", 500000000), "allow": true, "ttl": 0,
	},
	"shift begins": {
		"user": operator(6, 18, "UTC"), "do": "create", "context": manual,
		"at": at("2026-03-10T05:59:50Z"), "allow": false, "ttl": 9,
	},
	"shift is far": {
		"user": operator(6, 18, "UTC"), "do": "create", "context": manual,
		"at": at("2026-03-10T20:10:00Z"), "allow": false, "ttl": 30,
	},
	"half an hour": {
		"user": operator(6, 18, "Asia/Kolkata"), "do": "create", "context": manual,
		"at": at("2026-01-10T12:29:00Z"), "allow": true, "ttl": 59,
	},
	"correction ends": {
		"user": operator(6, 18, "UTC"), "do": "update", "at": day, "allow": true, "ttl": 7,
		"context": object.union(manual, {"created_ns": (day - (24 * hour)) + (7 * second)}),
	},
	"correction begins": {
		"user": operator(6, 18, "UTC"), "do": "update", "at": day, "allow": false, "ttl": 7,
		"context": object.union(manual, {"created_ns": day + (7 * second)}),
	},
	"embargo ends": {
		"user": viewer, "do": "read", "at": day, "allow": false, "ttl": 12,
		"context": grouped((24 * hour) - (12 * second)),
	},
	"partnership ends": {
		"user": cooperator, "do": "create", "at": day, "allow": true, "ttl": 100,
		"context": {"parameter": "Flow", "office_id": "SWT"},
	},
}

test_lifetime[name] if {
	some name, l in lifetimes
	got := answer(l.user, l.do, l.context, l.at)
	got.allow == l.allow
	got.ttl == l.ttl
}

timeless := {
	"embargo over": {"user": viewer, "do": "read", "context": grouped(25 * hour), "at": day},
	"no embargo asked": {"user": viewer, "do": "read", "context": {"office_id": "SWT"}, "at": day},
	"exempt": {"user": object.union(viewer, {"persona": "water_manager"}), "do": "read", "context": grouped(0), "at": day},
	"operator reads": {"user": operator(6, 18, "UTC"), "do": "read", "context": manual, "at": day},
	"partnership over": {
		"user": object.union(cooperator, {"partnership_expiry_ns": day - 1}), "do": "read",
		"context": {"parameter": "Flow", "classification": "public"}, "at": day,
	},
	"administrator": {
		"user": object.union(operator(6, 18, "UTC"), {"roles": ["dam_operator", "system_admin"]}),
		"do": "create", "context": manual, "at": day,
	},
	"administrator corrects": {
		"user": object.union(operator(6, 18, "UTC"), {"roles": ["dam_operator", "system_admin"]}),
		"do": "update", "context": object.union(manual, {"created_ns": day}), "at": day,
	},
	"administrator by role reads": {
		"user": object.union(viewer, {"roles": ["system_admin"]}),
		"do": "read", "context": grouped(0), "at": day,
	},
	"hours of another's shift": {
		"user": object.union(operator(6, 18, "UTC"), {"roles": ["water_manager"]}),
		"do": "create", "context": manual, "at": day,
	},
	"corrections of others": {
		"user": {"id": "pat", "roles": ["water_manager"], "offices": ["SWT"]},
		"do": "update", "context": object.union(manual, {"created_ns": day}), "at": day,
	},
	"embargo does not stop writing": {"user": viewer, "do": "create", "context": grouped(0), "at": day},
	"no embargo, data of a fast clock": {
		"user": viewer, "do": "read", "at": day,
		"context": {"office_id": "SWT", "ts_group_id": "2", "timestamp_ns": day + (20 * second)},
	},
	"nobody": {"user": {}, "do": "create", "context": {}, "at": day},
}

test_no_lifetime_without_time[name] if {
	some name, l in timeless
	got := answer(l.user, l.do, l.context, l.at)
	not "ttl" in object.keys(got)
}

# Kept to the last second of its ttl, no answer outlives a change of the outcome.
test_lifetime_is_sound[name] if {
	some name, l in lifetimes
	got := answer(l.user, l.do, l.context, l.at)
	later := answer(l.user, l.do, l.context, (l.at + (got.ttl * second)) - 1)
	later.allow == got.allow
}

test_reason_outside_shift if {
	answer(operator(6, 18, "UTC"), "create", manual, at("2026-03-10T20:00:00Z")).reason == "Outside of the shift."
}

# A reason is given only where it is the one that decides.
test_reason_is_the_one[name] if {
	some name, c in {
		"reads elsewhere": {"user": operator(6, 6, "UTC"), "do": "read", "context": {"office_id": "SPK"}},
		"writes under embargo": {"user": viewer, "do": "create", "context": grouped(0)},
		"not bound by a shift": {
			"user": object.union(operator(6, 6, "UTC"), {"roles": ["water_manager"]}),
			"do": "create", "context": {"office_id": "SPK"},
		},
		"may never delete": {"user": operator(6, 6, "UTC"), "do": "delete", "context": manual},
		"in shift": {"user": operator(6, 18, "UTC"), "do": "create", "context": {"office_id": "SWT"}},
	}
	got := answer(c.user, c.do, c.context, day)
	got == object.union(got, {"allow": false, "reason": "No rule allows this."})
}
