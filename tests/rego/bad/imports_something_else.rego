package bad

import foo.bar

allow := 1
