"""Every row of failures.py happens as the table says, with the real parts; nobody else is slowed; and when the part is
back, the next request works, without a hand."""
import json
import threading
import time

import pytest

import failures
import harness
from faults import FAULTS
from general import merged
from parts import TIMEOUTS

AT_ONCE_MS = 250  # what is not waited for at all; the machine may be busy
SLACK_MS = 700
BUDGET_MS = 300  # less than any of the times of parts.TIMEOUTS that it stands before
HEALS_S = 15
OPENS = {"redis": "answer_hang"}  # what opens its breaker; without connection it is not asked anyway
FAILURES = 5  # breakers.failures
KEYS_TIMEOUT_MS = 5000
BREAKERS = {"volume": 100000, "rest_ms": 400, "max_rest_ms": 1000}  # open by failures in a row only; no long rests
NOWHERE = "nowhere.invalid"  # a name that nobody may have (RFC 6761)


def ask(daemon, path, token=None):
    """(answer, its milliseconds, its id)"""
    began = time.monotonic()
    id = f"row-{time.monotonic_ns()}"
    client = daemon.client()
    line = f"Authorization: Bearer {token}\r\n" if token else ""
    client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Request-Id: {id}\r\n{line}\r\n".encode())
    try:
        answer = client.answer()
    finally:
        client.close()
    return answer, (time.monotonic() - began) * 1000, id


class Others:
    """Somebody whose requests do not need the part: they are right, and about as quick as before."""

    def __init__(self, daemon, paths):
        self.daemon, self.paths = daemon, paths
        self.took_ms, self.wrong = [], []
        self.over = threading.Event()

    def go_on(self):
        n = 0
        while not self.over.wait(0.01) or n < 20:
            path, token = self.paths[n % len(self.paths)]
            n += 1
            answer, ms, _ = ask(self.daemon, path, token)
            self.took_ms.append(ms)
            if answer.status != 200:
                self.wrong.append((path, answer))

    def __enter__(self):
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(harness.PATIENCE_S)

    def p99(self):
        assert not self.wrong, self.wrong[:3]
        return sorted(self.took_ms)[int(len(self.took_ms) * 0.99)]


class Way:
    """How a dependency is needed: a fresh request, and how it is seen that it works."""

    def __init__(self, parts, daemon):
        self.parts, self.daemon = parts, daemon
        self.n = 0

    def others(self):
        return [("/ping", None), ("/other/timeseries/a?office=SWT", self.parts.token("warm"))]

    def request(self):
        """A context, and so a decision, that nobody asked for before."""
        return ask(self.daemon, "/timeseries/a?office=SWT", self.parts.token(self.parts.fresh_user()))

    def works(self):
        return self.request()[0].status == 200


class ToRedis(Way):
    def works(self):
        """What is looked up gets there."""
        before = self.parts.redis.command("DBSIZE")
        return super().works() and self.parts.redis.command("DBSIZE") > before


class ToPolicy(Way):
    def request(self):
        self.n += 1
        return ask(self.daemon, f"/timeseries/n{id(self)}-{self.n}?office=SWT", self.parts.token("warm"))


class ToUpstream(Way):
    def request(self):
        return ask(self.daemon, "/timeseries/a?office=SWT", self.parts.token("warm"))


class ToIssuer(Way):
    def others(self):
        return [("/ping", None)]

    def request(self):
        return ask(self.daemon, "/timeseries/a?office=SWT", self.parts.token("warm"))


WAYS = {"redis": ToRedis, "policy": ToPolicy, "context": Way, "issuer": ToIssuer, "upstream": ToUpstream}


@pytest.fixture(scope="module")
def standing(session_parts, module_doorward):
    """A daemon that is warm, and how quick others are before anything fails."""
    session_parts.faults.tell(link="upstream", framed=True)
    daemon = module_doorward(session_parts.config(breakers=BREAKERS))
    daemon.wait_ready()
    way = Way(session_parts, daemon)
    for path, token in way.others():
        assert ask(daemon, path, token)[0].status == 200
    with Others(daemon, way.others()) as others:
        time.sleep(1)
    yield daemon, others.p99()
    session_parts.faults.tell(link="upstream", framed=False)


def secured(parts, dependency):
    """A configuration in which one dependency is asked over TLS, with an authority that it is not of."""
    config, port = parts.config(), f"//127.0.0.1:{parts.ports[dependency]}"
    mine = {"upstream": config["upstream"], "policy": config["policy"], "context": config["context"],
            "redis": config["redis"], "issuer": config["tokens"]["issuers"][0]}[dependency]
    for name in ("url", "jwks_url"):
        if name in mine:
            mine[name] = mine[name].replace("http:" + port, f"https://127.0.0.1:{parts.secure_port(dependency)}") \
                .replace("redis:" + port, f"rediss://127.0.0.1:{parts.secure_port(dependency)}")
    return config


