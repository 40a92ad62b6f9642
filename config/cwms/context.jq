# Profile of the CWMS Data API -> user context. Offices and roles stay in the order of the document. Written for speed.
# What may be an object is gathered first and worked on then: libjq 1.6 leaks when that fails half-way through one.
(.["user-name"] | if type == "string" and . != "" then . else error("the profile has no user-name") end) as $name
| (.roles // {}) as $by_office
| ($by_office | keys_unsorted) as $offices
| (.["ts-group-privileges"] // []) as $groups
| {id: $name, username: $name, email: (.email // "\($name | ascii_downcase)@usace.mil"),
   roles: (reduce ([$by_office[] // []] | [.[][]] | .[]) as $role ({}; .[$role] = true) | keys_unsorted),
   offices: $offices}
  + (if $offices == [] then {} else {primary_office: $offices[0]} end)
  + {authenticated: true}
  + (if $groups == [] then {}
     else {ts_privileges: [[$groups[]] | .[]
       | {ts_group_code: .["ts-group-code"], ts_group_id: .["ts-group-id"], privilege,
          embargo_hours: .["embargo-hours"]}]} end)
# What only some profiles have, under the names that the policies read.
  + (if .persona == null then {} else {persona} end)
  + ((.["shift-start"] // .shift_start) as $x | if $x == null then {} else {shift_start: $x} end)
  + ((.["shift-end"] // .shift_end) as $x | if $x == null then {} else {shift_end: $x} end)
  + (if .timezone == null then {} else {timezone} end)
  + (if .region == null then {} else {region} end)
  + ((.["allowed-parameters"] // .allowed_parameters) as $x
     | if $x == null then {} else {allowed_parameters: $x} end)
  + ((.["partnership-expiry-ns"] // .partnership_expiry_ns) as $x
     | if $x == null then {} else {partnership_expiry_ns: $x} end)
  + ((.["auth-method"] // .auth_method) as $x | if $x == null then {} else {auth_method: $x} end)
