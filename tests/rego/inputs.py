"""Inputs for policies/cwms and policies/example: as the proxy writes them (include/authz/input.h), then spoilt in any way
that a client, a profile or a mistake could spoil them. The same seed makes the same lines."""
import copy
import json
import random

NOW_NS = 1773145800000000000  # 2026-03-10T12:30:00Z
HOUR_NS = 3600 * 10**9

ROLES = ["dam_operator", "water_manager", "data_manager", "automated_collector", "automated_processor",
         "external_cooperator", "Viewer Users", "system_admin", "hec_employee", "admin", "writer", "System_Admin", ""]
OFFICES = ["SWT", "SPA", "GAL", "FTW", "SPK", "SPN", "SPL", "MVR", "MVS", "HQ", "LRL", "swt", "", "*"]
REGIONS = ["southwestern", "SWD", "south_pacific", "SPD", "mississippi", "MVD", "nowhere", ""]
RESOURCES = ["health", "ready", "metrics", "offices", "units", "parameters", "timezones", "timeseries", "locations",
             "measurements", "levels", "gates", "forecasts", "models", "scenarios", "ratings", "catalogs", "users", "unknown"]
ACTIONS = ["read", "create", "update", "delete", "unknown"]
METHODS = {"read": "GET", "create": "POST", "update": "PUT", "delete": "DELETE", "unknown": "BREW"}
NAMES = ["pat", "Pat", "kim", "ann", "anonymous", "Anonymous", "", "é", "ß", "\U0001f600", "x" * 300, "a\u0000b", "4711"]
ZONES = ["UTC", "America/Chicago", "America/Los_Angeles", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Chatham", "", "Local",
         "Mars/Base", "utc", "America/../UTC", "EST5EDT", "GMT"]
CLASSES = ["public", "internal", "sensitive", "restricted", "Public", ""]
SOURCES = ["MANUAL", "AUTOMATED", "CALCULATED", "manual", ""]
SEGMENTS = ["catalog", "docs", "users", "admin", "orders", "pat", "ann", "timeseries", "7", "é", "", "..", "Users"]
SPOILT = [None, True, False, 0, -1, 1.5, 1e15, 2**63 + 1, -(2**62), 2**53 + 1, "", "x", "null", "\u2028\ufffd", [], [[]], {}, {"a": 1},
          [None], ["SWT", 1, None], {"SWT": True}, [{"ts_group_id": {}}], "5", "1773145800000000000"]


def odd(r):
    return copy.deepcopy(r.choice(SPOILT))


def sometimes(r, chance, value):
    return {} if r.random() >= chance else value


