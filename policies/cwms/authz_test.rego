# Every row of the persona table, both ways; what is missing or of another type denies. Each case is an input made from
# a base by changes; a change to null takes the field out.
package cwms.authz_test

import data.cwms.authz

# 2026-03-10T12:30:00Z
noon := 1773145800000000000

hour := 3600000000000

with_changes(base, changes) := {k: v |
	some k, v in object.union(base, changes)
	v != null
}

decide(user, resource, action, context) := answer if {
	answer := authz.allow with input as {"user": user, "resource": resource, "action": action, "context": context}
		with time.now_ns as noon
}

may(user, resource, action, context) if decide(user, resource, action, context).allow == true

may_not(user, resource, action, context) if decide(user, resource, action, context).allow == false

person(role, more) := object.union(
	{"id": "pat", "username": "pat", "authenticated": true, "roles": [role], "offices": ["SWT"], "email": "pat@example.org"},
	more,
)

nobody := {"id": "anonymous", "username": "anonymous", "roles": [], "offices": [], "authenticated": false}

operator := person("dam_operator", {"persona": "dam_operator", "shift_start": 6, "shift_end": 18, "timezone": "UTC"})

water := person("water_manager", {})

manager := person("data_manager", {})

collector := person("automated_collector", {"auth_method": "api_key"})

processor := person("automated_processor", {})

cooperator := person("external_cooperator", {"allowed_parameters": ["Flow", "Stage"], "partnership_expiry_ns": noon + hour})

viewer := person("Viewer Users", {})

swt := {"office_id": "SWT"}

spk := {"office_id": "SPK"}

fresh := {"timestamp_ns": noon - hour, "ts_group_id": "7"}

old := {"timestamp_ns": noon - (169 * hour), "ts_group_id": "7"}

resources := {
	"health", "ready", "metrics", "offices", "units", "parameters", "timezones", "timeseries", "locations",
	"measurements", "levels", "gates", "forecasts", "models", "scenarios", "ratings", "catalogs", "users", "unknown",
}

actions := {"read", "create", "update", "delete", "unknown"}

# Exactly these pairs are allowed to a user in his own office, with a context that meets every further condition.
generous := {
	"office_id": "SWT", "data_source": "MANUAL", "created_ns": noon - hour, "approval_status": "approved",
	"approver_id": "kim", "parameter": "Flow", "classification": "internal", "calculation_metadata": {"method": "sum"},
}

pairs(user, context) := {[a, r] |
	some a in actions
	some r in resources
	may(user, r, a, context)
}

product(some_actions, some_resources) := {[a, r] | some a in some_actions; some r in some_resources}

anyone := service_state | product({"read"}, {"offices", "units", "parameters", "timezones"})

service_state := product(actions, {"health", "ready", "metrics"})

test_anonymous_may_exactly if pairs(nobody, generous) == anyone

test_no_user_may_exactly if pairs({}, generous) == anyone

test_dam_operator_may_exactly if {
	reads := product({"read"}, {"timeseries", "measurements", "levels", "gates", "locations"})
	writes := product({"create", "update"}, {"timeseries", "measurements"})
	more := reads | writes
	pairs(operator, generous) == anyone | more
}

test_water_manager_may_exactly if {
	common := product({"read", "create", "update"}, {"timeseries", "locations", "forecasts", "models", "scenarios"})
	more := common | product({"read"}, {"ratings", "levels"})
	pairs(water, generous) == anyone | more
}

test_data_manager_may_exactly if {
	common := product({"read", "create", "update", "delete"}, {"timeseries", "locations", "catalogs", "ratings"})
	more := common | product({"read", "create", "update"}, {"measurements", "levels"})
	pairs(manager, generous) == anyone | more
}

test_automated_collector_may_exactly if pairs(collector, generous) == anyone

test_automated_processor_may_exactly if pairs(processor, generous) == anyone | product({"read"}, {"timeseries"})

test_external_cooperator_may_exactly if {
	pairs(cooperator, generous) == anyone | product({"read", "create"}, {"timeseries"})
}

test_viewer_may_exactly if {
	pairs(viewer, generous) == anyone | product({"read"}, {"timeseries", "locations", "levels"})
}

test_system_admin_may_exactly if {
	pairs(person("system_admin", {"offices": []}), generous) == anyone | product(actions, resources)
}

test_hec_employee_may_exactly if {
	pairs(person("hec_employee", {"offices": []}), generous) == anyone | product(actions, resources)
}

test_unknown_role_may_exactly if pairs(person("dam operator", {}), generous) == anyone

test_role_in_other_case_may_exactly if pairs(person("System_Admin", {}), generous) == anyone

# The same in somebody else's office, and while data is under embargo.
elsewhere := object.union(generous, {"office_id": "SPK"})

test_operator_elsewhere if pairs(operator, elsewhere) == anyone

