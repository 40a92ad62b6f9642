package refused

import data.other.roles

allow if roles.admin

roles := {"admin": true} if input.roles
