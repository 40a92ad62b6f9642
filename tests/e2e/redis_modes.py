"""Redis as its users run it: a master with replicas under three sentinels, a cluster of six, one that speaks TLS only.

Real servers, all on 127.0.0.1, without persistence. Every class has stop(); what dies can be revived at its port.
"""
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile

from tools import PATIENCE_S, Process, eventually, free_port


class Failure(RuntimeError):
    """An error reply."""


def encode(words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def read_reply(file):
    kind, rest = file.read(1), file.readline().rstrip()
    if kind == b"*":
        return None if int(rest) < 0 else [read_reply(file) for _ in range(int(rest))]
    if kind == b"$":
        return None if int(rest) < 0 else file.read(int(rest) + 2)[:-2]
    if kind == b"-":
        raise Failure(rest.decode())
    if kind == b"":
        raise ConnectionError("the server closed the connection")
    return int(rest) if kind == b":" else rest


def pair_of_ports():
    """A port whose port + 10000, the cluster's bus, is free too and not one that the kernel gives to clients."""
    while True:
        port = random.randrange(20000, 22700)
        try:
            for one in (port, port + 10000):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", one))
            return port
        except OSError:
            continue


class Server:
    """One redis-server; options by name, without dashes."""

    def __init__(self, folder, port=None, sentinel=False, login=(), tls=None, **options):
        self.program = shutil.which("redis-server")
        assert self.program, "redis-server is not installed"
        self.port = port or free_port()
        self.folder = os.path.join(folder, str(self.port))
        os.makedirs(self.folder, exist_ok=True)
        self.sentinel, self.login, self.tls, self.options = sentinel, login, tls, options
        self.process = None
        self.paused = False
        self.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def arguments(self):
        options = {"bind": "127.0.0.1", "dir": self.folder, "logfile": os.path.join(self.folder, "log")}
        options["port"] = 0 if self.tls else self.port
        if not self.sentinel:
            options |= {"save": "", "appendonly": "no", "repl-diskless-sync-delay": 0}
        out = []
        for name, value in (options | {k.replace("_", "-"): v for k, v in self.options.items()}).items():
            for one in value if isinstance(value, list) else [value]:
                out += [f"--{name}", *(one.split(" ") if name == "user" else [str(one)])]
        return out

    def start(self):
        if self.sentinel:
            # It writes its own file: who was killed goes on with what it knew.
            path = os.path.join(self.folder, "sentinel.conf")
            if not os.path.exists(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
                               f"logfile {os.path.join(self.folder, 'log')}\n" + self.sentinel)
            words = [self.program, path, "--sentinel"]
        else:
            words = [self.program, *self.arguments()]
        self.process = Process(words)
        eventually(self.answers, f"redis-server {self.port} answers")

    def answers(self):
        assert self.process.alive(), self.log()
        try:
            return self.command("PING") == b"PONG"
        except Failure:
            return True
        except OSError:
            return False

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def alive(self):
        return self.process.alive()

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        if self.tls:
            s = self.tls.wrap_socket(s, server_hostname="localhost")
        return s

    def command(self, *words):
        """One command over a connection of its own: bytes, int, None or a list of them; an error reply is a Failure."""
        with self.connect() as s, s.makefile("rb") as file:
            if self.login:
                s.sendall(encode(("AUTH", *self.login)))
                read_reply(file)
            s.sendall(encode(words))
            return read_reply(file)

    def info(self, section):
        """{name: value} of INFO section."""
        lines = self.command("INFO", section).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def errors(self, kind):
        """How many error replies of that kind (MOVED, ASK, READONLY …) it gave since it started or CONFIG RESETSTAT."""
        found = re.search(r"count=(\d+)", self.info("errorstats").get(f"errorstat_{kind}", "count=0"))
        return int(found.group(1))

    def calls(self, command):
        found = re.search(r"calls=(\d+)", self.info("commandstats").get(f"cmdstat_{command.lower()}", "calls=0"))
        return int(found.group(1))

    def keys(self):
        return [k.decode() for k in self.command("KEYS", "*")]

    def kill(self):
        self.resume()
        self.process.end(signal.SIGKILL)

    def pause(self):
        """It hangs: connections stay and nothing answers."""
        self.process.child.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self):
        if self.paused:
            self.process.child.send_signal(signal.SIGCONT)
        self.paused = False


