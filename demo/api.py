#!/usr/bin/env python3
"""A sample API behind the proxy, in the shape of the CWMS Data API: it answers with what it saw.

  GET /cwms-data/user/profile                       the profile of the caller: a bearer token of --issuer, verified
                                                    against its keys, or `Authorization: apikey <key of a user>`
  GET /cwms-data/users/<name>?include-roles=true    a profile, for `Authorization: apikey <service key>`
  GET /cwms-data/slow?ms=500                        answers late
  ANY /cwms-data/status/404                         answers with that status
  GET /cwms-data/bytes/100000                       that many bytes; ?chunked=1: without a length
  ANY /cwms-data/…                                  method, path, headers, decoded grant, length and digest of the body

Tokens, keys and cookies never appear in an answer: such a header is shown as "present".
For tests: GET /__seen (every request; ?reset=1 forgets them), POST /__users {"name": {"profile": {…} or null}},
POST /__set {"profile_status": 500, "profile_delay_ms": 175, "root_status": 500}.
"""
import argparse
import base64
import collections
import hashlib
import hmac
import json
import os
import threading
import time
import urllib.request
from urllib.parse import parse_qs, unquote

import tokens
from server import Handler, Server, address, run

PREFIX = "/cwms-data"
SECRET = {"authorization", "proxy-authorization", "cookie", "apikey", "x-api-key"}
GRANTS = ("x-cwms-auth-context", "x-auth-context")


class Api(Server):
    def __init__(self, where, table, issuer=None, profile_delay_ms=0):
        super().__init__(where, Requests)
        self.users = {name.lower(): dict(user) for name, user in table["users"].items()}
        self.service_key = table["service_key"]
        self.issuer = issuer
        self.settings = {"profile_delay_ms": profile_delay_ms}
        self.seen = collections.deque(maxlen=20000)
        self.lock = threading.Lock()
        self.keys = None

    def claims(self, token):
        """Verified claims or None. Keys are fetched again when a token's is not among them."""
        if not self.issuer:
            return None
        found = tokens.verified_claims(token, self.keys or [], self.issuer)
        if found is None:
            try:
                url = self.issuer + "/protocol/openid-connect/certs"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    self.keys = json.load(answer)["keys"]
            except (OSError, ValueError, KeyError):
                return None
            found = tokens.verified_claims(token, self.keys, self.issuer)
        return found

    def caller(self, authorization):
        """The name behind a credential, None when it is not good."""
        scheme, _, credential = authorization.partition(" ")
        if scheme.lower() == "bearer":
            claims = self.claims(credential.strip())
            return claims and str(claims.get("preferred_username") or claims.get("sub")).lower()
        if scheme.lower() == "apikey":
            for name, user in self.users.items():
                if user.get("api_key") and hmac.compare_digest(user["api_key"].encode(), credential.strip().encode()):
                    return name
        return None

    def profile(self, name):
        return (self.users.get(name.lower()) or {}).get("profile")


def decoded_grant(value):
    """The grant whatever its format: JSON, base64url of it, or a JWS (its signature is not looked at)."""
    try:
        if value.lstrip().startswith("{"):
            return json.loads(value)
        part = value.split(".")[1] if value.count(".") == 2 else value
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return {"undecodable": True}


