# input: {"user": {"id": "ann", "roles": ["editor"], "tenant": "t1"}, "request": {"method": "GET", "segments": ["tenants", "t1", "docs", "7"], "query": {"limit": "10"}}, "time": "2026-03-10T12:30:00Z"}
# input: {"user": {"id": "bob", "roles": ["viewer", "auditor"]}, "request": {"method": "POST", "segments": ["docs"]}, "time": "2026-03-14T12:30:00Z"}
# input: {"user": {"id": "root", "roles": ["admin"]}, "request": {"method": "DELETE", "segments": ["tenants", "t2"]}, "time": "bad"}
# input: {"user": null, "request": {}}
# input: {"user": {"id": "eve", "roles": {"admin": true}}, "request": {"method": "GET", "segments": "docs"}}
# input: {}
# input: null
# input: []
# input: "text"
package corpus.authorization

import data.corpus.authorization.helpers as h

default allow := {"allow": false, "reason": "no rule"}

allow := {"allow": true, "reason": concat(", ", sort(reasons)), "ttl": ttl} if count(reasons) > 0

permissions := {
	"viewer": {"docs": ["GET"]},
	"editor": {"docs": ["GET", "POST", "PUT"], "tenants": ["GET"]},
	"admin": {"docs": ["*"], "tenants": ["*"]},
}

reasons contains role if {
	some role in input.user.roles
	some verb in permissions[role][input.request.segments[0]]
	verb in {input.request.method, "*"}
	not tenant_differs
}

tenant_differs if {
	["tenants", tenant] = array.slice(input.request.segments, 0, 2)
	object.get(input, ["user", "tenant"], tenant) != tenant
}

default ttl := 60

ttl := 5 if weekend

weekend if time.weekday(time.parse_rfc3339_ns(input.time)) in {"Saturday", "Sunday"}

limit := to_number(input.request.query.limit)

denied[reason] if {
	some check, reason in {"id": "no id", "roles": "no roles"}
	not input.user[check]
}

path := concat("/", array.concat([""], input.request.segments))

matched if glob.match("/tenants/*/docs/**", ["/"], path)

owner if regex.match(sprintf("^/users/%s(/|$)", [input.user.id]), path)

whole := input

imported := h.shout(input.user.id)