def with_nowhere(parts, dependency):
    """A configuration in which the name of one dependency resolves nowhere."""
    config = parts.config()
    said = json.dumps({"upstream": config["upstream"], "tokens": config["tokens"], "context": config["context"],
                       "redis": config["redis"], "policy": config["policy"]})
    return merged(config, json.loads(said.replace(f"127.0.0.1:{parts.ports[dependency]}",
                                                  f"{NOWHERE}:{parts.ports[dependency]}")))


def started_amid(row, parts, doorward):
    """Daemons that begin while the part fails: an issuer is only needed then, and a name is configured."""
    if row.fault == "name":
        daemon = doorward(with_nowhere(parts, row.dependency))
    elif row.fault == "certificate":
        daemon = doorward(secured(parts, row.dependency))
    else:
        parts.faults.set(row.dependency, row.fault)
        daemon = doorward(parts.config())
    if row.dependency != "issuer":
        harness.eventually(lambda: ask(daemon, "/timeseries/a?office=SWT", "x.y.z")[0].status == 401, "the keys are there")
    return daemon


def most_ms(row):
    if row.at_most is None:
        return AT_ONCE_MS
    return {**TIMEOUTS, failures.KEYS_TIMEOUT: KEYS_TIMEOUT_MS}[row.at_most]





def moved(daemon, row, before):
    name, labels = row.metric
    now = daemon.counts("doorward_" + name)
    wants = [{f'{key}="{value}"' for key, value in one.items()} for one in failures.every(labels)]
    return sum(value - before.get(series, 0) for series, value in now.items()
               if any(want <= set(series.split(",")) for want in wants))


@pytest.mark.parametrize("row", failures.TABLE, ids=lambda row: f"{row.dependency}-{row.fault}")
def test_row(row, parts, doorward, standing):
    configured = row.fault in ("name", "certificate")
    amid = configured or row.dependency == "issuer"
    daemon, usual_ms = standing
    before, since = {}, 0
    if amid:
        daemon = started_amid(row, parts, doorward)
    way = WAYS[row.dependency](parts, daemon)
    if not amid:
        harness.eventually(way.works, f"{row.dependency} works before", HEALS_S)
        before, since = daemon.counts("doorward_" + row.metric[0]), daemon.log_size()
        parts.faults.set(row.dependency, OPENS.get(row.dependency, "refuse") if row.fault == "rests" else row.fault)
        for _ in range(FAILURES if row.fault == "rests" else 0):
            assert way.request()[0].status == row.status
    with Others(daemon, way.others() if not amid else [("/ping", None)]) as others:
        for _ in range(2):
            answer, ms, id = way.request()
            assert answer.status == row.status, answer
            if row.status >= 400 and row.reason != "forwarded":
                assert answer.json["code"] in failures.either(row.reason)
            assert ms <= most_ms(row) + SLACK_MS, f"{ms} ms"
            if row.line[0].startswith('"event"'):
                daemon.wait_for_line(*row.line, since=since)
            else:
                daemon.wait_for_line(id, *row.line)
        assert moved(daemon, row, before) >= 1, daemon.counts("doorward_" + row.metric[0])
        if not configured:
            parts.faults.heal(row.dependency)
            harness.eventually(way.works, f"{row.dependency} works again", HEALS_S)
    assert others.p99() <= 3 * usual_ms + AT_ONCE_MS, f"others: p99 {others.p99()} ms, {usual_ms} ms before"


@pytest.mark.parametrize("fault", ["refuse", "answer_hang", "garbage", "status_503"])
def test_known_keys_outlive_their_issuer(fault, parts, doorward):
    daemon = doorward(parts.config())
    daemon.wait_ready()
    parts.faults.set("issuer", fault)
    way = Way(parts, daemon)
    assert way.works()


@pytest.mark.parametrize("row", failures.BUDGET, ids=lambda row: f"{row.dependency}-{row.fault}")
def test_budget(row, parts, doorward):
    if row.dependency == "issuer":
        parts.faults.set("issuer", row.fault)
    daemon = doorward(parts.config(listen={"budget_ms": BUDGET_MS}, breakers=BREAKERS))
    way = WAYS[row.dependency](parts, daemon)
    if row.dependency != "issuer":
        harness.eventually(way.works, "all is well", HEALS_S)
        parts.faults.set(row.dependency, row.fault)
    answer, ms, id = way.request()
    assert answer.status == row.status and answer.json["code"] == row.reason, answer
    assert BUDGET_MS - 20 <= ms <= BUDGET_MS + SLACK_MS, f"{ms} ms"
    daemon.wait_for_line(id, *row.line)
    assert moved(daemon, row, {}) >= 1
    parts.faults.heal(row.dependency)
    harness.eventually(way.works, "works again", HEALS_S)


def test_every_fault_of_every_dependency_has_its_row():
    for dependency in WAYS:
        rows = [row.fault for row in failures.TABLE if row.dependency == dependency]
        assert len(rows) == len(set(rows))
        assert set(rows) >= {*FAULTS, "name", "certificate"}, set(FAULTS) - set(rows)