def around(r, ns):
    """A moment near this one: exactly there, one beside it, hours or days away, or written as a float."""
    moved = ns + r.choice([0, 1, -1, r.randrange(-200, 200) * HOUR_NS, r.randrange(-HOUR_NS, HOUR_NS), -24 * HOUR_NS,
                           -168 * HOUR_NS, 1 - 24 * HOUR_NS, -1 - 168 * HOUR_NS])
    return r.choice([moved] * 8 + [float(moved // 10**9 * 10**9), -moved])  # a double has whole seconds exactly


def a_user(r, now):
    some = {"id": r.choice(NAMES), "username": r.choice(NAMES), "roles": r.sample(ROLES, r.randrange(0, 4)),
            "offices": r.sample(OFFICES, r.randrange(0, 4))}
    if r.random() < 0.7:
        some |= {"id": "pat", "username": "pat", "authenticated": True}
    some |= sometimes(r, 0.4, {"persona": r.choice(ROLES)})
    some |= sometimes(r, 0.4, {"region": r.choice(REGIONS)})
    some |= sometimes(r, 0.5, {"timezone": r.choice(ZONES)})
    some |= sometimes(r, 0.5, {"shift_start": r.choice([0, 6, 12, 13, 22, 24, 6.0, 6.5, -1, 25, r.randrange(25)]),
                               "shift_end": r.choice([0, 6, 12, 13, 18, 24, 18.0, 25, r.randrange(25)])})
    some |= sometimes(r, 0.3, {"authenticated": r.choice([True, False, "true", 1, None])})
    some |= sometimes(r, 0.3, {"auth_method": r.choice(["api_key", "jwt", "API_KEY"])})
    some |= sometimes(r, 0.4, {"allowed_parameters": r.sample(["Flow", "Stage", "flow", ""], 2)})
    some |= sometimes(r, 0.4, {"partnership_expiry_ns": around(r, now)})
    some |= sometimes(r, 0.4, {"ts_privileges": [a_privilege(r) for _ in range(r.randrange(4))]})
    return some


def a_privilege(r):
    return r.choice([{"ts_group_id": r.choice(["7", 7, 7.0, 8, "8", 7.5, None]),
                      "embargo_hours": r.choice([0, 1, 24, 168, 0.5, -1, 10**9, None, "24"])},
                     {"ts_group_id": "7"}, {}, "7", None, 7, []])


def a_context(r, now, action):
    some = {"method": METHODS[action], "path": "/" + r.choice(RESOURCES), "query": {}}
    some |= sometimes(r, 0.7, {"office_id": r.choice(OFFICES)})
    some |= sometimes(r, 0.5, {"data_source": r.choice(SOURCES)})
    some |= sometimes(r, 0.4, {"classification": r.choice(CLASSES)})
    some |= sometimes(r, 0.5, {"created_ns": around(r, now)})
    some |= sometimes(r, 0.5, {"timestamp_ns": around(r, now - 168 * HOUR_NS), "ts_group_id": r.choice(["7", 7, 7.0, 8, "é", 7.5])})
    some |= sometimes(r, 0.3, {"parameter": r.choice(["Flow", "Stage", "flow", ""])})
    some |= sometimes(r, 0.4, {"approval_status": "approved", "approver_id": r.choice(NAMES)})
    some |= sometimes(r, 0.3, {"calculation_metadata": odd(r)})
    some["timestamp"] = "2026-03-10T12:30:00Z"
    return some


def a_request(r, action):
    segments = r.choices(SEGMENTS, k=r.randrange(5))
    path = "/" + "/".join(segments)
    return {"method": METHODS[action], "path": path, "segments": segments, "query": r.choice([{}, {"office": "SWT"}]),
            "host": "api.example.org", "id": f"{r.randrange(2**32):08x}"}


def spoil(r, document):
    """Something in it, at any depth, is taken away, of another type, or there under another name."""
    while True:
        key = r.choice(list(document) if isinstance(document, dict) else range(len(document)))
        if isinstance(document[key], (dict, list)) and document[key] and r.random() < 0.75:
            document = document[key]
            continue
        break
    how = r.random()
    if how < 0.3:
        del document[key]
    elif how < 0.9 or isinstance(document, list):
        document[key] = odd(r)
    else:
        document[r.choice(["", "x", str(key).upper(), str(key) + " "])] = document.pop(key)


def an_input(r):
    action = r.choice(ACTIONS)
    now = NOW_NS + r.choice([0, 0, r.randrange(-4000, 4000) * HOUR_NS, r.randrange(10**15), 1])
    some = {"user": a_user(r, now), "resource": r.choice(RESOURCES), "action": action}
    some |= sometimes(r, 0.4, {"token": {"sub": "pat", "roles": r.sample(ROLES, 2), "exp": now // 10**9}})
    some |= sometimes(r, 0.4, {"source": {"ip": "192.0.2.7"}})
    some |= {"context": a_context(r, now, action), "request": a_request(r, action)}
    for _ in range(r.choice([0, 0, 0, 1, 1, 2, 3])):
        if some:
            spoil(r, some)
    return some | {"at": now}  # the clock is never spoilt


def lines(seed, n):
    r = random.Random(seed)
    made = [json.dumps(some) for some in (None, [], "x", 5, {}, True)]
    while len(made) < n:
        some = an_input(r)
        made.append(json.dumps(some, ensure_ascii=r.random() < 0.5))
    return made