class Group:
    """Several servers in one folder."""

    def __init__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="doorward-redis-")
        self.folder = self.holder.name
        self.servers = []

    def add(self, **how):
        self.servers.append(Server(self.folder, **how))
        return self.servers[-1]

    def at(self, port):
        return next(s for s in self.servers if s.port == int(port))

    def revive(self):
        """All that are dead or hang go on; who they are."""
        dead = [s for s in self.servers if not s.alive()]
        for server in self.servers:
            server.resume()
        for server in dead:
            server.start()
        return dead

    def stop(self):
        for server in self.servers:
            server.kill()
        self.holder.cleanup()


class Sentinels(Group):
    """A master, replicas of it, and three sentinels of which two must agree."""
    name = "mymaster"

    def __init__(self, replicas=2, down_after_ms=500, login=(), sentinel_password=None, **options):
        super().__init__()
        if login:
            options |= {"masterauth": login[-1]} | ({"masteruser": login[0]} if len(login) > 1 else {})
        first = self.add(login=login, **options)
        self.nodes = [first]
        for _ in range(replicas):
            self.nodes.append(self.add(login=login, **options))
            self.nodes[-1].command("REPLICAOF", "127.0.0.1", first.port)
        eventually(lambda: all(n.info("replication").get("master_link_status") == "up" for n in self.nodes[1:]),
                   "replicas follow the master")
        text = (f"sentinel monitor {self.name} 127.0.0.1 {first.port} 2\n"
                f"sentinel down-after-milliseconds {self.name} {down_after_ms}\n"
                f"sentinel failover-timeout {self.name} 3000\n")
        if login:
            text += f"sentinel auth-pass {self.name} {login[-1]}\n"
            text += f"sentinel auth-user {self.name} {login[0]}\n" if len(login) > 1 else ""
        if sentinel_password:
            text += f"requirepass {sentinel_password}\nsentinel sentinel-pass {sentinel_password}\n"
        self.sentinels = [self.add(sentinel=text, login=(sentinel_password,) if sentinel_password else ())
                          for _ in range(3)]
        eventually(self.settled, "the sentinels know each other and the replicas", 30)

    @property
    def addresses(self):
        return [s.address for s in self.sentinels]

    def settled(self):
        for sentinel in self.sentinels:
            if not sentinel.alive():
                continue
            words = sentinel.command("SENTINEL", "master", self.name)
            known = dict(zip(words[::2], words[1::2]))
            if known[b"num-other-sentinels"] != b"2" or int(known[b"num-slaves"]) < len(self.nodes) - 1:
                return False
        return True

    def named(self):
        """Ports that the living sentinels name."""
        return {int(s.command("SENTINEL", "get-master-addr-by-name", self.name)[1]) for s in self.sentinels
                if s.alive() and not s.paused}

    @property
    def master(self):
        """Whom all living sentinels name, once it is one and says so itself."""
        def agreed():
            ports = self.named()
            if len(ports) != 1:
                return None
            node = self.at(ports.pop())
            return node if node.alive() and not node.paused and node.command("ROLE")[0] == b"master" else None
        return eventually(agreed, "the sentinels agree on a master", 40)

    def kill_master(self):
        """The master is gone at once; who it was."""
        dead = self.master
        dead.kill()
        return dead

    def pause_master(self):
        hung = self.master
        hung.pause()
        return hung

    def failed_over(self, old, seconds=40):
        """Waits until the sentinels agree on another; who it is."""
        eventually(lambda: old.port not in self.named(), "the sentinels name another master", seconds)
        return self.master

    def switch(self):
        """A fail-over by hand, with everybody alive; (old, new)."""
        old = self.master

        def begun():
            try:
                return self.sentinels[0].command("SENTINEL", "FAILOVER", self.name)
            except Failure as error:  # one before is not over yet
                assert "INPROG" in str(error) or "NOGOODSLAVE" in str(error)
                return False
        eventually(begun, "the sentinel begins", 30)
        return old, self.failed_over(old)


