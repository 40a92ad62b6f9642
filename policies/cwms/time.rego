# What depends on the hour: shift, embargo, the window for corrections, partnerships, and how long an answer may be
# kept because of them. The time is the engine's own; nothing that a client sends is taken for it.
package cwms.authz

now_ns := time.now_ns()

second_ns := 1000000000

hour_ns := 3600 * second_ns

# --- shift -------------------------------------------------------------------------------------------------------

bound_by_shift if "dam_operator" in personas

# [hour, minute, second] where the user works. Undefined for a zone that does not exist; the engine's own zone
# ("Local") and the empty name are none of the user's.
shift_clock := time.clock([now_ns, user.timezone]) if {
	is_string(user.timezone)
	not user.timezone in {"", "Local"}
}

in_shift if not bound_by_shift

in_shift if {
	hour_of_day(user.shift_start)
	hour_of_day(user.shift_end)
	user.shift_start <= shift_clock[0]
	shift_clock[0] < user.shift_end
}

# 22 to 6: a shift across midnight has two parts.
in_shift if {
	shift_across_midnight
	user.shift_start <= shift_clock[0]
}

in_shift if {
	shift_across_midnight
	shift_clock[0] < user.shift_end
}

shift_across_midnight if {
	hour_of_day(user.shift_start)
	hour_of_day(user.shift_end)
	user.shift_start > user.shift_end
}

hour_of_day(x) if {
	is_number(x)
	x == floor(x)
	x >= 0
	x <= 24
}

# --- embargo -----------------------------------------------------------------------------------------------------

embargo_exempt if {
	some persona in {"data_manager", "water_manager", "system_admin", "hec_employee"}
	persona in personas
}

embargo_asked if {
	field(ctx, "timestamp_ns") != null
	field(ctx, "ts_group_id") != null
}

embargo_free if embargo_exempt

embargo_free if not embargo_asked

embargo_free if {
	is_number(ctx.timestamp_ns)
	embargo_hours == 0
}

embargo_free if now_ns >= embargo_end_ns

embargo_end_ns := ctx.timestamp_ns + (embargo_hours * hour_ns) if {
	embargo_asked
	is_number(ctx.timestamp_ns)
}

# Undefined, and so never over, when the group's name or one of its periods cannot be read.
embargo_hours := 168 if {
	id_text(ctx.ts_group_id)
	count(group_hours) == 0
} else := max(group_hours) if {
	count(group_hours) > 0
	every hours in group_hours {
		is_number(hours)
		hours >= 0
	}
}

group_hours contains hours if {
	known
	is_array(user.ts_privileges)
	some group in user.ts_privileges
	id_text(group.ts_group_id) == id_text(ctx.ts_group_id)
	hours := field(group, "embargo_hours")
	hours != null
}

# Ids come as numbers or as texts.
id_text(x) := x if {
	is_string(x)
} else := format_int(x, 10) if {
	is_number(x)
	x == floor(x)
}

# --- the last 24 hours, partnerships -------------------------------------------------------------------------------

created_lately if {
	is_number(ctx.created_ns)
	ctx.created_ns <= now_ns
	now_ns < correction_end_ns
}

correction_end_ns := ctx.created_ns + (24 * hour_ns) if is_number(ctx.created_ns)

partnership_runs if {
	is_number(user.partnership_expiry_ns)
	now_ns < user.partnership_expiry_ns
}

# --- how long an answer may be kept --------------------------------------------------------------------------------

# A bound for answers that depend on time, beside the next turn of events: a denial shorter, so that who was let in
# meanwhile does not wait.
kept_s := 300 if {
	permitted
} else := 30

default lifetime := {}

lifetime := {"ttl": max([0, floor((min(turns_ns) - now_ns) / second_ns)])} if {
	count(turns_ns) > 1
}

turns_ns contains now_ns + (kept_s * second_ns)

# A shift begins and ends on the hour of its zone. The second that runs counts as past: early by a part of it, never late.
next_hour_ns := (now_ns + hour_ns) - (seconds_past * second_ns) if {
	seconds_past := ((shift_clock[1] * 60) + shift_clock[2]) + 1
}

turns_ns contains next_hour_ns if {
	time_matters
	"dam_operator" in roles
	input.action in {"create", "update"}
}

turns_ns contains turn_ns if {
	time_matters
	"dam_operator" in roles
	input.action == "update"
	some turn_ns in {ctx.created_ns, correction_end_ns}
	turn_ns > now_ns
}

turns_ns contains embargo_end_ns if {
	time_matters
	input.action == "read"
	not embargo_exempt
	embargo_hours > 0
	embargo_end_ns > now_ns
}

turns_ns contains user.partnership_expiry_ns if {
	time_matters
	"external_cooperator" in roles
	input.resource == "timeseries"
	partnership_runs
}

time_matters if not administrator
