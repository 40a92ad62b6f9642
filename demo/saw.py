#!/usr/bin/env python3
"""Tells in a few lines what the sample API saw since it was last asked, for scripts/demo: saw.py http://127.0.0.1:PORT"""
import json
import sys
import urllib.request

GRANT = "x-cwms-auth-context"


def shown(value):
    return json.dumps(value, separators=(",", ":"))


def describe(request):
    yield f"{request['method']} {request['target']}"
    if not request["grants"]:
        yield f"  without {GRANT}"
        return
    grant = request["grant"]
    user, limits = grant.get("user", {}), grant.get("constraints", {})
    yield f"  {GRANT} ({request['grants']} of it):"
    yield f"    policy      {shown(grant.get('policy'))}"
    yield f"    user        {user.get('id')}, roles {shown(user.get('roles'))}, offices {shown(user.get('offices'))}"
    yield f"    constraints allowed_offices {shown(limits.get('allowed_offices'))}, " \
          f"embargo_rules {shown(limits.get('embargo_rules'))}, data {shown(limits.get('data_classification'))}"


def main():
    with urllib.request.urlopen(sys.argv[1] + "/__seen?reset=1", timeout=5) as answer:
        seen = json.load(answer)
    lines = []
    for request in seen:
        if request["method"] == "HEAD" or request["target"].rstrip("/") == "/cwms-data":
            continue  # probes of the proxy
        lines.extend(describe(request))
    print("   the API saw   " + ("\n                 ".join(lines) or "nothing"))


if __name__ == "__main__":
    main()
