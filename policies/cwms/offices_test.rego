# Office access: own offices, a data manager's region, the processor, the administrators.
package cwms.offices_test

import data.cwms.authz

reaches(user, office) if authz.office_accessible with input as {"user": user, "context": {"office_id": office}}

known := {"id": "pat", "roles": [], "offices": []}

districts := {
	"southwestern": {"SWT", "SPA", "GAL", "FTW"}, "SWD": {"SWT", "SPA", "GAL", "FTW"},
	"south_pacific": {"SPK", "SPN", "SPL"}, "SPD": {"SPK", "SPN", "SPL"},
	"mississippi": {"MVR", "MVS", "MVP", "MVM", "MVN"}, "MVD": {"MVR", "MVS", "MVP", "MVM", "MVN"},
	"headquarters": set(), "SWT": set(), "": set(),
}

every_office := {"SWT", "SPA", "GAL", "FTW", "SPK", "SPN", "SPL", "MVR", "MVS", "MVP", "MVM", "MVN", "HQ", "SWD", "LRL"}

test_region[region] if {
	some region, offices in districts
	user := object.union(known, {"region": region, "roles": ["data_manager"]})
	{o | some o in every_office; reaches(user, o)} == offices
}

test_region_by_persona if reaches(object.union(known, {"region": "SWD", "persona": "data_manager"}), "GAL")

test_region_of_others[role] if {
	some role in ["water_manager", "dam_operator", "Viewer Users", "external_cooperator", "automated_collector"]
	not reaches(object.union(known, {"region": "SWD", "roles": [role], "persona": role}), "GAL")
}

test_region_malformed[name] if {
	some name, region in {"list": ["SWD"], "true": true, "null": null, "object": {"SWD": "SWD"}}
	not reaches(object.union(known, {"region": region, "roles": ["data_manager"]}), "GAL")
}

test_own_offices if {
	reaches(object.union(known, {"offices": ["SWT", "HQ"]}), "HQ")
	not reaches(object.union(known, {"offices": ["SWT", "HQ"]}), "SPK")
	not reaches(object.union(known, {"offices": {"a": "HQ"}}), "HQ")
	not reaches(object.union(known, {"offices": [["HQ"]]}), ["HQ"])
	not reaches({"id": "anonymous", "offices": ["HQ"]}, "HQ")
	not reaches(object.union(known, {"offices": [""]}), "")
	not reaches(object.union(known, {"offices": ["*"]}), "HQ")
}

test_everywhere[name] if {
	some name, more in {
		"processor role": {"roles": ["automated_processor"]}, "processor persona": {"persona": "automated_processor"},
		"admin": {"roles": ["system_admin"]}, "hec": {"roles": ["hec_employee"]},
	}
	reaches(object.union(known, more), "LRL")
	not reaches(object.union(known, more), "")
	not reaches(object.union(known, more), ["LRL"])
	not reaches(object.union(object.union(known, more), {"authenticated": false}), "LRL")
}

test_admin_persona_is_no_role if not reaches(object.union(known, {"persona": "system_admin"}), "LRL")
