# A policy for any API, to start from. Doorward asks for data.example.authz.allow.
#
#   anyone     reads what is public
#   signed in  reads everything else but /admin
#   writers    (role "writer") create and update, but not below /users and /admin
#   owners     do everything below /users/<their own id>
#   admins     (role "admin") do everything
package example.authz

allow := {"allow": count(because) > 0, "reason": reason}

reason := concat(", ", sort(because)) if {
	count(because) > 0
} else := "Sign in." if {
	not signed_in
} else := "Your roles do not allow this."

public_paths := {"catalog", "docs"}

because contains "public" if {
	input.action == "read"
	input.request.segments[0] in public_paths
}

because contains "signed in" if {
	signed_in
	input.action == "read"
	not guarded
}

because contains "writer" if {
	"writer" in roles
	input.action in {"create", "update"}
	not guarded
}

because contains "owner" if {
	signed_in
	input.request.segments[0] == "users"
	input.request.segments[1] == input.user.id
}

because contains "administrator" if "admin" in roles

# What only owners or administrators touch. A path that cannot be read is guarded.
guarded if input.request.segments[0] in {"admin", "users"}

guarded if not readable

readable if {
	is_array(input.request.segments)
	every segment in input.request.segments {
		is_string(segment)
	}
}

signed_in if {
	is_string(input.user.id)
	not input.user.id in {"", "anonymous"}
	object.get(input.user, "authenticated", true) == true
}

# From the context, else from the claims of the token that the proxy was told to pass on (tokens.claims: [roles]).
roles contains role if {
	signed_in
	some source in [input.user, object.get(input, "token", {})]
	is_array(source.roles)
	some role in source.roles
}
