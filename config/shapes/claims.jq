# Claims of a verified token -> user context, for when there is no profile to ask for. Claims of RFC 7519, RFC 9068
# (roles, groups, entitlements, scope, client_id) and OpenID Connect, where a token has them. A subject is one only
# within its issuer (RFC 7519 4.1.2): with several issuers, id alone names nobody.
def text: if type == "string" and . != "" then . else null end;
(.sub | text) as $sub
| ((.preferred_username | text) // (.username | text)) as $given
| ($sub // $given // (.client_id | text) // error("the token names nobody")) as $id
| {id: $id, username: ($given // $id), authenticated: true}
  + ({issuer: .iss, name, email, email_verified, roles: (.roles // (.realm_access | objects | .roles) // null),
      groups, entitlements, scope: (.scope // .scp), client_id: (.client_id // .azp)}
     | with_entries(select(.value != null)))