test_collector_elsewhere if pairs(collector, object.union(elsewhere, {"data_source": "AUTOMATED"})) == anyone

test_viewer_elsewhere if pairs(viewer, elsewhere) == anyone

test_water_manager_elsewhere if pairs(water, elsewhere) == anyone

test_data_manager_elsewhere if pairs(manager, elsewhere) == anyone

test_cooperator_elsewhere if pairs(cooperator, elsewhere) == anyone | {["read", "timeseries"]}

test_embargo_stops_reading[name] if {
	some name, user in {"operator": operator, "processor": processor, "cooperator": cooperator, "viewer": viewer}
	every resource in {"timeseries", "measurements", "levels", "gates", "locations"} {
		may_not(user, resource, "read", object.union(generous, fresh))
	}
}

test_embargo_exempts[name] if {
	some name, user in {"water": water, "manager": manager}
	may(user, "timeseries", "read", object.union(generous, fresh))
}

# Only time series and locations are read for being public.
test_public_class_of_others if {
	pairs(nobody, object.union(generous, {"classification": "public"})) == anyone | product({"read"}, {"timeseries", "locations"})
}

# The automata have other data sources.
test_collector_pairs if {
	pairs(collector, object.union(generous, {"data_source": "AUTOMATED"})) == anyone | {["create", "timeseries"]}
}

test_processor_pairs if {
	pairs(processor, object.union(generous, {"data_source": "CALCULATED"})) == anyone | product({"create", "update"}, {"timeseries"})
}

# --- anyone ------------------------------------------------------------------------------------------------------

test_public_timeseries if may(nobody, "timeseries", "read", {"classification": "public"})

test_public_locations if may(nobody, "locations", "read", {"classification": "public"})

test_public_is_read_only if {
	every a in actions - {"read"} {
		may_not(nobody, "timeseries", a, {"classification": "public"})
		may_not(nobody, "locations", a, {"classification": "public"})
	}
}

test_not_public[classification] if {
	some classification in ["internal", "Public", "", true, 1, ["public"], {"public": true}, null]
	context := with_changes({}, {"classification": classification})
	may_not(nobody, "timeseries", "read", context)
	may_not(nobody, "locations", "read", context)
}

test_public_embargo if {
	may_not(nobody, "timeseries", "read", object.union(fresh, {"classification": "public"}))
	may(nobody, "timeseries", "read", object.union(old, {"classification": "public"}))
	may(nobody, "locations", "read", object.union(fresh, {"classification": "public"}))
}

# --- an anonymous user has no roles, whatever the input says -------------------------------------------------------

test_anonymous_with_roles[name] if {
	some name, changes in {
		"id": {"id": "anonymous"},
		"id in capitals": {"id": "Anonymous"},
		"username": {"username": "anonymous"},
		"not authenticated": {"authenticated": false},
		"authenticated is a text": {"authenticated": "true"},
		"authenticated is a number": {"authenticated": 1},
		"no name": {"id": null, "username": null},
		"empty name": {"id": "", "username": ""},
		"name is a number": {"id": 1, "username": 2},
	}
	user := with_changes(person("system_admin", {}), changes)
	may_not(user, "users", "delete", generous)
	may(user, "offices", "read", {})
}

# What-if users of /authorize have no `authenticated`.
test_one_name_is_enough if {
	may({"id": "x", "roles": ["system_admin"]}, "users", "delete", {})
	may({"username": "x", "roles": ["hec_employee"]}, "users", "delete", {})
}

test_roles_of_another_type[name] if {
	some name, given in {
		"text": "system_admin", "object": {"system_admin": true}, "object of texts": {"SWT": "system_admin"},
		"nested": [["system_admin"]], "true": true, "number": 1, "absent": null, "objects": [{"role": "system_admin"}],
	}
	may_not(with_changes(person("x", {}), {"roles": given}), "users", "delete", generous)
}

# The table speaks of roles: a persona alone opens none of its rows.
test_persona_is_no_role[name] if {
	some name, q in allowed
	some role in q.user.roles
	may_not(object.union(q.user, {"roles": [], "persona": role}), q.resource, q.action, q.context)
}

test_administrator_persona_is_no_role if {
	may_not(person("x", {"persona": "system_admin"}), "users", "read", swt)
	may_not(person("x", {"persona": "hec_employee"}), "users", "read", swt)
}

# --- missing and malformed fields ----------------------------------------------------------------------------------

