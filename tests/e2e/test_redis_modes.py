"""Redis as its users run it, with real servers: sentinels and a cluster that fail over while requests come, slots on their
way, ACL users, TLS. Whatever happens to them, every request is answered 200: Redis is never the reason of a refusal."""
import json
import threading
import time

import pytest

import harness
from certificates import Authority
from general import settings
from redis_modes import Cluster, Sentinels, Server, TlsRedis

PROFILE = "/cwms-data/user/profile"
SOME = ["damop", "water", "manager", "collector", "processor", "cooperator", "viewer", "admin", "hec", "plain"]
# What the daemon needs of Redis: commands, its keys, its channels. cluster: +cluster|slots +asking; sentinel: +role.
ACL = ("on >{password} ~doorward:* &doorward:flush &__redis__:invalidate -@all +ping +get +setex +del +incr +publish "
       "+subscribe +client|id +client|tracking")


def config_of(api, engine, issuer, **redis):
    return settings(f"http://127.0.0.1:{api.port}", engine.url, issuer, routes=[{"prefix": "/cwms-data"}],
                    context={"url": f"http://127.0.0.1:{api.port}{PROFILE}", "shape": "builtin:cwms/context.jq",
                             "memory_ttl_s": 0, "timeout_ms": 5000},
                    tokens={"anonymous": "refuse"}, decisions={"ttl_s": 0, "deny_ttl_s": 0},
                    redis={"timeout_ms": 250, **redis})


def state_of(daemon):
    (row,) = [r for r in daemon.curl("/ready").json["dependencies"] if r["kind"] == "redis"]
    return row


def connected(daemon, seconds=harness.PATIENCE_S):
    harness.eventually(lambda: state_of(daemon)["ok"], f"Redis connected: {state_of(daemon)}", seconds)


def ask(daemon, issuer, user="damop"):
    """Where its context came from; the answer must be 200."""
    answer = daemon.curl("/cwms-data/x", authorization=issuer.bearer(user))
    assert answer.status == 200, answer
    return daemon.log(answer.request_id)["context_from"]


def from_redis(daemon, issuer, user="damop", seconds=harness.PATIENCE_S):
    harness.eventually(lambda: ask(daemon, issuer, user) == "redis", f"{user} comes from Redis", seconds)


def keys_of_contexts(servers):
    return {key: server for server in servers for key in server.keys() if key.startswith("doorward:v1:")}


class Traffic:
    """Requests one after the other on a thread, until told to stop: what became of each."""

    def __init__(self, daemon, issuer, users=("damop",)):
        self.daemon, self.users = daemon, users
        self.tokens = {user: issuer.bearer(user) for user in users}
        self.seen, self.over = [], False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        n = 0
        while not self.over:
            user = self.users[n % len(self.users)]
            n += 1
            start = time.monotonic()
            answer = self.daemon.curl("/cwms-data/x", authorization=self.tokens[user])
            self.seen.append((start, user, answer.status, answer.request_id, time.monotonic() - start))

    def stop(self):
        """[(start, user, context_from)]; each was answered 200 within a second and a half."""
        self.over = True
        self.thread.join(20)
        assert len(self.seen) > 10
        bad = [s for s in self.seen if s[2] != 200 or s[4] > 1.5]
        assert not bad, bad
        return [(start, user, self.daemon.log(id)["context_from"]) for start, user, _, id, _ in self.seen]


# --- sentinels


@pytest.fixture(scope="module")
def sentinels():
    group = Sentinels()
    yield group
    group.stop()


@pytest.fixture
def watched(sentinels, doorward, api, engine, issuer):
    """A daemon that asks the sentinels, of which the first is one that nobody has."""
    sentinels.revive()
    harness.eventually(sentinels.settled, "the sentinels know all", 30)
    sentinels.master.command("FLUSHALL")
    daemon = doorward(config_of(api, engine, issuer, url=f"redis://{sentinels.name}",
                                sentinels=[f"127.0.0.1:{harness.free_port()}", *sentinels.addresses]))
    connected(daemon)
    return daemon


def test_sentinels_name_the_master(watched, sentinels, issuer):
    assert ask(watched, issuer) == "api"
    from_redis(watched, issuer)
    assert len(keys_of_contexts([sentinels.master])) == 1
    assert state_of(watched)["state"] == f"connected to {sentinels.master.address}"
    assert watched.metric("doorward_redis_masters", admin=True) == 1
    assert watched.metric("doorward_redis_failovers_total", admin=True) == 0


