"""What the tests of the general configuration share: a configuration to start from, and an upstream of raw bytes whose
answer the test sets and whose requests it reads byte by byte."""
import json
import re
import threading

from scripted import OK_ANSWER, ScriptedUpstream

NEVER_MS = 3600000
REQUEST_ID = re.compile(rb"\r\nX-Request-Id: ([^\r]*)")
ROUTES = [{"prefix": "/pub", "access": "public"}, {"prefix": "/me", "access": "authenticated"}, {"prefix": "/"}]


def merged(into, more):
    """A deep copy of `into` with `more` laid over it; None takes a key out."""
    out = dict(into)
    for key, value in more.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        else:
            out[key] = value
    return out


def settings(upstream, policy, issuer, /, **more):
    """A general configuration: the policy judges everybody, also who sends no credential, and is probed once only."""
    return merged({
        "upstream": {"url": upstream},
        "tokens": {"anonymous": "judge", "issuers": [{"issuer": issuer.name, "jwks_url": issuer.jwks_url,
                                                      "audiences": ["cwms"], "algorithms": ["RS256", "ES256"]}]},
        "policy": {"url": policy + "/v1/data/authz/allow", "query": []},
        "serve": {"probe_interval_ms": NEVER_MS},
        "routes": ROUTES,
    }, more)


class Recorder:
    """An upstream of raw bytes. `answer` is what each request gets: bytes, or a function of (conversation, head, body)
    that sends for itself and says False when the conversation is over. Probes of readiness are answered, not kept;
    requests whose body broke off are in `broken`, not in `seen`."""

    def __init__(self):
        self.lock = threading.Lock()
        self.seen, self.broken = [], []
        self.answer = OK_ANSWER
        self.peer = ScriptedUpstream(self.script)
        self.url = self.peer.url
        self.port = self.peer.port

    def script(self, conversation):
        while True:
            got = conversation.request()
            if got is None:
                return
            if b"\r\nX-Request-Id:" not in got[0]:
                conversation.send(b"HTTP/1.1 204 No Content\r\n\r\n")
                continue
            whole = is_whole(*got)
            with self.lock:
                (self.seen if whole else self.broken).append(got)
            if not whole:
                return
            if not callable(self.answer):
                conversation.send(self.answer)
            elif self.answer(conversation, *got) is False:
                return

    def reset(self, answer=OK_ANSWER):
        with self.lock:
            self.seen.clear()
            self.broken.clear()
        self.answer = answer

    @property
    def last(self):
        with self.lock:
            return self.seen[-1]

    def targets(self):
        with self.lock:
            return [head.split(b" ", 2)[1].decode() for head, _ in self.seen]

    def stop(self):
        self.peer.stop()


def is_whole(head, body):
    if b"\r\ntransfer-encoding:" in head.lower():
        return body.startswith(b"0\r\n") or b"\r\n0\r\n" in body
    found = re.search(rb"\r\ncontent-length:\s*(\d+)", head.lower())
    return len(body) == (int(found.group(1)) if found else 0)


def without_id(head):
    """A head with the value of X-Request-Id replaced by ID: the one thing in it that is chance."""
    return REQUEST_ID.sub(rb"\r\nX-Request-Id: ID", head)


def lines_of(head):
    """[(name, value)] of a raw head, both as sent."""
    return [tuple(part.strip() for part in line.split(":", 1))
            for line in head.decode("latin-1").split("\r\n")[1:] if line]


def values(head, name):
    return [value for key, value in lines_of(head) if key.lower() == name.lower()]


def grant_of(head, name="x-auth-context"):
    found = values(head, name)
    assert len(found) == 1, f"{name} came {len(found)} times"
    return json.loads(found[0])


def is_sanitized(binary):
    """A sanitizer build keeps freed memory and mallocs each allocation alone: its resident memory says nothing."""
    with open(binary, "rb") as file:
        return b"__asan_init" in file.read()
