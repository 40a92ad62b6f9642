package example.authz_test

import data.example.authz

ann := {"id": "ann", "roles": []}

writer := {"id": "wim", "roles": ["writer"]}

admin := {"id": "ada", "roles": ["admin"]}

nobody := {"id": "anonymous", "authenticated": false, "roles": []}

ask(user, action, path) := answer if {
	request := {"segments": [s | some s in split(path, "/"); s != ""]}
	answer := authz.allow with input as {"user": user, "action": action, "request": request, "token": {}}
}

cases := {
	"anyone reads the catalog": {"user": nobody, "action": "read", "path": "catalog/7", "allow": true},
	"anyone writes the catalog": {"user": nobody, "action": "create", "path": "catalog", "allow": false},
	"anyone reads orders": {"user": nobody, "action": "read", "path": "orders", "allow": false},
	"no user": {"user": {}, "action": "read", "path": "orders", "allow": false},
	"reads orders": {"user": ann, "action": "read", "path": "orders", "allow": true},
	"writes orders": {"user": ann, "action": "update", "path": "orders", "allow": false},
	"reads admin": {"user": ann, "action": "read", "path": "admin", "allow": false},
	"reads the root": {"user": ann, "action": "read", "path": "", "allow": true},
	"owner reads": {"user": ann, "action": "read", "path": "users/ann", "allow": true},
	"owner deletes": {"user": ann, "action": "delete", "path": "users/ann/keys/1", "allow": true},
	"another's": {"user": ann, "action": "read", "path": "users/bob", "allow": false},
	"all users": {"user": ann, "action": "read", "path": "users", "allow": false},
	"owner elsewhere": {"user": ann, "action": "delete", "path": "orders/ann", "allow": false},
	"nobody owns": {"user": nobody, "action": "read", "path": "users/anonymous", "allow": false},
	"writer": {"user": writer, "action": "create", "path": "orders", "allow": true},
	"writer deletes": {"user": writer, "action": "delete", "path": "orders/1", "allow": false},
	"writer writes admin": {"user": writer, "action": "create", "path": "admin/x", "allow": false},
	"writer writes others": {"user": writer, "action": "update", "path": "users/ann", "allow": false},
	"admin": {"user": admin, "action": "delete", "path": "admin/x", "allow": true},
	"not signed in, with roles": {
		"user": object.union(admin, {"authenticated": false}),
		"action": "delete", "path": "orders/1", "allow": false,
	},
	"roles are a text": {"user": {"id": "x", "roles": "admin"}, "action": "delete", "path": "orders/1", "allow": false},
}

test_who_may_what[name] if {
	some name, c in cases
	ask(c.user, c.action, c.path).allow == c.allow
}

test_roles_of_the_token if {
	question := {"user": ann, "action": "delete", "request": {"segments": ["orders"]}, "token": {"roles": ["admin"]}}
	answer := authz.allow with input as question
	answer.allow == true
	answer.reason == "administrator"
}

test_missing_fields_deny[name] if {
	some name, document in {
		"nothing": {}, "no request": {"user": ann, "action": "read"},
		"segments are a text": {"user": ann, "action": "read", "request": {"segments": "catalog"}},
		"segments are lists": {"user": ann, "action": "read", "request": {"segments": [["admin"]]}},
		"no action": {"user": writer, "request": {"segments": ["catalog"]}},
	}
	answer := authz.allow with input as document
	answer.allow == false
}

test_reasons if {
	ask(nobody, "read", "orders").reason == "Sign in."
	ask(ann, "update", "orders").reason == "Your roles do not allow this."
}
