"""Where it is measured: processes pinned to cores, stubs that count, tokens, and what a process used.

Load generator, API and policy engine on core 0, the proxy alone on core 1; where a part says so, all of them on both."""
import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TICK = os.sysconf("SC_CLK_TCK")
OTHERS_CORE, PROXY_CORE, BOTH_CORES = 0, 1, "0,1"
LONGEST_S = 900  # no load runs longer; what does hangs, and is ended and rejected
SECRET = "an-hmac-secret-of-32-bytes-or-more"
GRANT = "x-auth-context"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def output(*command, **kw):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **kw)
    except OSError:
        return ""
    return (done.stdout + done.stderr).strip()


def get(port, path, token=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", "Bearer " + token)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read()


def wait_for(what, process, probe, seconds=20):
    until = time.monotonic() + seconds
    while True:
        try:
            return probe()
        except OSError as error:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{what} does not answer: {error}") from error
            time.sleep(0.05)


def stop(process):
    if process and process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# --- tokens: openssl does what the standard library cannot -------------------------------------------------------------

def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _signing_input(algorithm, **claims):
    now = int(time.time())
    claims = {"iss": "bench", "aud": "api", "sub": "bench", "iat": now, "exp": now + 7200, "roles": ["reader"], **claims}
    return ".".join(b64(json.dumps(part).encode()) for part in ({"alg": algorithm, "typ": "JWT", "kid": "1"}, claims))


def make_rsa(where):
    """A key and its key set: where/key.pem, where/jwks.json."""
    key = f"{where}/key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key], check=True,
                   stderr=subprocess.DEVNULL)
    modulus = output("openssl", "rsa", "-in", key, "-noout", "-modulus").split("=")[1]
    jwk = {"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", "n": b64(bytes.fromhex(modulus)), "e": "AQAB"}
    with open(f"{where}/jwks.json", "w", encoding="ascii") as f:
        json.dump({"keys": [jwk]}, f)


def rsa_token(where, **claims):
    text = _signing_input("RS256", **claims)
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", f"{where}/key.pem"], input=text.encode(),
                               capture_output=True, check=True).stdout
    return text + "." + b64(signature)


def hmac_token(secret=SECRET, **claims):
    text = _signing_input("HS256", **claims)
    return text + "." + b64(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())


# --- what a process used -----------------------------------------------------------------------------------------------

def tree(pid):
    found = [pid]
    for p in found:
        try:
            for thread in os.listdir(f"/proc/{p}/task"):
                with open(f"/proc/{p}/task/{thread}/children", encoding="ascii") as f:
                    found.extend(int(c) for c in f.read().split())
        except OSError:
            continue
    return found


