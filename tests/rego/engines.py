"""The two engines that are compared, the real OPA as a server and the embedded one behind rego_lines, and what counts as
the same answer."""
import http.client
import json
import math
import os
import subprocess
import sys
from decimal import Decimal

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import peers  # noqa: E402 (beside the end-to-end tests)
from tools import ROOT  # noqa: E402

LINES = os.environ.get("REGO_LINES", os.path.join(ROOT, "build", "dev", "tests", "rego", "rego_lines"))
UNDEFINED = {"undefined": True}
QUIET = {**os.environ, "RUST_BACKTRACE": "0"}  # a panic that is caught need not be told at length


def program():
    return peers.opa_program()


def read(text):
    """JSON without the loss of a digit."""
    return json.loads(text, parse_float=Decimal)


def same(a, b, doubles=False):
    """Numbers by value, everything else by type and value. doubles: what is no whole number of 64 bits only as far as a
    double has it, which is all that the embedded engine has."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, Decimal)) and isinstance(b, (int, Decimal)):
        exact = isinstance(a, int) and isinstance(b, int) and max(abs(a), abs(b)) < 2**63
        return a == b or (doubles and not exact and math.isclose(a, b, rel_tol=1e-14))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], doubles) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y, doubles) for x, y in zip(a, b))
    return a == b


def agree(opa, ours, doubles=False):
    """Two answers; of errors only that there is one."""
    return ("error" in opa and "error" in ours) or same(opa, ours, doubles)


class Opa(peers.Opa):
    def __init__(self, policies):
        super().__init__(policies)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, rule, line):
        """rule: data.a.b.c; line: the text of the input."""
        body = b'{"input":' + line.encode("utf-8", "surrogatepass") + b"}"
        self.connection.request("POST", "/v1/" + rule.replace(".", "/"), body, {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        text = reply.read().decode("utf-8", "replace")
        answer = read(text)
        if reply.status != 200:
            return {"error": text}
        return {"result": answer["result"]} if "result" in answer else UNDEFINED


def ours(files, rules, lines):
    """What the embedded engine says: for each line one answer for each rule; or the error of the load."""
    text = "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
    done = subprocess.run([LINES, *files, *rules], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=QUIET)
    answers = [read(line) for line in done.stdout.decode("utf-8", "replace").split("\n") if line]
    if done.returncode == 1 and len(answers) == 1:
        return answers[0]["error"]
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    assert len(answers) == len(lines) * len(rules), f"{len(answers)} answers"
    return [answers[i:i + len(rules)] for i in range(0, len(answers), len(rules))]


def loads(files, rules):
    """Of each rule {"loaded": true, "compiled": by the register machine?}; or one {"error": what the engine has against the
    files}."""
    done = subprocess.run([LINES, "--load", *files, *rules], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=QUIET)
    assert done.returncode in (0, 1), done.stderr.decode("utf-8", "replace")
    return [read(line) for line in done.stdout.decode("utf-8", "replace").split("\n") if line]


def load_error(files, rule):
    """What the embedded engine has against these files, or None."""
    return loads(files, [rule])[0].get("error")
