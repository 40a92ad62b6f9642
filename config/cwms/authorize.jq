# User, decision and request -> the answer of POST /authorize.
# --- constraints: the same text in grant.jq and authorize.jq, since a shape has no modules ---------------------------
# Written for speed: a shape runs for every new URL. Roles become an object, since looking one up in it costs little.
def constraints($decision):
  (reduce (.roles // [])[] as $role ({}; .[$role | tostring] = true)) as $has
  | (.ts_privileges // []) as $groups
  | ($has.system_admin == true) as $admin
  | ($admin or $has.hec_employee == true or $has.water_manager == true) as $trusted
  | .persona as $persona
  | ($trusted or $persona == "data_manager" or $persona == "water_manager" or $persona == "system_admin"
     or $has.data_manager == true) as $exempt
  | {allowed_offices: (if $admin or $persona == "automated_processor" then ["*"] else .offices // [] end),
     embargo_rules:
       (if $exempt or $groups == [] then {}
        else ([$groups[].embargo_hours | numbers] | max // 0) | if . == 0 then {} else {default: .} end end),
     embargo_exempt: $exempt,
     ts_group_embargo:
       (if $groups == [] then null
        else reduce $groups[] as $group ({}; .[$group.ts_group_id | tostring] = $group.embargo_hours) end),
     time_window: (if $persona == "dam_operator" then {restrict_hours: 8} else null end),
     data_classification:
       (if $trusted or $persona == "data_manager" then ["public", "internal", "restricted", "sensitive"]
        elif .authenticated == true then ["public", "internal"]
        else ["public"] end)}
    + ($decision.filters // {}) + ($decision.constraints // {});

def person:
  {id, username: (.username // .id)}
  + (if .email == null then {} else {email} end)
  + {roles: (.roles // []), offices: (.offices // []), primary_office: (.primary_office // .offices[0] // "HQ")}
  + (if .persona == null then {} else {persona} end);
# --- end of the common text -------------------------------------------------------------------------------------------

.decision as $decision
| {decision:
     {allow: $decision.allow, decision_id: $decision.id,
      reason:
        ($decision.reason // if $decision.allow then "Access allowed by policy." else "Access denied by policy." end)},
   user: (.user | person),
   # a what-if user is one who is known, unless it says otherwise
   constraints: (.user | if .authenticated == null then .authenticated = true else . end | constraints($decision)),
   timestamp}
