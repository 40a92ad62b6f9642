"""The arms of the comparison: how each proxy is configured and started, as a function (lab, API's port, …) to a lab.Proxy.
Settings are meant to be the fastest fair ones: one worker on one core, keep-alive to clients and to the API, no access log
unless the arm says so."""
import json
import os
import resource
import shutil

import lab as lab_of
from lab import GRANT, PROXY_CORE, Proxy, free_port

RUN_AS_ROOT = "user root;" if os.geteuid() == 0 else ""
FILES = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 200000)  # open files a proxy may have

NGINX = """
daemon off; worker_processes %(workers)d; pid %(dir)s/nginx.pid; error_log stderr crit; worker_rlimit_nofile %(files)d; %(user)s
events { worker_connections %(connections)d; }
http {
    access_log off; server_tokens off; keepalive_requests 1000000000; keepalive_timeout 600s;
    client_body_temp_path %(dir)s/nginx-body; proxy_temp_path %(dir)s/nginx-proxy;
    fastcgi_temp_path %(dir)s/nginx-f; uwsgi_temp_path %(dir)s/nginx-u; scgi_temp_path %(dir)s/nginx-s;
    proxy_cache_path %(dir)s/nginx-cache keys_zone=auth:10m;
    upstream api { server 127.0.0.1:%(api)d; keepalive 512; keepalive_requests 1000000000; }
    upstream judge { server 127.0.0.1:%(judge)d; keepalive 512; keepalive_requests 1000000000; }
    server {
        listen 127.0.0.1:%(port)d backlog=4096;
        location / { %(auth)s proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection ""; }
        %(location)s
    }
}
"""
NGINX_ASK = """location = /auth { internal; proxy_pass http://judge; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header X-Original-URI $request_uri;
            %s }"""
NGINX_AUTH = {
    "nothing": ("", ""),
    "204": ("auth_request /auth;", "location = /auth { internal; return 204; }"),
    "asked": ("auth_request /auth;", NGINX_ASK % ""),
    "cached": ("auth_request /auth;", NGINX_ASK % (
        "proxy_cache auth; proxy_cache_key $http_authorization$request_uri; proxy_cache_valid 200 1h;")),
}

HAPROXY = """
global
    nbthread %(threads)d
    maxconn %(connections)d
defaults
    mode http
    timeout connect 2s
    timeout client 600s
    timeout server 60s
    http-reuse always
frontend in
    bind 127.0.0.1:%(port)d backlog 4096
    default_backend api
backend api
    server one 127.0.0.1:%(api)d
"""

CADDY = """
{
    admin off
    auto_https off
    log {
        level ERROR
    }
}
http://:%(port)d {
    bind 127.0.0.1
    forward_auth 127.0.0.1:%(judge)d {
        uri /auth
    }
    reverse_proxy 127.0.0.1:%(api)d
}
"""


def _shell(command):
    """With as many open files as may be."""
    return ["sh", "-c", f'ulimit -n {FILES} 2>/dev/null; exec "$@"', "sh", *command]


def _sbin(name):
    return shutil.which(name) or f"/usr/sbin/{name}"


def nginx(lab, api, auth="nothing", workers=1, core=PROXY_CORE):
    port = free_port()
    before, location = NGINX_AUTH[auth]
    text = NGINX % {"dir": lab.dir, "user": RUN_AS_ROOT, "files": FILES,
                    "connections": FILES // 2, "api": api, "judge": lab.engine().port, "port": port,
                    "auth": before, "location": location, "workers": workers}
    command = [_sbin("nginx"), "-p", lab.dir, "-c", lab.write("nginx.conf", text)]
    return Proxy(port, lab.spawn(core, command), text)


def haproxy(lab, api, threads=1, core=PROXY_CORE):
    port = free_port()
    text = HAPROXY % {"port": port, "api": api, "connections": FILES // 2 - 100, "threads": threads}
    command = _shell([_sbin("haproxy"), "-f", lab.write("haproxy.cfg", text), "-db", "-q"])
    return Proxy(port, lab.spawn(core, command), text)


def caddy(lab, api):
    port = free_port()
    text = CADDY % {"port": port, "api": api, "judge": lab.engine().port}
    command = _shell(["caddy", "run", "--adapter", "caddyfile", "--config", lab.write("Caddyfile", text)])
    log = lab.log("caddy")
    environment = dict(os.environ, HOME=lab.dir, XDG_CONFIG_HOME=lab.dir, XDG_DATA_HOME=lab.dir)
    return Proxy(port, lab.spawn(PROXY_CORE, command, stdout=log, stderr=log, env=environment), text)


def issuer(lab, name="bench", secret=None):
    if secret:
        return {"issuer": name, "secret": secret, "audiences": ["api"], "algorithms": ["HS256"]}
    return {"issuer": name, "jwks_file": f"{lab.dir}/jwks.json", "audiences": ["api"], "algorithms": ["RS256"]}


def doorward(lab, api, access="authorized", log=False, core=PROXY_CORE, name="doorward", **members):
    """members: replace those of the configuration below, by name; name: of its files, where several run at once."""
    port, admin = free_port(), free_port()
    config = {
        "listen": {"address": f"127.0.0.1:{port}", "max_connections": 100000, "idle_timeout_ms": 600000},
        "admin": {"address": f"127.0.0.1:{admin}"},
        "upstream": {"url": f"http://127.0.0.1:{api}"},
        "tokens": {"issuers": [issuer(lab)]},
        "policy": {"url": f"http://127.0.0.1:{lab.engine().port}/v1/data/bench/allow"},
        "decisions": {"ttl_s": 3600},
        "grant": {"header": GRANT},
        "routes": [{"prefix": "/api", "access": access}],
        "serve": {"probe_interval_ms": 3600000},
        "log": {"access": log},
        **members,
    }
    text = json.dumps(config, indent=1)
    path, out = lab.write(f"{name}.yaml", text), lab.log(name)
    proxy = Proxy(port, lab.spawn(core, _shell([lab.doorward, "--config", path]), stdout=out, stderr=out), text)
    proxy.admin = admin
    return proxy


def direct(_lab, api):
    return Proxy(api)


ARMS = {
    "direct": direct,
    "haproxy": haproxy,
    "nginx": nginx,
    "nginx auth_request": lambda lab, api: nginx(lab, api, "204"),
    "nginx auth_request, cached": lambda lab, api: nginx(lab, api, "cached"),
    "nginx auth_request, asked": lambda lab, api: nginx(lab, api, "asked"),
    "caddy forward_auth": caddy,
    "doorward": doorward,
    "doorward, access log": lambda lab, api: doorward(lab, api, log=True),
}


def there(name):
    """Is what the arm needs installed?"""
    program = name.split()[0].rstrip(",")
    return program in ("direct", "doorward") or os.path.exists(_sbin(program)) or bool(lab_of.output(program, "version"))
