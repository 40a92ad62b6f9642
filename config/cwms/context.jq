# Profile of the CWMS Data API -> user context. Offices and roles stay in the order of the document.
(.["user-name"] | if type == "string" and . != "" then . else error("the profile has no user-name") end) as $name
| (.roles // {}) as $by_office
| ($by_office | keys_unsorted) as $offices
| (reduce ($by_office[] // [] | .[]) as $role ([]; if any(.[]; . == $role) then . else . + [$role] end)) as $roles
| [.["ts-group-privileges"] // [] | .[]
   | {ts_group_code: .["ts-group-code"], ts_group_id: .["ts-group-id"], privilege, embargo_hours: .["embargo-hours"]}]
  as $groups
# What only some profiles have, under the names that the policies read.
| {persona, shift_start: (.["shift-start"] // .shift_start), shift_end: (.["shift-end"] // .shift_end), timezone, region,
   allowed_parameters: (.["allowed-parameters"] // .allowed_parameters),
   partnership_expiry_ns: (.["partnership-expiry-ns"] // .partnership_expiry_ns),
   auth_method: (.["auth-method"] // .auth_method)} as $more
| {id: $name, username: $name, email: (.email // "\($name | ascii_downcase)@usace.mil"), roles: $roles,
   offices: $offices}
  + (if $offices == [] then {} else {primary_office: $offices[0]} end)
  + {authenticated: true}
  + (if $groups == [] then {} else {ts_privileges: $groups} end)
  + ($more | with_entries(select(.value != null)))
