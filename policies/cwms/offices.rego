# Which offices a user can reach.
package cwms.authz

# A region's offices, under the region's name and its division's code.
southwestern := {"SWT", "SPA", "GAL", "FTW"}

south_pacific := {"SPK", "SPN", "SPL"}

mississippi := {"MVR", "MVS", "MVP", "MVM", "MVN"}

regions := {
	"southwestern": southwestern,
	"SWD": southwestern,
	"south_pacific": south_pacific,
	"SPD": south_pacific,
	"mississippi": mississippi,
	"MVD": mississippi,
}

office := ctx.office_id if {
	is_string(ctx.office_id)
	ctx.office_id != ""
}

office_accessible if {
	known
	is_array(user.offices)
	office in user.offices
}

office_accessible if {
	"data_manager" in personas
	is_string(user.region)
	office in regions[user.region]
}

office_accessible if {
	"automated_processor" in personas
	office
}

office_accessible if {
	administrator
	office
}
