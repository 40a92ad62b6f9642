# The decision document of the CWMS API. Doorward asks for data.cwms.authz.allow and forwards only when its `allow` is
# true. This file reads the input strictly and puts the answer together; personas.rego says who may do what,
# offices.rego where, time.rego when. Whatever is missing or of another type than expected denies.
package cwms.authz

# {"allow": bool, "reason": text, "ttl": seconds}. ttl is there only when the passing of time can change the outcome;
# without it the proxy keeps the answer as long as it is configured to.
allow := object.union({"allow": permitted, "reason": reason}, lifetime)

default permitted := false

permitted if count(grants) > 0

# Every rule of personas.rego that holds adds its name to `grants`; the first in the alphabet is the reason.
reason := sprintf("Allowed: %s.", [min(grants)]) if {
	permitted
} else := "The data is under embargo." if {
	input.action == "read"
	not embargo_free
} else := "Outside of the shift." if {
	bound_by_shift
	input.action in {"create", "update"}
	not in_shift
} else := "No rule allows this."

# --- the input, with types checked once --------------------------------------------------------------------------

default user := {}

user := input.user if is_object(input.user)

default ctx := {}

ctx := input.context if is_object(input.context)

# A field of the user or the context, null when it is absent.
field(document, name) := object.get(document, name, null)

# Who is asking, in lower case: the proxy keeps contexts under names without regard to case.
names contains lower(name) if {
	some key in ["id", "username"]
	name := user[key]
	is_string(name)
	name != ""
}

# Somebody whom the proxy knows. All others get what anyone gets, whatever roles stand in the input.
known if {
	count(names) > 0
	not "anonymous" in names
	object.get(user, "authenticated", true) == true
}

roles contains role if {
	known
	is_array(user.roles)
	some role in user.roles
	is_string(role)
}

# Where a rule speaks of a persona, the user's persona counts as well as the roles.
personas contains role if some role in roles

personas contains user.persona if {
	known
	is_string(user.persona)
}
