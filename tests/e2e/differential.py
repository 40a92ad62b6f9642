"""What the differential tests stand on: nginx and haproxy as plain proxies, an upstream that keeps what it sees byte by
byte, and a strict reader of what any of the three has sent it."""
import os
import re
import shutil
import socket
import tempfile
import threading

import harness

PEERS = ("nginx", "haproxy")
QUIET_S = 0.25  # nothing more is coming
SILENT_S = 0.6  # no answer is coming: it waits for more of the request

NGINX = """daemon off; master_process off; pid {folder}/nginx.pid; error_log /dev/null;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  client_header_timeout 5s; client_body_timeout 5s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1; proxy_set_header Connection "";
                 proxy_set_header Host $http_host; proxy_request_buffering off; }}
  }}
}}
"""
HAPROXY = """defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend front
  bind 127.0.0.1:{port}
  default_backend back
backend back
  server one 127.0.0.1:{upstream}
"""


class Peer:
    """nginx or haproxy with its own configuration's defaults, on a free port."""

    def __init__(self, name, upstream):
        self.port = harness.free_port()
        self.folder = tempfile.TemporaryDirectory(prefix=name)
        path = os.path.join(self.folder.name, "conf")
        with open(path, "w", encoding="ascii") as file:
            text = NGINX if name == "nginx" else HAPROXY
            file.write(text.format(folder=self.folder.name, port=self.port, upstream=upstream))
        arguments = ["-p", self.folder.name, "-c", path] if name == "nginx" else ["-db", "-f", path]
        self.process = harness.Process([program(name), *arguments])
        harness.eventually(lambda: harness.opened(self.port), f"{name} listens")

    def stop(self):
        self.process.end()
        self.folder.cleanup()


def program(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


class Upstream:
    """Keeps the bytes of each connection; answers what it is told, once a request, and closes."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.reset()
        threading.Thread(target=self.accept, daemon=True).start()

    def reset(self, answer=b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"):
        with self.lock:
            self.seen, self.answer = [], answer

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        mine = [b""]
        with self.lock:
            self.seen.append(mine)
        sock.settimeout(QUIET_S)
        try:
            while not strict(mine[0]).whole:
                try:
                    data = sock.recv(65536)
                except socket.timeout:
                    if not mine[0]:
                        continue
                    break  # a reader that waits no longer: what the end of it is was left open
                if not data:
                    return
                mine[0] += data
            sock.sendall(self.answer)
            sock.shutdown(socket.SHUT_WR)
            while True:
                data = sock.recv(65536)
                if not data:
                    return
                mine[0] += data
        except OSError:
            pass
        finally:
            sock.close()

    def bytes(self):
        with self.lock:
            return [mine[0] for mine in self.seen if mine[0]]

    def stop(self):
        self.listener.close()


class Message:
    def __init__(self, method, target, framing, body, host):
        self.method, self.target, self.framing, self.body, self.host = method, target, framing, body, host

    def __repr__(self):
        body = f" {self.framing} {self.body.decode('latin-1')!r}" if self.framing != "none" else ""
        return f"{self.method} {self.target} host {self.host}{body}"


class Read:
    """What a strict reader makes of a stream of requests: its messages, whether the last is whole, and the first thing
    that another reader could take in another way."""

    def __init__(self):
        self.messages, self.whole, self.doubt, self.rest = [], False, None, b""


TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")


def strict(data):
    read = Read()
    while data:
        head, mark, rest = data.partition(b"\r\n\r\n")
        if not mark:
            read.whole, read.rest = False, data
            return read
        lines = head.split(b"\r\n")
        first = re.fullmatch(rb"([A-Z]+) (\S+) HTTP/1\.([01])", lines[0])
        fields = [LINE.fullmatch(line) for line in lines[1:]]
        if not first or not all(fields):
            read.doubt = read.doubt or f"not a head: {lines[0][:40]!r}"
            read.rest = data
            return read
        fields = [(f[1].lower(), f[2]) for f in fields]
        lengths = [v for n, v in fields if n == b"content-length"]
        codings = [v.lower() for n, v in fields if n == b"transfer-encoding"]
        hosts = [v.decode("latin-1") for n, v in fields if n == b"host"]
        if len(lengths) + len(codings) > 1 or len(hosts) != 1 or codings not in ([], [b"chunked"]) or \
                not all(re.fullmatch(rb"\d{1,18}", v) for v in lengths):
            read.doubt = read.doubt or f"lengths {lengths}, codings {codings}, hosts {hosts}"
        framing, body = "none", b""
        if codings:
            framing = "chunked"
            taken = chunked(rest)
        else:
            size = int(lengths[0]) if lengths and lengths[0].isdigit() else 0
            framing = "length" if size else "none"
            taken = (rest[:size], rest[size:]) if len(rest) >= size else None
        if taken is None:
            read.whole, read.rest = False, data
            return read
        body, data = taken
        read.messages.append(Message(first[1].decode(), first[2].decode("latin-1"), framing, body, "/".join(hosts)))
        read.whole = True
    return read


def chunked(data):
    """(the body, what is behind it), None while it is not whole or not well formed."""
    body = b""
    while True:
        size = re.match(rb"([0-9a-fA-F]{1,16})(?:;[^\r\n]*)?\r\n", data)
        if not size:
            return None
        n, data = int(size[1], 16), data[size.end():]
        if n == 0:
            end = re.match(rb"(?:[^\r\n]+\r\n)*\r\n", data)
            return (body, data[end.end():]) if end else None
        if len(data) < n + 2 or data[n:n + 2] != b"\r\n":
            return None
        body, data = body + data[:n], data[n + 2:]


class Seen:
    """How one proxy took one case."""

    def __init__(self, answered, upstream):
        self.answered, self.upstream = answered, upstream
        self.statuses = [int(s) for s in re.findall(rb"HTTP/1\.[01] (\d{3})[ \r]", answered)]
        self.reads = [strict(data) for data in upstream]

    @property
    def forwarded(self):
        return [message for read in self.reads for message in read.messages]

    def summary(self):
        status = ", ".join(map(str, self.statuses)) or "no answer"
        parts = [repr(message) for message in self.forwarded]
        parts += [f"not whole: {read.rest[:60]!r}" for read in self.reads if read.rest]
        parts += [f"doubtful: {read.doubt}" for read in self.reads if read.doubt]
        return f"{status}; " + ("forwarded " + "; ".join(parts) if parts else "nothing forwarded")


def exchange(port, data, upstream):
    """Sends the bytes on a connection of its own; done when the proxy closes, or is quiet after an answer."""
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answered = b""
        try:
            sock.sendall(data)
            sock.settimeout(SILENT_S)
            while True:
                more = sock.recv(65536)
                if not more:
                    break
                answered += more
                sock.settimeout(QUIET_S)
        except (socket.timeout, ConnectionError):
            pass
    return Seen(answered, upstream.bytes())