def cpu_s(pids):
    """User and system time so far, of all threads that live: the scheduler's account, in ns; where it is not kept, ticks."""
    total = 0.0
    for p in pids:
        try:
            for thread in os.listdir(f"/proc/{p}/task"):
                with open(f"/proc/{p}/task/{thread}/schedstat", encoding="ascii") as f:
                    total += int(f.read().split()[0]) / 1e9
        except OSError:
            with open(f"/proc/{p}/stat", encoding="ascii") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def ticks(pids):
    """(of user time, of system time), of all that live; sampled, so that a short while says little of how they share."""
    sums = [0, 0]
    for p in pids:
        with open(f"/proc/{p}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        sums = [sums[0] + int(fields[11]), sums[1] + int(fields[12])]
    return sums


def core_busy_s(core):
    with open("/proc/stat", encoding="ascii") as f:
        for line in f:
            if line.startswith(f"cpu{core} "):
                user, nice, system, _, _, irq, softirq = (int(v) for v in line.split()[1:8])
                return (user + nice + system + irq + softirq) / TICK
    return 0.0


def memory_kib(pids):
    """(resident, of that anonymous)"""
    sums = {"VmRSS:": 0, "RssAnon:": 0}
    for p in pids:
        with open(f"/proc/{p}/status", encoding="ascii") as f:
            for line in f:
                key = line.split(None, 1)[0]
                if key in sums:
                    sums[key] += int(line.split()[1])
    return sums["VmRSS:"], sums["RssAnon:"]


# --- the laboratory ----------------------------------------------------------------------------------------------------

class Stub:
    """bench_stub: counters() are exact."""

    def __init__(self, lab, *arguments):
        self.port = free_port()
        self.process = lab.spawn(OTHERS_CORE, [f"{lab.programs}/bench_stub", "--listen", f"127.0.0.1:{self.port}", *arguments])
        wait_for("bench_stub", self.process, self.counters)

    def counters(self):
        return json.loads(get(self.port, "/stub/counters"))

    def settled(self):
        """The counters once nothing moves: what a load before it left behind has come."""
        before, until = None, time.monotonic() + 5
        while (now := self.counters())["requests"] != before and time.monotonic() < until:
            before = now["requests"]
            time.sleep(0.05)
        return now


class Opa:
    """The real OPA; url: where its API is, in the words of policy.url."""

    def __init__(self, lab, policies, unix):
        port = free_port()
        addresses = [f"127.0.0.1:{port}"]
        self.url = f"http://{addresses[0]}"
        if unix:
            addresses.append(f"unix://{lab.dir}/opa-{port}.sock")
            self.url = f"unix:{lab.dir}/opa-{port}.sock:"
        log = lab.log(f"opa-{port}")
        command = [lab.opa_program(), "run", "--server", "--log-level", "error", "--ignore", "*_test.rego", policies]
        self.process = lab.spawn(OTHERS_CORE, command + [word for one in addresses for word in ("--addr", one)], stdout=log, stderr=log)
        wait_for("OPA", self.process, lambda: get(port, "/health"))

    def pids(self):
        return tree(self.process.pid)


class Proxy:
    """A running arm. port None: direct, and the port is the API's."""

    def __init__(self, port, process=None, config=""):
        self.port = port
        self.process = process
        self.config = config
        self.pids = []

    def ready(self):
        """Call it before a measurement: workers may have been born meanwhile."""
        self.pids = tree(self.process.pid) if self.process else []


class Lab:
    def __init__(self, doorward, programs):
        self.doorward = doorward
        self.programs = programs
        self.dir = tempfile.mkdtemp(prefix="doorward-bench-")
        self.processes = []
        self.stubs = {}
        make_rsa(self.dir)
        self.token = rsa_token(self.dir)

    def close(self):
        """Nothing that was started here is left, however it was that it ended."""
        for process in reversed(self.processes):
            stop(process)
        for pid in reversed(tree(os.getpid())[1:]):  # none, unless a signal came while one was being born
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def spawn(self, core, command, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(["taskset", "-c", str(core), *command], **kw)
        self.processes.append(process)
        return process

    def log(self, name):
        return open(f"{self.dir}/{name}.log", "wb")

    def write(self, name, text):
        path = f"{self.dir}/{name}"
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def api(self, delay_us=0, answer_bytes=1024):
        return self.stub("--answer-bytes", str(answer_bytes), "--delay-us", str(delay_us), "--count", GRANT + ": ")

    def engine(self):
        """Says true to everything; also what a proxy asks that wants no more than a 200."""
        return self.stub("--answer", '{"result":true}')

    def profiles(self):
        return self.stub("--answer", '{"id":"bench","roles":["reader"]}')

    def stub(self, *arguments):
        """The one that runs; a new one where it died, so that one part's trouble is not that of all behind it."""
        if arguments not in self.stubs or self.stubs[arguments].process.poll() is not None:
            self.stubs[arguments] = Stub(self, *arguments)
        return self.stubs[arguments]

    @contextlib.contextmanager
    def on_both_cores(self, stubs):
        """So that a proxy of several workers and all that goes with it share what there is."""
        try:
            for stub in stubs:
                os.sched_setaffinity(stub.process.pid, {OTHERS_CORE, PROXY_CORE})
            yield
        finally:
            for stub in stubs:
                if stub.process.poll() is None:
                    os.sched_setaffinity(stub.process.pid, {OTHERS_CORE})

    @staticmethod
    def opa_program():
        return shutil.which("opa")

    def opa(self, name, policies, unix=False):
        """The real one, on the core of the others, with a file or folder of policies; None where it is not installed."""
        key = "opa", name, unix
        if self.opa_program() and (key not in self.stubs or self.stubs[key].process.poll() is not None):
            self.stubs[key] = Opa(self, policies, unix)
        return self.stubs.get(key)

    @contextlib.contextmanager
    def running(self, proxy, path="/api/ready", token=True):
        """The proxy, once it answers, until the block ends."""
        try:
            if proxy.process:
                wait_for("the proxy", proxy.process, lambda: get(proxy.port, path, self.token if token else None))
            proxy.ready()
            yield proxy
        finally:
            stop(proxy.process)
            if proxy.process in self.processes:
                self.processes.remove(proxy.process)

    # --- load

    def requests(self, lines, name="requests"):
        return self.write(name, "".join("\t".join(line) + "\n" for line in lines))

    @staticmethod
    def asked(requests):
        """What a requests file asks for, for the ledger; without its tokens."""
        with open(requests, encoding="ascii") as f:
            lines = f.read().splitlines()
        method, path, _, body = (lines[0].split("\t") + [""] * 3)[:4]
        return {"first": f"{method} {path}", "body_bytes": len(body), "lines": len(lines)}

    def load(self, port, requests, core=OTHERS_CORE, **options):
        """bench_load's word; options: rate=…, connections=…, requests_n=… and so on."""
        arguments = [a for key, value in options.items() for a in ("--" + key.replace("_", "-"), str(value))]
        done = subprocess.run(["taskset", "-c", str(core), f"{self.programs}/bench_load", "--to", f"127.0.0.1:{port}",
                               "--requests", requests, *arguments], capture_output=True, text=True, check=False,
                              timeout=LONGEST_S)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"bench_load ended with {done.returncode}")
        return json.loads(done.stdout)

    def wrk(self, port, path, seconds, connections):
        done = subprocess.run(["taskset", "-c", str(OTHERS_CORE), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s",
                               "--latency", "-s", f"{HERE}/request.lua", f"http://127.0.0.1:{port}{path}"],
                              capture_output=True, text=True, check=True, env=dict(os.environ, TOKEN=self.token),
                              timeout=seconds + 60)
        text = done.stdout
        said = {"requests": int(re.search(r"(\d+) requests in", text)[1]),
                "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
                "wrk_errors": " ".join(re.findall(r"(?:Socket errors|Non-2xx).*", text))}
        for percent in (50, 99):
            value, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\n", text).groups()
            said[f"closed_loop_p{percent}_us"] = round(float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit], 1)
        return said


