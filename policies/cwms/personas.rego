# Who may do what. One block a persona; a rule that holds adds its name to `grants`.
package cwms.authz

reference_data := {"offices", "units", "parameters", "timezones"}

# --- anyone ------------------------------------------------------------------------------------------------------

grants contains "service state" if input.resource in {"health", "ready", "metrics"}

grants contains "reference data" if {
	input.action == "read"
	input.resource in reference_data
}

grants contains "public time series" if {
	input.action == "read"
	input.resource == "timeseries"
	ctx.classification == "public"
	embargo_free
}

grants contains "public locations" if {
	input.action == "read"
	input.resource == "locations"
	ctx.classification == "public"
}

# --- dam_operator ------------------------------------------------------------------------------------------------

grants contains "dam operator reads" if {
	"dam_operator" in roles
	input.action == "read"
	input.resource in {"timeseries", "measurements", "levels", "gates", "locations"}
	office_accessible
	embargo_free
}

grants contains "dam operator creates" if {
	"dam_operator" in roles
	input.action == "create"
	manual_entry
}

grants contains "dam operator updates" if {
	"dam_operator" in roles
	input.action == "update"
	manual_entry
	created_lately
}

manual_entry if {
	input.resource in {"timeseries", "measurements"}
	ctx.data_source == "MANUAL"
	office_accessible
	in_shift
}

# --- water_manager -----------------------------------------------------------------------------------------------

water_managed := {"timeseries", "locations", "forecasts", "models", "scenarios"}

grants contains "water manager reads" if {
	"water_manager" in roles
	input.action == "read"
	input.resource in (water_managed | {"ratings", "levels"})
	office_accessible
}

grants contains "water manager writes" if {
	"water_manager" in roles
	input.action in {"create", "update"}
	input.resource in water_managed
	office_accessible
}

# --- data_manager ------------------------------------------------------------------------------------------------

deletable := {"timeseries", "locations", "catalogs", "ratings"}

grants contains "data manager" if {
	"data_manager" in roles
	input.action in {"read", "create", "update"}
	input.resource in (deletable | {"measurements", "levels"})
	office_accessible
}

grants contains "data manager deletes" if {
	"data_manager" in roles
	input.action == "delete"
	input.resource in deletable
	office_accessible
	approved_by_somebody_else
}

approved_by_somebody_else if {
	ctx.approval_status == "approved"
	is_string(ctx.approver_id)
	ctx.approver_id != ""
	not lower(ctx.approver_id) in names
}

# --- automated_collector -----------------------------------------------------------------------------------------

grants contains "collector" if {
	"automated_collector" in roles
	input.action == "create"
	input.resource == "timeseries"
	ctx.data_source == "AUTOMATED"
	office_accessible
	user.auth_method == "api_key"
}

# --- automated_processor -----------------------------------------------------------------------------------------

grants contains "processor reads" if {
	"automated_processor" in roles
	input.action == "read"
	input.resource == "timeseries"
	ctx.data_source in {"AUTOMATED", "MANUAL"}
	embargo_free
}

grants contains "processor writes" if {
	"automated_processor" in roles
	input.action in {"create", "update"}
	input.resource == "timeseries"
	ctx.data_source == "CALCULATED"
	not field(ctx, "calculation_metadata") in {null, false, "", [], {}}
}

# --- external_cooperator -----------------------------------------------------------------------------------------

grants contains "cooperator reads" if {
	cooperates
	input.action == "read"
	is_string(ctx.classification)
	not lower(ctx.classification) in {"", "sensitive"}
	embargo_free
}

grants contains "cooperator creates" if {
	cooperates
	input.action == "create"
	office_accessible
}

cooperates if {
	"external_cooperator" in roles
	input.resource == "timeseries"
	partnership_runs
	is_string(ctx.parameter)
	is_array(user.allowed_parameters)
	ctx.parameter in user.allowed_parameters
}

# --- Viewer Users (reference data as anyone) -------------------------------------------------------------------------

grants contains "viewer reads" if {
	"Viewer Users" in roles
	input.action == "read"
	input.resource in {"timeseries", "locations", "levels"}
	office_accessible
	embargo_free
}

# --- system_admin, hec_employee ----------------------------------------------------------------------------------

grants contains "administrator" if administrator

administrator if {
	some role in {"system_admin", "hec_employee"}
	role in roles
}