@pytest.mark.parametrize("how", ["kill", "pause", "switch"])
def test_sentinel_fail_over(watched, sentinels, issuer, how):
    from_redis(watched, issuer)
    traffic = Traffic(watched, issuer)
    time.sleep(0.3)
    if how == "switch":
        old, new = sentinels.switch()
    else:
        old = sentinels.kill_master() if how == "kill" else sentinels.pause_master()
        new = sentinels.failed_over(old)
    named = time.monotonic()
    harness.eventually(lambda: state_of(watched)["state"] == f"connected to {new.address}", "the new master is used", 5)
    used = time.monotonic() - named
    harness.eventually(lambda: ask(watched, issuer) == "redis", "contexts come from the new master", 5)
    seen = traffic.stop()
    assert used < 2.5, f"{used:.1f} s after the sentinels named it"
    assert {where for _, _, where in seen} <= {"api", "redis"} and seen[-1][2] == "redis"
    assert watched.metric("doorward_redis_failovers_total", admin=True) == 1
    if how == "pause":  # it comes back as what it was; the sentinels make it a replica, and nobody writes to it
        before = new.calls("setex")
        old.resume()
        ask(watched, issuer, "water")
        from_redis(watched, issuer, "water")
        assert new.calls("setex") > before
    assert sum(n.errors("READONLY") for n in sentinels.nodes if n.alive()) == 0, "nothing was written to a replica"


def test_a_replica_that_is_named_is_not_written_to(doorward, api, engine, issuer, upstream, tmp_path):
    """A sentinel that tells what is not so any more: the server itself says that it is no master."""
    master, replica = Server(str(tmp_path)), Server(str(tmp_path))
    replica.command("REPLICAOF", "127.0.0.1", master.port)
    port = str(replica.port).encode()
    words = b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n" % (len(port), port)

    def liar(conversation):
        while True:
            got = conversation.socket.recv(65536)
            if not got:
                return
            conversation.send(b"+PONG\r\n" if b"PING" in got else words)
    fake = upstream(liar)
    daemon = doorward(config_of(api, engine, issuer, url="redis://name", sentinels=[f"127.0.0.1:{fake.port}"]))
    harness.eventually(lambda: state_of(daemon)["state"] == "the server is no master", "it is refused")
    replica.command("CONFIG", "RESETSTAT")
    for _ in range(5):
        assert ask(daemon, issuer) == "api"
        time.sleep(0.1)
    assert replica.calls("role") > 0
    assert replica.calls("setex") == replica.calls("get") == replica.errors("READONLY") == 0
    replica.command("REPLICAOF", "NO", "ONE")
    from_redis(daemon, issuer)
    for server in (master, replica):
        server.kill()


def test_no_sentinel_at_all(doorward, api, engine, issuer):
    daemon = doorward(config_of(api, engine, issuer, url="redis://mymaster",
                                sentinels=[f"127.0.0.1:{harness.free_port()}" for _ in range(3)]))
    assert ask(daemon, issuer) == "api"
    harness.eventually(lambda: state_of(daemon)["state"] == "no sentinel names a master", "said so")
    assert daemon.curl("/ready").status == 200


# --- a cluster


@pytest.fixture(scope="module")
def cluster():
    group = Cluster()
    yield group
    group.stop()


@pytest.fixture
def clustered(cluster, doorward, api, engine, issuer):
    """A daemon that knows one node that is nobody, and one more."""
    cluster.revive()
    harness.eventually(cluster.settled, "the cluster is whole", 40)
    for master in cluster.masters:
        master.command("FLUSHALL")
    cluster.reset_counts()
    daemon = doorward(config_of(api, engine, issuer, url=f"redis://127.0.0.1:{harness.free_port()}", cluster=True,
                                nodes=[cluster.nodes[-1].address], timeout_ms=1000))  # no live node is late on a busy machine
    connected(daemon)
    return daemon


def fill(daemon, issuer, cluster, users=SOME):
    """Every user's context is in Redis; {user: (key, slot)}."""
    found = {}
    for user in users:
        before = set(keys_of_contexts(cluster.masters))
        assert ask(daemon, issuer, user) == "api"
        (key,) = harness.eventually(lambda: set(keys_of_contexts(cluster.masters)) - before, f"{user} is stored")
        found[user] = (key, cluster.slot(key))
        assert ask(daemon, issuer, user) == "redis"
    return found