class Cluster(Group):
    """Three masters with a replica each."""

    def __init__(self, node_timeout_ms=1000, full_coverage=False, login=(), **options):
        super().__init__()
        options |= {"cluster_enabled": "yes", "cluster_node_timeout": node_timeout_ms, "cluster_config_file": "nodes.conf",
                    "cluster_require_full_coverage": "yes" if full_coverage else "no"}
        if login:
            options |= {"masterauth": login[-1]} | ({"masteruser": login[0]} if len(login) > 1 else {})
        self.nodes = [self.add(port=pair_of_ports(), login=login, **options) for _ in range(6)]
        who = (["--user", login[0], "--pass", login[-1]] if len(login) > 1 else ["-a", login[-1]]) if login else []
        made = subprocess.run([shutil.which("redis-cli"), *who, "--cluster", "create", *self.addresses,
                               "--cluster-replicas", "1", "--cluster-yes"], capture_output=True, text=True,
                              timeout=60, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
        eventually(self.settled, "each master has its replica", 30)

    @property
    def addresses(self):
        return [n.address for n in self.nodes]

    def settled(self):
        """Every living node has a map of all slots, and every master with slots a living replica if all live."""
        maps = [n.command("CLUSTER", "SLOTS") for n in self.nodes if n.alive()]
        views = [sorted((row[0], row[1], row[2][1]) for row in m) for m in maps]
        whole = sum(last - first + 1 for first, last, _ in views[0]) == 16384
        replicas = len(views) < 6 or all(len(row) > 3 for m in maps for row in m)
        states = all(n.info("replication").get("master_link_status", "up") == "up" for n in self.nodes if n.alive())
        return whole and replicas and states and all(v == views[0] for v in views)

    def ask(self, *words):
        """Of any that lives."""
        return next(n for n in self.nodes if n.alive() and not n.paused).command(*words)

    def slot(self, key):
        return self.ask("CLUSTER", "KEYSLOT", key)

    def owner(self, slot):
        """The master that serves a slot, by the map of one that lives."""
        for row in self.ask("CLUSTER", "SLOTS"):
            if row[0] <= slot <= row[1]:
                return self.at(row[2][1])
        raise AssertionError(f"nobody has slot {slot}")

    @property
    def masters(self):
        return [self.at(port) for port in sorted({row[2][1] for row in self.ask("CLUSTER", "SLOTS")})]

    def kill_master(self, slot=0):
        """The master of a slot is gone at once; who it was."""
        dead = self.owner(slot)
        dead.kill()
        return dead

    def failed_over(self, old, slot=0, seconds=40):
        """Waits until all that live agree that another has the slot; who it is."""
        def moved():
            ports = {row[2][1] for n in self.nodes if n.alive() and not n.paused
                     for row in n.command("CLUSTER", "SLOTS") if row[0] <= slot <= row[1]}
            return len(ports) == 1 and old.port not in ports and ports.pop()
        return self.at(eventually(moved, "the replica takes over", seconds))

    # a slot on its way: begin, move keys, end

    @staticmethod
    def id_of(node):
        return node.command("CLUSTER", "MYID").decode()

    def begin_migration(self, slot, target):
        """From then on the source answers ASK for keys that it does not have."""
        source = self.owner(slot)
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, slot, source, target):
        """All keys of the slot that the source has now; how many."""
        keys = source.command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        if keys:
            who = (["AUTH2", *source.login] if len(source.login) > 1 else ["AUTH", *source.login]) if source.login else []
            source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, *who, "KEYS", *keys)
        return len(keys)

    def end_migration(self, slot, source, target):
        """From then on the source answers MOVED."""
        for node in (target, source, *[n for n in self.masters if n not in (source, target)]):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def migrate(self, slot, target):
        """The whole way; nothing to do when the target has the slot."""
        source = self.owner(slot)
        if source is target:
            return source
        self.begin_migration(slot, target)
        self.move_keys(slot, source, target)
        self.end_migration(slot, source, target)
        return source

    def reset_counts(self):
        for node in self.nodes:
            if node.alive():
                node.command("CONFIG", "RESETSTAT")

    def errors(self, kind):
        return sum(n.errors(kind) for n in self.nodes if n.alive())

    def calls(self, command):
        return sum(n.calls(command) for n in self.nodes if n.alive())


class TlsRedis(Group):
    """One server that speaks TLS only. Files are PEM; clients: no, optional or yes (a certificate is asked for)."""

    def __init__(self, certificate_file, key_file, ca_file, clients="no", client_files=None, **options):
        super().__init__()
        context = ssl.create_default_context(cafile=ca_file)
        context.check_hostname = False
        if client_files:
            context.load_cert_chain(*client_files)
        port = free_port()
        self.server = self.add(port=port, tls=context, tls_port=port,
                               tls_cert_file=certificate_file, tls_key_file=key_file, tls_ca_cert_file=ca_file,
                               tls_auth_clients=clients, **options)

    @property
    def port(self):
        return self.server.port

    def url(self, host="127.0.0.1"):
        return f"rediss://{host}:{self.port}"

    def command(self, *words):
        return self.server.command(*words)