# For each persona one question that is allowed; taking out or spoiling any of the fields named denies it.
allowed := {
	"operator reads": {"user": operator, "resource": "timeseries", "action": "read", "context": swt},
	"operator creates": {
		"user": operator, "resource": "measurements", "action": "create",
		"context": {"office_id": "SWT", "data_source": "MANUAL"},
	},
	"operator updates": {
		"user": operator, "resource": "timeseries", "action": "update",
		"context": {"office_id": "SWT", "data_source": "MANUAL", "created_ns": noon - (23 * hour)},
	},
	"water manager": {"user": water, "resource": "models", "action": "create", "context": swt},
	"data manager": {"user": manager, "resource": "catalogs", "action": "update", "context": swt},
	"data manager deletes": {
		"user": manager, "resource": "ratings", "action": "delete",
		"context": {"office_id": "SWT", "approval_status": "approved", "approver_id": "kim"},
	},
	"collector": {
		"user": collector, "resource": "timeseries", "action": "create",
		"context": {"office_id": "SWT", "data_source": "AUTOMATED"},
	},
	"processor reads": {"user": processor, "resource": "timeseries", "action": "read", "context": {"data_source": "AUTOMATED"}},
	"processor writes": {
		"user": processor, "resource": "timeseries", "action": "update",
		"context": {"data_source": "CALCULATED", "calculation_metadata": {"method": "mean"}},
	},
	"cooperator reads": {
		"user": cooperator, "resource": "timeseries", "action": "read",
		"context": {"parameter": "Stage", "classification": "restricted"},
	},
	"cooperator creates": {
		"user": cooperator, "resource": "timeseries", "action": "create",
		"context": {"parameter": "Flow", "office_id": "SWT"},
	},
	"viewer": {"user": viewer, "resource": "levels", "action": "read", "context": swt},
}

test_allowed[name] if {
	some name, q in allowed
	may(q.user, q.resource, q.action, q.context)
}

test_fields_of_operator_reads if every_field_counts(allowed["operator reads"])

test_fields_of_operator_creates if every_field_counts(allowed["operator creates"])

test_fields_of_operator_updates if every_field_counts(allowed["operator updates"])

test_fields_of_water_manager if every_field_counts(allowed["water manager"])

test_fields_of_data_manager if every_field_counts(allowed["data manager"])

test_fields_of_data_manager_deletes if every_field_counts(allowed["data manager deletes"])

test_fields_of_collector if every_field_counts(allowed.collector)

test_fields_of_processor_reads if every_field_counts(allowed["processor reads"])

test_fields_of_processor_writes if every_field_counts(allowed["processor writes"])

test_fields_of_cooperator_reads if every_field_counts(allowed["cooperator reads"])

test_fields_of_cooperator_creates if every_field_counts(allowed["cooperator creates"])

test_fields_of_viewer if every_field_counts(allowed.viewer)

test_fields_of_all if count(allowed) == 12

every_field_counts(q) if {
	every key, value in q.context {
		every spoiled in [null, [value], {"a": value}, true, -1, ""] {
			spoiled_denies(q, key, spoiled)
		}
	}
	every key in needed(q) {
		every spoiled in [null, "other", [["SWT"]], {"SWT": "SWT"}, true, ""] {
			may_not(with_changes(q.user, {key: spoiled}), q.resource, q.action, q.context)
		}
	}
}

spoiled_denies(q, key, spoiled) if may_not(q.user, q.resource, q.action, with_changes(q.context, {key: spoiled}))

# Of the calculation's metadata only the presence is asked.
spoiled_denies(_, "calculation_metadata", spoiled) if not spoiled in {null, ""}

test_metadata_present[name] if {
	some name, given in {"null": null, "false": false, "text": "", "list": [], "object": {}}
	context := object.union({"data_source": "CALCULATED"}, {"calculation_metadata": given})
	may_not(processor, "timeseries", "create", context)
}

needed(q) := ({"roles"} | of_office(q)) | of_role(q)

of_office(q) := {k | q.context.office_id; k := "offices"}

of_role(q) := {"shift_start", "shift_end", "timezone"} if {
	"dam_operator" in q.user.roles
	q.action in {"create", "update"}
} else := {"auth_method"} if {
	"automated_collector" in q.user.roles
} else := {"allowed_parameters", "partnership_expiry_ns"} if {
	"external_cooperator" in q.user.roles
} else := set()

in_an_office := {name: q | some name, q in allowed; q.context.office_id}

with_a_source := {name: q | some name, q in allowed; q.context.data_source}

test_wrong_office[name] if {
	some name, q in in_an_office
	every o in ["SPK", "swt", "SWT ", "SWT,SPK", "*"] {
		may_not(q.user, q.resource, q.action, object.union(q.context, {"office_id": o}))
	}
}

test_wrong_data_source[name] if {
	some name, q in with_a_source
	every source in ["manual", "OTHER", "MANUAL,AUTOMATED"] {
		may_not(q.user, q.resource, q.action, object.union(q.context, {"data_source": source}))
	}
}