def test_keys_are_at_their_masters(clustered, cluster, issuer):
    places = fill(clustered, issuer, cluster)
    stored = keys_of_contexts(cluster.masters)
    assert all(stored[key] is cluster.owner(slot) for key, slot in places.values())
    assert len(set(stored.values())) > 1, "ten users, three masters"
    assert cluster.errors("MOVED") == cluster.errors("ASK") == 0, "the map was right"
    assert clustered.metric("doorward_redis_masters", admin=True) == 3
    assert clustered.metric("doorward_redis_tracking", admin=True) == 1


def test_a_slot_on_its_way(clustered, cluster, issuer):
    """ASK while it is moved, MOVED right after; each answer comes from Redis all the same."""
    key, slot = fill(clustered, issuer, cluster, ["damop"])["damop"]
    source = cluster.owner(slot)
    target = next(m for m in cluster.masters if m is not source)
    cluster.begin_migration(slot, target)
    assert ask(clustered, issuer) == "redis" and cluster.errors("ASK") == 0, "the source has it still"
    assert cluster.move_keys(slot, source, target) >= 1
    assert ask(clustered, issuer) == "redis"
    assert source.errors("ASK") == 1 and target.calls("asking") == 1
    assert clustered.metric("doorward_redis_redirects_total", admin=True, kind="ask") == 1
    cluster.end_migration(slot, source, target)
    assert ask(clustered, issuer) == "redis"
    assert source.errors("MOVED") == 1
    assert clustered.metric("doorward_redis_redirects_total", admin=True, kind="moved") == 1
    assert ask(clustered, issuer) == "redis" and source.errors("MOVED") == 1, "it knows now"
    cluster.migrate(slot, source)


def test_a_write_is_asked_for_too(clustered, cluster, issuer):
    key, slot = fill(clustered, issuer, cluster, ["water"])["water"]
    source = cluster.owner(slot)
    target = next(m for m in cluster.masters if m is not source)
    cluster.begin_migration(slot, target)
    source.command("DEL", key)
    assert ask(clustered, issuer, "water") == "api"

    def there():
        with target.connect() as s, s.makefile("rb") as file:
            s.sendall(b"*1\r\n$6\r\nASKING\r\n" + b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key.encode()))
            file.readline()
            return file.readline()[:1] == b"$" and file.readline().startswith(b"{")
    harness.eventually(there, "it is stored at the target")
    cluster.move_keys(slot, source, target)
    cluster.end_migration(slot, source, target)
    cluster.migrate(slot, source)


def test_cluster_fail_over(clustered, cluster, issuer):
    """One master dies: those whose keys others have go on from Redis; it, and only it, is asked elsewhere meanwhile."""
    places = fill(clustered, issuer, cluster)
    generation = cluster.owner(cluster.slot("doorward:generation"))
    dead = next(m for m in cluster.masters if m is not generation
                and any(cluster.owner(slot) is m for _, slot in places.values()))
    slot = next(slot for _, slot in places.values() if cluster.owner(slot) is dead)
    others = [user for user, (_, s) in places.items() if cluster.owner(s) is not dead]
    its = [user for user in places if user not in others]
    traffic = Traffic(clustered, issuer, users=list(places))
    time.sleep(0.3)
    killed = time.monotonic()
    dead.kill()
    new = cluster.failed_over(dead, slot)
    for user in its:
        from_redis(clustered, issuer, user, 8)
    seen = traffic.stop()
    assert [s for s in seen if s[1] in its and s[2] == "api" and s[0] > killed], "its keys could not be had for a while"
    assert not [s for s in seen if s[1] in others and s[2] != "redis"], "the others' could"
    harness.eventually(lambda: state_of(clustered)["ok"], "all masters are connected")
    assert clustered.metric("doorward_redis_failovers_total", admin=True) == 1
    assert new.calls("get") > 0


def test_a_node_that_hangs(clustered, cluster, issuer):
    places = fill(clustered, issuer, cluster)
    generation = cluster.owner(cluster.slot("doorward:generation"))
    hung = next(m for m in cluster.masters if m is not generation
                and any(cluster.owner(slot) is m for _, slot in places.values()))
    slot = next(slot for _, slot in places.values() if cluster.owner(slot) is hung)
    traffic = Traffic(clustered, issuer, users=list(places))
    time.sleep(0.3)
    hung.pause()
    cluster.failed_over(hung, slot)
    for user in places:
        from_redis(clustered, issuer, user, 8)
    traffic.stop()