class Used:
    """What a proxy used inside the block: cpu_s, kernel_share of it, others_on_proxy_core, rss_kib, anonymous_kib, seconds."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.values = {}

    def __enter__(self):
        self.begun = time.monotonic(), cpu_s(self.proxy.pids), core_busy_s(PROXY_CORE), ticks(self.proxy.pids)
        return self

    def __exit__(self, *_):
        begun, cpu, busy, (user, system) = self.begun
        seconds, used = time.monotonic() - begun, cpu_s(self.proxy.pids) - cpu
        others = max(0.0, core_busy_s(PROXY_CORE) - busy - used) / seconds
        self.values = {"cpu_s": round(used, 6), "used_s": round(seconds, 3), "others_on_proxy_core": round(others, 3)}
        user, system = (now - was for now, was in zip(ticks(self.proxy.pids), (user, system)))
        if user + system >= TICK:  # a second of it at least
            self.values["kernel_share"] = round(system / (user + system), 3)
        if self.proxy.process:
            self.values["rss_kib"], self.values["anonymous_kib"] = memory_kib(self.proxy.pids)


def conditions(args, mode):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = re.search(r"model name\s*:\s*(.*)", f.read())
    nginx, haproxy = (shutil.which(n) or f"/usr/sbin/{n}" for n in ("nginx", "haproxy"))
    flags = output("grep", "-m1", "^CMAKE_C_FLAGS_RELEASE:", f"{os.path.dirname(args.doorward)}/CMakeCache.txt")
    return {
        "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "mode": mode,
        "host": socket.gethostname(), "kernel": os.uname().release, "cpu": cpu.group(1) if cpu else os.uname().machine,
        "cores": os.cpu_count(), "commit": output("git", "-C", ROOT, "rev-parse", "HEAD"),
        "dirty": bool(output("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no", "--", ":!bench/ledger.jsonl",
                             ":!docs")),
        "flags": flags.partition("=")[2],
        "versions": {
            "doorward": output(args.doorward, "--version"), "haproxy": output(haproxy, "-v").split("\n")[0],
            "nginx": output(nginx, "-v"), "caddy": output("caddy", "version"), "wrk": output("wrk", "-v").split("\n")[0],
            "opa": output("opa", "version").split("\n")[0],
        },
    }
