"""The arms of the comparison: how each proxy is configured and started. Settings are meant to be the fastest fair ones:
one worker on one core, keep-alive to clients and to the upstream, no access log unless the arm says so."""
import os
import shutil
import subprocess

RUN_AS_ROOT = "user root;" if os.geteuid() == 0 else ""

NGINX = """
daemon off; master_process %(master)s; worker_processes 1; pid %(dir)s/%(name)s.pid; error_log stderr crit; %(user)s
events { worker_connections 4096; }
http {
    access_log off; server_tokens off; keepalive_requests 1000000000; keepalive_timeout 60s;
    client_body_temp_path %(dir)s/%(name)s-body; proxy_temp_path %(dir)s/%(name)s-proxy;
    fastcgi_temp_path %(dir)s/%(name)s-f; uwsgi_temp_path %(dir)s/%(name)s-u; scgi_temp_path %(dir)s/%(name)s-s;
    %(body)s
}
"""

UPSTREAM = """
server {
    listen 127.0.0.1:%(port)d backlog=4096;
    location = /count { stub_status; }
    location = /api/echo { default_type text/plain; return 200 "$http_x_auth_context"; }
    location / { default_type application/json; return 200 "%(answer)s"; }
}
"""

NGINX_PLAIN = """
upstream api { server 127.0.0.1:%(upstream)d; keepalive 128; keepalive_requests 1000000000; }
server {
    listen 127.0.0.1:%(port)d backlog=4096;
    location / { proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection ""; }
}
"""

NGINX_AUTH = """
upstream api { server 127.0.0.1:%(upstream)d; keepalive 128; keepalive_requests 1000000000; }
server {
    listen 127.0.0.1:%(port)d backlog=4096;
    location / { auth_request /auth; proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection ""; }
    location = /auth { internal; return 204; }
}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 30s
    http-reuse always
frontend in
    bind 127.0.0.1:%(port)d backlog 4096
    default_backend api
backend api
    server one 127.0.0.1:%(upstream)d
"""

DOORWARD = """
listen: { address: "127.0.0.1:%(port)d" }
admin: { address: "127.0.0.1:%(admin)d" }
upstream: { url: "http://127.0.0.1:%(upstream)d" }
tokens:
  issuers:
    - { issuer: bench, jwks_file: "%(dir)s/jwks.json", audiences: [api], algorithms: [RS256] }
policy: { url: "http://127.0.0.1:%(opa)d/v1/data/bench/allow" }
decisions: { ttl_s: 3600 }
grant: { header: x-auth-context }
routes: [ { prefix: /api, access: authorized } ]
log: { access: %(access)s }
"""


def _write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


def _pinned(core, command, **kw):
    return subprocess.Popen(["taskset", "-c", str(core)] + command, stdin=subprocess.DEVNULL, **kw)


def _nginx(where, name, body, core, master="on"):
    text = NGINX % {"dir": where, "name": name, "body": body, "user": RUN_AS_ROOT, "master": master}
    path = _write(f"{where}/{name}.conf", text)
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    return _pinned(core, [nginx, "-p", where, "-c", path]), text


def start_upstream(where, port, answer_bytes):
    body = UPSTREAM % {"port": port, "answer": "x" * answer_bytes}
    return _nginx(where, "upstream", body, 0)[0]


def start_nginx(env, auth=False):
    body = (NGINX_AUTH if auth else NGINX_PLAIN) % env
    return _nginx(env["dir"], "proxy", body, 1)


def start_haproxy(env):
    text = HAPROXY % env
    haproxy = shutil.which("haproxy") or "/usr/sbin/haproxy"
    return _pinned(1, [haproxy, "-f", _write(f"{env['dir']}/haproxy.cfg", text), "-db", "-q"]), text


def start_doorward(env, access=False):
    text = DOORWARD % dict(env, access="true" if access else "false")
    path = _write(f"{env['dir']}/doorward.yaml", text)
    log = open(f"{env['dir']}/doorward.log", "wb")
    return _pinned(1, [env["doorward"], "--config", path], stdout=log, stderr=log), text


ARMS = {
    "haproxy": start_haproxy,
    "nginx": start_nginx,
    "nginx auth_request": lambda env: start_nginx(env, auth=True),
    "doorward": start_doorward,
    "doorward, access log": lambda env: start_doorward(env, access=True),
}