test_odd_inputs_deny[name] if {
	some name, document in {
		"empty": {}, "null": null, "text": "x", "list": [1],
		"user is a text": {"user": "pat", "resource": "users", "action": "read", "context": {}},
		"user is a list": {"user": [operator], "resource": "users", "action": "read", "context": {}},
		"resource is a list": {"user": nobody, "resource": ["health"], "action": "read", "context": {}},
		"resource is missing": {"user": nobody, "action": "read", "context": {}},
		"action is missing": {"user": nobody, "resource": "offices", "context": {}},
		"action is a list": {"user": nobody, "resource": "offices", "action": ["read"], "context": {}},
		"context is a text": {"user": viewer, "resource": "levels", "action": "read", "context": "SWT"},
		"context is missing": {"user": viewer, "resource": "levels", "action": "read"},
		"method does not count": {"user": viewer, "resource": "levels", "context": {"office_id": "SWT", "method": "GET"}},
	}
	answer := authz.allow with input as document with time.now_ns as noon
	answer.allow == false
	is_string(answer.reason)
}

test_no_input_at_all if authz.allow.allow == false

test_allow_is_always_a_document[name] if {
	some name, q in allowed
	answer := decide(q.user, q.resource, q.action, q.context)
	answer.allow == true
	startswith(answer.reason, "Allowed: ")
	object.keys(answer) - {"allow", "reason", "ttl"} == set()
}

# --- delete --------------------------------------------------------------------------------------------------------

test_delete_needs_another_approver[name] if {
	some name, context in {
		"himself": {"approver_id": "pat"}, "himself in capitals": {"approver_id": "PAT"}, "nobody": {"approver_id": null},
		"pending": {"approval_status": "pending"}, "capitals": {"approval_status": "APPROVED"},
		"no status": {"approval_status": null}, "true": {"approval_status": true},
	}
	may_not(manager, "timeseries", "delete", with_changes(generous, context))
}

test_delete_by_username if {
	user := object.union(manager, {"id": "4711", "username": "pat"})
	may_not(user, "timeseries", "delete", object.union(generous, {"approver_id": "pat"}))
	may_not(user, "timeseries", "delete", object.union(generous, {"approver_id": "4711"}))
	may(user, "timeseries", "delete", generous)
}

# --- automata --------------------------------------------------------------------------------------------------------

test_collector_by_other_method if {
	every method in ["jwt", "API_KEY", "api-key"] {
		may_not(object.union(collector, {"auth_method": method}), "timeseries", "create", {
			"office_id": "SWT",
			"data_source": "AUTOMATED",
		})
	}
}

test_collector_method_in_context_does_not_count if {
	may_not(person("automated_collector", {}), "timeseries", "create", {"office_id": "SWT", "data_source": "AUTOMATED", "auth_method": "api_key"})
}

test_processor_reads if {
	may(processor, "timeseries", "read", {"data_source": "MANUAL"})
	may_not(processor, "timeseries", "read", {"data_source": "CALCULATED"})
	may_not(processor, "timeseries", "read", object.union(fresh, {"data_source": "MANUAL"}))
	may(processor, "timeseries", "read", object.union(old, {"data_source": "MANUAL"}))
	may_not(processor, "timeseries", "create", {"data_source": "MANUAL", "calculation_metadata": {"a": 1}})
}

# --- cooperator ------------------------------------------------------------------------------------------------------

test_cooperator_reads[name] if {
	some name, changes in {
		"sensitive": {"classification": "sensitive"}, "capitals": {"classification": "SENSITIVE"},
		"unclassified": {"classification": null}, "other parameter": {"parameter": "Precip"},
		"parameter in other case": {"parameter": "flow"}, "embargo": fresh,
	}
	context := {"parameter": "Flow", "classification": "public", "office_id": "SPK"}
	may(cooperator, "timeseries", "read", object.union(context, {"classification": "internal"}))

	# Public time series are anybody's: ask for another class where the case does not.
	may_not(cooperator, "timeseries", "read", with_changes(object.union(context, {"classification": "internal"}), changes))
}

test_parameters_are_a_list if {
	user := object.union(cooperator, {"allowed_parameters": {"a": "Flow"}})
	may_not(user, "timeseries", "create", {"parameter": "Flow", "office_id": "SWT"})
}

test_partnership if {
	q := allowed["cooperator creates"]
	may(object.union(cooperator, {"partnership_expiry_ns": noon + 1}), q.resource, q.action, q.context)
	may_not(object.union(cooperator, {"partnership_expiry_ns": noon}), q.resource, q.action, q.context)
	may_not(object.union(cooperator, {"partnership_expiry_ns": noon - hour}), q.resource, q.action, q.context)
}

# --- several roles -----------------------------------------------------------------------------------------------------

test_roles_add_up if {
	both := object.union(viewer, {"roles": ["Viewer Users", "water_manager"]})
	may(both, "models", "create", swt)
	may(both, "levels", "read", object.union(swt, fresh))
	may_not(both, "gates", "read", swt)
}
