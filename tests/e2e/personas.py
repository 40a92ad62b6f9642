"""What the API must see of each user of demo/users.json, written out by hand from the rules, and what each may do."""

ALL_CLASSES = ["public", "internal", "restricted", "sensitive"]
SIGNED_IN = ["public", "internal"]


def expected(user_id, email, roles, offices, persona=None, privileges=None, primary=None, **constraints):
    """The user and the constraints of the header; `primary` where it is not the first office."""
    return {
        "user": {"id": user_id, "username": user_id, "email": email, "roles": roles, "offices": offices,
                 "primary_office": primary or offices[0], "persona": persona, "ts_privileges": privileges},
        "constraints": {"allowed_offices": offices, "embargo_rules": {}, "embargo_exempt": False,
                        "ts_group_embargo": None, "time_window": None, "data_classification": SIGNED_IN, **constraints},
    }


def privilege(code, group, what, hours):
    return {"ts_group_code": code, "ts_group_id": group, "privilege": what, "embargo_hours": hours}


SEEN = {
    None: {
        "user": {"id": "anonymous", "username": "anonymous", "email": None, "roles": [], "offices": [],
                 "primary_office": "HQ", "persona": None, "ts_privileges": None},
        "constraints": {"allowed_offices": [], "embargo_rules": {}, "embargo_exempt": False, "ts_group_embargo": None,
                        "time_window": None, "data_classification": ["public"]},
    },
    "damop": expected(
        "DAMOP", "damop@example.org", ["dam_operator", "CWMS Users"], ["SWT", "SPK"], "dam_operator",
        [privilege("SWT-GATES", "11", "read-write", 24), privilege("SWT-RAW", "12", "read", 72)],
        embargo_rules={"default": 72}, ts_group_embargo={"11": 24, "12": 72}, time_window={"restrict_hours": 8}),
    "damop-off": expected(
        "DAMOP-OFF", "damop-off@usace.mil", ["dam_operator"], ["SWT"], "dam_operator",
        time_window={"restrict_hours": 8}),
    "water": expected(
        "WATER", "water@example.org", ["water_manager", "CWMS Users"], ["SPK", "SPL"], "water_manager",
        [privilege("SPK-ALL", "21", "read-write", 48)],
        embargo_exempt=True, ts_group_embargo={"21": 48}, data_classification=ALL_CLASSES),
    "manager": expected(
        "MANAGER", "manager@example.org", ["data_manager"], ["SWT"], "data_manager",
        embargo_exempt=True, data_classification=ALL_CLASSES),
    "collector": expected("COLLECTOR", "collector@usace.mil", ["automated_collector"], ["SWT"], "automated_collector"),
    "processor": expected(
        "PROCESSOR", "processor@usace.mil", ["automated_processor"], ["HQ"], "automated_processor",
        allowed_offices=["*"]),
    "cooperator": expected(
        "COOPERATOR", "partner@example.com", ["external_cooperator"], ["SWT"], "external_cooperator"),
    "viewer": expected(
        "VIEWER", "viewer@usace.mil", ["Viewer Users"], ["SWT", "LRL"], None,
        [privilege("SWT-FREE", "31", "read", 0), privilege("SWT-HELD", "32", "read", 96)],
        embargo_rules={"default": 96}, ts_group_embargo={"31": 0, "32": 96}),
    "admin": expected(
        "ADMIN", "admin@example.org", ["system_admin", "CWMS Users"], ["HQ"], "system_admin",
        allowed_offices=["*"], embargo_exempt=True, data_classification=ALL_CLASSES),
    "hec": expected(
        "HEC", "hec@example.org", ["hec_employee"], ["HEC"], embargo_exempt=True, data_classification=ALL_CLASSES),
    "plain": expected("Plain.User", "plain.user@usace.mil", [], [], primary="HQ"),
}

# (user, method, query of /cwms-data/timeseries, allowed)
MAY = [
    (None, "GET", "", False),
    (None, "GET", "classification=public", True),
    (None, "GET", "classification=internal", False),
    (None, "POST", "classification=public", False),
    ("plain", "GET", "office=SWT", False),
    ("plain", "GET", "office=SWT&classification=public", True),
    ("damop", "GET", "office=SWT", True),
    ("damop", "HEAD", "office=SWT", True),
    ("damop", "GET", "office_id=SPK", True),
    ("damop", "GET", "office=LRL", False),
    ("damop", "GET", "", False),
    ("damop", "POST", "office=SWT&data_source=MANUAL", True),
    ("damop", "POST", "office=SWT&data_source=AUTOMATED", False),
    ("damop", "POST", "office=SWT", False),
    ("damop", "PUT", "office=SWT&data_source=MANUAL", False),
    ("damop", "DELETE", "office=SWT&data_source=MANUAL", False),
    ("damop-off", "GET", "office=SWT", True),
    ("damop-off", "POST", "office=SWT&data_source=MANUAL", False),
    ("water", "GET", "office=SPL", True),
    ("water", "GET", "office=SWT", False),
    ("water", "POST", "office=SPK", True),
    ("water", "PUT", "office=SPK", True),
    ("water", "PATCH", "office=SPK", True),
    ("water", "DELETE", "office=SPK", False),
    ("manager", "GET", "office=SWT", True),
    ("manager", "GET", "office=FTW", True),
    ("manager", "POST", "office=GAL", True),
    ("manager", "GET", "office=SPK", False),
    ("manager", "DELETE", "office=SWT", False),
    ("collector", "POST", "office=SWT&data_source=AUTOMATED", True),
    ("collector", "POST", "office=SWT&data_source=MANUAL", False),
    ("collector", "POST", "office=SPK&data_source=AUTOMATED", False),
    ("collector", "GET", "office=SWT&data_source=AUTOMATED", False),
    ("processor", "GET", "data_source=AUTOMATED", True),
    ("processor", "GET", "data_source=MANUAL", True),
    ("processor", "GET", "data_source=CALCULATED", False),
    ("processor", "POST", "data_source=CALCULATED", False),
    ("cooperator", "GET", "office=SWT", False),
    ("cooperator", "GET", "classification=public", True),
    ("viewer", "GET", "office=SWT", True),
    ("viewer", "GET", "office=LRL", True),
    ("viewer", "GET", "office=SPK", False),
    ("viewer", "POST", "office=SWT", False),
    ("admin", "GET", "", True),
    ("admin", "DELETE", "office=LRL", True),
    ("hec", "PATCH", "", True),
    ("hec", "DELETE", "office=SPK", True),
]

