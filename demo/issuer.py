#!/usr/bin/env python3
"""An OpenID issuer in the shape of Keycloak, for the demo and the tests: it gives a token to whoever names a user.

  GET  /realms/demo/.well-known/openid-configuration
  GET  /realms/demo/protocol/openid-connect/certs       the key set
  POST /realms/demo/protocol/openid-connect/token       grant_type=password&username=… (no password is asked)
       more form fields: algorithm=RS256|ES256, lifetime_s=…, claims={…} (JSON, put over the claims; null takes out),
       flaw=expired|not_yet|audience|issuer|key|kid|signature|none|hs256
  POST /rotate        new keys; with ?keep=1 the old ones stay in the set
  POST /set           {"certs_status": 503, "certs_delay_ms": 0, "certs_empty": true}
  GET  /__seen        how often each path was asked, since the last ?reset=1
"""
import argparse
import collections
import hashlib
import hmac
import json
import os
import threading
import time
import uuid
from urllib.parse import parse_qs

import tokens
from server import Handler, Server, address, run

REALM = "/realms/demo"
CONNECT = REALM + "/protocol/openid-connect"
FLAWS = ("expired", "not_yet", "audience", "issuer", "key", "kid", "signature", "none", "hs256")


class Issuer(Server):
    def __init__(self, where, users, audience, public_url=None):
        super().__init__(where, Requests)
        self.users = users
        self.audience = audience
        self.name = (public_url or "http://%s:%d" % self.server_address[:2]) + REALM
        self.lock = threading.Lock()
        self.seen = collections.Counter()
        self.settings = {}
        self.retired = []
        self.foreign = {a: tokens.Key("foreign-" + a, a) for a in ("RS256", "ES256")}
        self.new_keys()

    def new_keys(self):
        self.keys = {a: tokens.Key(f"{a.lower()}-{uuid.uuid4().hex[:8]}", a) for a in ("RS256", "ES256")}

    def rotate(self, keep):
        with self.lock:
            self.retired = list(self.keys.values()) if keep else []
            self.new_keys()

    def key_set(self):
        if self.settings.get("certs_empty"):
            return {"keys": []}
        return {"keys": [key.jwk() for key in [*self.keys.values(), *self.retired]]}

    def token(self, username, algorithm="RS256", lifetime_s=300, flaw=None, claims=None):
        now = int(time.time())
        name = username.lower()
        said = {"iss": self.name, "sub": str(uuid.uuid5(uuid.NAMESPACE_URL, name)), "aud": self.audience,
                "azp": "demo", "typ": "Bearer", "jti": str(uuid.uuid4()), "iat": now, "exp": now + lifetime_s,
                "preferred_username": name, "scope": "openid profile"}
        if flaw == "expired":
            said.update(iat=now - 7200, exp=now - 3600)
        elif flaw == "not_yet":
            said.update(nbf=now + 3600, exp=now + 7200)
        elif flaw == "audience":
            said.update(aud="another-api")
        elif flaw == "issuer":
            said.update(iss="https://issuer.example/realms/other")
        said.update(claims or {})
        said = {claim: value for claim, value in said.items() if value is not None}
        key = self.keys[algorithm]
        if flaw == "key":  # signed by a stranger in the name of our key
            return self.foreign[algorithm].token(said, {"kid": key.kid})
        if flaw == "kid":
            return self.foreign[algorithm].token(said)
        if flaw in ("none", "hs256"):
            return self.unsigned(said, key, flaw)
        token = key.token(said)
        if flaw == "signature":
            head, payload, signature = token.split(".")
            token = f"{head}.{payload}." + ("A" if signature[0] != "A" else "B") + signature[1:]
        return token

    @staticmethod
    def unsigned(said, key, flaw):
        """alg none, or HS256 with the public key as the secret."""
        head = {"alg": "none" if flaw == "none" else "HS256", "typ": "JWT", "kid": key.kid}
        text = tokens.encode(json.dumps(head).encode()) + "." + tokens.encode(json.dumps(said).encode())
        if flaw == "none":
            return text + "."
        secret = json.dumps(key.jwk()).encode()
        return text + "." + tokens.encode(hmac.new(secret, text.encode(), hashlib.sha256).digest())


class Requests(Handler):
    def serve(self):
        issuer, path, body = self.server, self.url.path, self.body()
        if path == "/__seen":
            with issuer.lock:
                seen = dict(issuer.seen)
                if "reset" in self.query():
                    issuer.seen.clear()
            return self.answer(200, seen)
        with issuer.lock:
            issuer.seen[path] += 1
        if path == REALM + "/.well-known/openid-configuration":
            return self.answer(200, {"issuer": issuer.name, "jwks_uri": issuer.name + CONNECT[len(REALM):] + "/certs",
                                     "token_endpoint": issuer.name + CONNECT[len(REALM):] + "/token",
                                     "id_token_signing_alg_values_supported": ["RS256", "ES256"]})
        if path == CONNECT + "/certs":
            return self.certs()
        if self.command == "POST" and path == CONNECT + "/token":
            return self.token(body)
        if self.command == "POST" and path == "/rotate":
            issuer.rotate("keep" in self.query())
            return self.answer(200, issuer.key_set())
        if self.command == "POST" and path == "/set":
            issuer.settings.update(json.loads(body))
            return self.answer(200, issuer.settings)
        return self.answer(404, {"error": "Not Found"})

    def certs(self):
        settings = self.server.settings
        time.sleep(settings.get("certs_delay_ms", 0) / 1000)
        status = settings.get("certs_status", 200)
        if status != 200:
            return self.answer(status, {"error": "unavailable"})
        headers = [("Cache-Control", settings["certs_cache"])] if "certs_cache" in settings else []
        return self.answer(200, self.server.key_set(), headers)

    def token(self, body):
        form = {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        username, flaw = form.get("username", "").lower(), form.get("flaw")
        algorithm = form.get("algorithm", "RS256")
        if form.get("grant_type", "password") != "password" or flaw not in (None, *FLAWS):
            return self.answer(400, {"error": "invalid_request"})
        if algorithm not in self.server.keys or username not in self.server.users:
            return self.answer(401, {"error": "invalid_grant", "error_description": "unknown user or algorithm"})
        try:
            claims, lifetime_s = json.loads(form.get("claims", "{}")), int(form.get("lifetime_s", 300))
        except ValueError:
            return self.answer(400, {"error": "invalid_request"})
        token = self.server.token(username, algorithm, lifetime_s, flaw, claims)
        return self.answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": lifetime_s})


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--listen", default="127.0.0.1:8080", help="host:port")
    options.add_argument("--public-url", help="how the issuer calls itself, when not by its address")
    options.add_argument("--audience", default="cwms")
    options.add_argument("--users", default=os.path.join(here, "users.json"))
    given = options.parse_args()
    with open(given.users, encoding="utf-8") as file:
        users = json.load(file)["users"]
    run(Issuer(address(given.listen), users, given.audience, given.public_url), "issuer")


if __name__ == "__main__":
    main()