def test_a_database_in_a_cluster_is_refused():
    status, _, stderr = harness.run_once("--check", config={
        "upstream": {"url": "http://127.0.0.1:1"}, "redis": {"url": "redis://a/3", "cluster": True},
        "routes": [{"prefix": "/", "access": "public"}]})
    assert status == 78 and "redis.url: a database" in stderr


# --- who we are


@pytest.fixture(scope="module")
def acl(tmp_path_factory):
    server = Server(str(tmp_path_factory.mktemp("redis")), login=("root", "top"),
                    user=["root on >top ~* &* +@all", "doorward " + ACL.format(password="s3cret"), "default off"])
    yield server
    server.kill()


def test_an_acl_user_with_the_least_rights(acl, doorward, api, engine, issuer):
    acl.command("ACL", "LOG", "RESET")
    daemon = doorward(config_of(api, engine, issuer, url=f"redis://doorward:s3cret@127.0.0.1:{acl.port}"))
    connected(daemon)
    assert ask(daemon, issuer) == "api"
    from_redis(daemon, issuer)
    harness.eventually(lambda: daemon.metric("doorward_redis_tracking", admin=True) == 1, "tracking")
    harness.curl(daemon.admin + "/cache/flush", "-H", "Content-Type: application/json", data=b'{"all":true}')
    assert ask(daemon, issuer) == "api"
    from_redis(daemon, issuer)
    assert acl.command("ACL", "LOG") == [], "nothing was refused"
    assert "s3cret" not in daemon.log_text()


def test_an_acl_user_who_may_not_track(acl, doorward, api, engine, issuer):
    """One warning, and everything else works."""
    rights = [w for w in ACL.format(password="other").split() if w not in ("+client|tracking",)]
    acl.command("ACL", "SETUSER", "plain", "reset", *rights)
    daemon = doorward(config_of(api, engine, issuer, url=f"redis://plain:other@127.0.0.1:{acl.port}"))
    connected(daemon)
    ask(daemon, issuer)
    from_redis(daemon, issuer)
    time.sleep(1)
    lines = [line for line in daemon.lines if line.get("event") == "redis_not_tracking"]
    assert len(lines) == 1 and "CLIENT TRACKING" in lines[0]["detail"]
    assert daemon.metric("doorward_redis_tracking", admin=True) == 0


def least(servers, user, *rights):
    for server in servers:
        server.command("ACL", "SETUSER", user, "reset", *rights)
        server.command("ACL", "LOG", "RESET")


def test_the_least_rights_in_a_cluster(cluster, doorward, api, engine, issuer):
    cluster.revive()
    harness.eventually(cluster.settled, "the cluster is whole", 40)
    for master in cluster.masters:
        master.command("FLUSHALL")
    least(cluster.nodes, "doorward", *ACL.format(password="s3cret").split(), "+cluster|slots", "+asking")
    node = cluster.masters[0]
    daemon = doorward(config_of(api, engine, issuer, url=f"redis://doorward:s3cret@{node.address}", cluster=True))
    connected(daemon)
    _, slot = fill(daemon, issuer, cluster, ["damop"])["damop"]
    harness.eventually(lambda: daemon.metric("doorward_redis_tracking", admin=True) == 1, "tracking")
    source = cluster.owner(slot)
    target = next(m for m in cluster.masters if m is not source)
    cluster.begin_migration(slot, target)
    cluster.move_keys(slot, source, target)
    assert ask(daemon, issuer) == "redis"
    cluster.end_migration(slot, source, target)
    assert ask(daemon, issuer) == "redis"
    cluster.migrate(slot, source)
    assert [n.command("ACL", "LOG") for n in cluster.nodes if n.command("ACL", "LOG")] == [], "nothing was refused"


def test_the_least_rights_with_sentinels(sentinels, doorward, api, engine, issuer):
    sentinels.revive()
    harness.eventually(sentinels.settled, "the sentinels know all", 30)
    least(sentinels.nodes, "doorward", *ACL.format(password="s3cret").split(), "+role", "+select")
    least(sentinels.sentinels, "asker", *"on >asker-pw -@all +ping +sentinel|get-master-addr-by-name".split())
    daemon = doorward(config_of(api, engine, issuer, url=f"redis://doorward:s3cret@{sentinels.name}/2",
                                sentinels=sentinels.addresses, sentinel_user="asker", sentinel_password="asker-pw"))
    connected(daemon)
    ask(daemon, issuer)
    from_redis(daemon, issuer)
    harness.eventually(lambda: daemon.metric("doorward_redis_tracking", admin=True) == 1, "tracking")
    everybody = sentinels.nodes + sentinels.sentinels
    assert [s.command("ACL", "LOG") for s in everybody if s.command("ACL", "LOG")] == [], "nothing was refused"