HOUR_NS = 3600 * 10**9

# (name, user of a what-if question, resource, action, context with ages in place of times, allowed)
PERSON = {"id": "PAT", "username": "PAT", "offices": ["SWT"]}


def person(role, **more):
    return {**PERSON, "roles": [role], "persona": role, **more}


OPERATOR = person("dam_operator", shift_start=0, shift_end=24, timezone="UTC")
OPERATOR_OFF = person("dam_operator", shift_start=6, shift_end=6, timezone="UTC")
OPERATOR_TIMELESS = person("dam_operator")
MANUAL = {"office_id": "SWT", "data_source": "MANUAL"}
CALCULATED = {"data_source": "CALCULATED"}
PRIVILEGES = [{"ts_group_code": "A", "ts_group_id": "7", "privilege": "read", "embargo_hours": 24}]
APPROVED = {"office_id": "SWT", "approval_status": "approved"}

WHAT_IF = [
    ("operator, gates", OPERATOR, "gates", "read", {"office_id": "SWT"}, True),
    ("operator, forecasts", OPERATOR, "forecasts", "read", {"office_id": "SWT"}, False),
    ("operator creates", OPERATOR, "measurements", "create", MANUAL, True),
    ("operator creates, out of shift", OPERATOR_OFF, "measurements", "create", MANUAL, False),
    ("operator creates, no shift", OPERATOR_TIMELESS, "measurements", "create", MANUAL, False),
    ("operator corrects", OPERATOR, "timeseries", "update", {**MANUAL, "created_ns": -23 * HOUR_NS}, True),
    ("operator corrects too late", OPERATOR, "timeseries", "update", {**MANUAL, "created_ns": -25 * HOUR_NS}, False),
    ("operator corrects, no date", OPERATOR, "timeseries", "update", MANUAL, False),
    ("embargo", OPERATOR, "timeseries", "read",
     {"office_id": "SWT", "timestamp_ns": -HOUR_NS, "ts_group_id": "7"}, False),
    ("embargo over", OPERATOR, "timeseries", "read",
     {"office_id": "SWT", "timestamp_ns": -169 * HOUR_NS, "ts_group_id": "7"}, True),
    ("water manager, no embargo", person("water_manager"), "timeseries", "read",
     {"office_id": "SWT", "timestamp_ns": -HOUR_NS, "ts_group_id": "7"}, True),
    ("water manager, models", person("water_manager"), "models", "update", {"office_id": "SWT"}, True),
    ("water manager, ratings", person("water_manager"), "ratings", "update", {"office_id": "SWT"}, False),
    ("manager deletes", person("data_manager"), "ratings", "delete", {**APPROVED, "approver_id": "KIM"}, True),
    ("manager approves himself", person("data_manager"), "ratings", "delete",
     {**APPROVED, "approver_id": "PAT"}, False),
    ("manager deletes levels", person("data_manager"), "levels", "delete", {**APPROVED, "approver_id": "KIM"}, False),
    ("manager deletes, pending", person("data_manager"), "ratings", "delete",
     {**APPROVED, "approval_status": "pending", "approver_id": "KIM"}, False),
    ("processor calculates", person("automated_processor"), "timeseries", "create",
     {**CALCULATED, "calculation_metadata": {"method": "mean"}}, True),
    ("processor, no metadata", person("automated_processor"), "timeseries", "create", CALCULATED, False),
    ("cooperator reads", person("external_cooperator", allowed_parameters=["Flow"], partnership_expiry_ns=HOUR_NS),
     "timeseries", "read", {"parameter": "Flow", "classification": "internal"}, True),
    ("cooperator, sensitive", person("external_cooperator", allowed_parameters=["Flow"], partnership_expiry_ns=HOUR_NS),
     "timeseries", "read", {"parameter": "Flow", "classification": "sensitive"}, False),
    ("cooperator, over", person("external_cooperator", allowed_parameters=["Flow"], partnership_expiry_ns=-HOUR_NS),
     "timeseries", "read", {"parameter": "Flow", "classification": "internal"}, False),
    ("viewer, levels", person("Viewer Users"), "levels", "read", {"office_id": "SWT"}, True),
    ("viewer, gates", person("Viewer Users"), "gates", "read", {"office_id": "SWT"}, False),
    ("admin", person("system_admin", offices=[]), "users", "delete", {}, True),
    ("hec", person("hec_employee", offices=[]), "users", "delete", {}, True),
    ("no role", person("visitor"), "timeseries", "read", {"office_id": "SWT"}, False),
    ("no role, units", person("visitor"), "units", "read", {}, True),
]
