package refused

allow if grants.admin

grants[role] contains user if some user, role in input.roles

grants.admin contains user if some user in input.admins