@pytest.mark.parametrize("who", ["doorward:wrong", "nobody:s3cret", ":s3cret"])
def test_a_wrong_password(acl, doorward, api, engine, issuer, who):
    daemon = doorward(config_of(api, engine, issuer, url=f"redis://{who}@127.0.0.1:{acl.port}"))
    assert ask(daemon, issuer) == "api"
    harness.eventually(lambda: state_of(daemon)["state"] == "AUTH or SELECT was refused", "said so")
    assert ask(daemon, issuer) == "api" and daemon.curl("/ready").status == 200
    assert who.split(":")[1] not in daemon.log_text()


def test_passwords_of_sentinels_and_servers(doorward, api, engine, issuer):
    group = Sentinels(replicas=1, login=("data-pw",), sentinel_password="watch-pw", requirepass="data-pw")
    try:
        daemon = doorward(config_of(api, engine, issuer, url=f"redis://:data-pw@{group.name}/0",
                                    sentinels=group.addresses, sentinel_password="watch-pw"))
        connected(daemon)
        ask(daemon, issuer)
        from_redis(daemon, issuer)
        old = group.kill_master()
        new = group.failed_over(old)
        harness.eventually(lambda: new.address in state_of(daemon)["state"], "the new master is used", 8)
        assert "-pw" not in daemon.log_text()
    finally:
        group.stop()


# --- TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(authority):
    certificate, key = authority.issue("redis.test", sans=["redis.test", "localhost"])
    group = TlsRedis(certificate, key, authority.file)
    yield group
    group.stop()


def tls_daemon(doorward, api, engine, issuer, url, **tls):
    return doorward(config_of(api, engine, issuer, url=url, tls=tls))


def test_tls(secured, authority, doorward, api, engine, issuer):
    daemon = tls_daemon(doorward, api, engine, issuer, secured.url("localhost"), ca_file=authority.file)
    connected(daemon)
    assert ask(daemon, issuer) == "api"
    from_redis(daemon, issuer)
    assert len(keys_of_contexts([secured.server])) == 1
    harness.eventually(lambda: daemon.metric("doorward_redis_tracking", admin=True) == 1, "tracking")
    secured.command("FLUSHALL")


def test_tls_by_a_name_of_its_own(secured, authority, doorward, api, engine, issuer):
    daemon = tls_daemon(doorward, api, engine, issuer, secured.url(), ca_file=authority.file, server_name="redis.test")
    connected(daemon)
    from_redis(daemon, issuer)


@pytest.mark.parametrize("case,told", [("another authority", "self-signed certificate"),
                                       ("another name", "not for 127.0.0.1"), ("not TLS", "handshake")])
def test_tls_that_is_wrong(secured, authority, redis, doorward, api, engine, issuer, tmp_path, case, told):
    """It says what is wrong, sends no password, and everybody is served."""
    url, tls = secured.url("localhost"), {"ca_file": authority.file}
    if case == "another authority":
        tls = {"ca_file": Authority(tmp_path).file}
    elif case == "another name":
        url = secured.url("127.0.0.1")
    else:
        url = f"rediss://127.0.0.1:{redis.port}"
    daemon = tls_daemon(doorward, api, engine, issuer, url.replace("//", "//:hunter2@"), **tls)
    assert ask(daemon, issuer) == "api"

    harness.eventually(lambda: told in state_of(daemon)["state"], f"it says what is wrong: {state_of(daemon)}")
    assert ask(daemon, issuer) == "api" and daemon.curl("/ready").status == 200
    assert "hunter2" not in daemon.log_text() + json.dumps(state_of(daemon))


def test_tls_with_a_certificate_of_our_own(authority, doorward, api, engine, issuer):
    group = TlsRedis(*authority.issue("localhost", sans=["localhost"]), authority.file, clients="yes",
                     client_files=authority.issue("tester", client=True))
    try:
        certificate, key = authority.issue("doorward", client=True)
        daemon = tls_daemon(doorward, api, engine, issuer, group.url("localhost"), ca_file=authority.file,
                            certificate_file=certificate, key_file=key)
        connected(daemon)
        from_redis(daemon, issuer)
        bare = tls_daemon(doorward, api, engine, issuer, group.url("localhost"), ca_file=authority.file)
        assert ask(bare, issuer) == "api" and not state_of(bare)["ok"]
    finally:
        group.stop()
