package bad

import data.a.x
import data.b.x

allow := x