class Requests(Handler):
    def serve(self):
        self.began = time.time()
        path = self.url.path
        if path.startswith("/__"):
            return self.control(path)
        digest, length = hashlib.sha256(), 0
        for piece in self.pieces():
            digest.update(piece)
            length += len(piece)
        saw = self.note(length, digest.hexdigest())
        if path == PREFIX + "/user/profile":
            return self.own_profile()
        if path.startswith(PREFIX + "/users/") and "include-roles" in self.query():
            return self.named_profile(unquote(path[len(PREFIX) + 7:]))
        return self.echo(path, saw)

    def note(self, length, digest):
        """What came, without secrets: kept for /__seen and shown by the echo."""
        lines = [[name, "present" if name.lower() in SECRET else value] for name, value in self.headers.items()]
        grants = [value for name, value in lines if name.lower() in GRANTS]
        target = self.requestline.split(" ")[1]
        saw = {"method": self.command, "target": target, "path": target.partition("?")[0],
               "query": parse_qs(self.url.query, keep_blank_values=True),
               "headers": {name.lower(): value for name, value in lines}, "header_lines": lines,
               "grant": decoded_grant(grants[0]) if grants else None, "grants": len(grants),
               "body": {"length": length, "sha256": digest}, "time": self.began}
        with self.server.lock:
            self.server.seen.append(saw)
        return saw

    def echo(self, path, saw):
        if path.startswith(PREFIX + "/status/"):
            status = int(path.rsplit("/", 1)[1])
            headers = [("Location", PREFIX + "/elsewhere")] if status in (301, 302, 303, 307, 308) else []
            return self.answer(status, saw, headers)
        if path == PREFIX + "/slow":
            time.sleep(min(int(self.query().get("ms", "1000")), 60000) / 1000)
        if path.startswith(PREFIX + "/bytes/"):
            return self.bytes(int(path.rsplit("/", 1)[1]))
        if path in (PREFIX, PREFIX + "/"):
            return self.answer(self.server.settings.get("root_status", 200), saw)
        if path != PREFIX and not path.startswith(PREFIX + "/"):
            return self.answer(404, saw)
        return self.answer(200, saw, [("X-Api", "demo")])

    def bytes(self, size):
        """Streams without keeping the body; chunked when asked."""
        chunked = "chunked" in self.query()
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(size))))
        self.end_headers()
        if self.command == "HEAD":
            return
        block = bytes(range(256)) * 256
        while size > 0:
            piece = block[:min(size, len(block))]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            size -= len(piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def own_profile(self):
        settings = self.server.settings
        time.sleep(settings.get("profile_delay_ms", 0) / 1000)
        if settings.get("profile_status", 200) != 200:
            return self.answer(settings["profile_status"], {"message": "profile"})
        if "profile_raw" in settings:
            return self.answer(200, raw=settings["profile_raw"].encode())
        name = self.server.caller(self.headers.get("Authorization", ""))
        if name is None:
            return self.answer(401, {"message": "unauthorized"})
        profile = self.server.profile(name)
        return self.answer(200, profile) if profile else self.answer(404, {"message": "no such user"})

    def named_profile(self, name):
        scheme, _, key = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "apikey" or not hmac.compare_digest(key.encode(), self.server.service_key.encode()):
            return self.answer(401, {"message": "unauthorized"})
        profile = self.server.profile(name)
        return self.answer(200, profile) if profile else self.answer(404, {"message": "no such user"})

    def control(self, path):
        api, body = self.server, self.body()
        if path == "/__seen":
            with api.lock:
                seen = list(api.seen)
                if "reset" in self.query():
                    api.seen.clear()
            return self.answer(200, seen)
        if path == "/__users":
            for name, change in json.loads(body).items():
                user = api.users.setdefault(name.lower(), {})
                user.update(change)
            return self.answer(200, {})
        if path == "/__set":
            for name, value in json.loads(body).items():
                if value is None:
                    api.settings.pop(name, None)
                else:
                    api.settings[name] = value
            return self.answer(200, api.settings)
        return self.answer(404, {})


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--listen", default="127.0.0.1:7001", help="host:port")
    options.add_argument("--issuer", help="the issuer's URL, whose tokens are accepted: http://…/realms/demo")
    options.add_argument("--users", default=os.path.join(here, "users.json"))
    options.add_argument("--profile-delay-ms", type=int, default=0)
    given = options.parse_args()
    with open(given.users, encoding="utf-8") as file:
        table = json.load(file)
    run(Api(address(given.listen), table, given.issuer, given.profile_delay_ms), "api")


if __name__ == "__main__":
    main()
