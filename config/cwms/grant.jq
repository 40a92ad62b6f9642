# User, decision and request -> the header x-cwms-auth-context.
# --- constraints: the same text in grant.jq and authorize.jq, since a shape has no modules ---------------------------
def has_role($names): any(.roles // [] | .[]; . as $role | any($names[]; . == $role));
def has_persona($names): .persona as $persona | any($names[]; . == $persona);

def exempt:
  has_persona(["data_manager", "water_manager", "system_admin"])
  or has_role(["system_admin", "hec_employee", "data_manager", "water_manager"]);

def embargo_rules:
  ([.ts_privileges // [] | .[] | .embargo_hours | numbers] | max // 0) as $greatest
  | if exempt or $greatest == 0 then {} else {default: $greatest} end;

def classifications:
  if has_role(["system_admin", "hec_employee", "water_manager"]) or has_persona(["data_manager"]) then
    ["public", "internal", "restricted", "sensitive"]
  elif .authenticated == true then ["public", "internal"]
  else ["public"] end;

def constraints($returned):
  {allowed_offices:
     (if has_persona(["automated_processor"]) or has_role(["system_admin"]) then ["*"] else .offices // [] end),
   embargo_rules: embargo_rules,
   embargo_exempt: exempt,
   ts_group_embargo:
     (if (.ts_privileges // []) == [] then null
      else reduce .ts_privileges[] as $group ({}; .[$group.ts_group_id | tostring] = $group.embargo_hours) end),
   time_window: (if has_persona(["dam_operator"]) then {restrict_hours: 8} else null end),
   data_classification: classifications}
  + ($returned.filters // {}) + ($returned.constraints // {});

def person:
  {id, username, email, roles: (.roles // []), offices: (.offices // []),
   primary_office: (.primary_office // (.offices // [])[0] // "HQ"), persona}
  | with_entries(select(.value != null));
# --- end of the common text -------------------------------------------------------------------------------------------

.decision as $decision
| {policy:
     (if $decision == null then null
      else {allow: $decision.allow, decision_id: $decision.id}
        + (if $decision.bypassed == true then {bypassed: true} else {} end) end),
   user: (.user | person + (if .ts_privileges == null then {} else {ts_privileges} end)),
   constraints: (.user | constraints($decision)),
   context: (($decision.headers // {}) + ($decision.context // {})),
   timestamp}
