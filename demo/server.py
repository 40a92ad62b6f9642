"""A small threaded HTTP/1.1 server with keep-alive, shared by the demo's API and issuer. Standard library only.

Refuses bodies over MAX_BODY. An answer leaves in one write, so that no reader waits for a delayed acknowledgement.
"""
import http.server
import json
import os
import signal
import socket
import threading
from urllib.parse import parse_qs, urlsplit

MAX_BODY = 1 << 30


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120

    def answer(self, status, document=None, headers=(), raw=None):
        """Sends one whole answer: a JSON document, or raw bytes."""
        body = raw if raw is not None else json.dumps(document, indent=1).encode() + b"\n"
        self.send_response(status)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            self.send_header(name, value)
        if "content-type" not in names:
            self.send_header("Content-Type", "application/json")
        bodiless = status in (204, 304) or status < 200
        if not bodiless:
            self.send_header("Content-Length", str(len(body)))
        self._headers_buffer.append(b"\r\n")
        if not bodiless and self.command != "HEAD":
            self._headers_buffer.append(body)
        self.flush_headers()

    def pieces(self):
        """The request's body piece by piece, whatever its framing; trailers are dropped."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            total = 0
            while True:
                size = int(self.rfile.readline(1024).split(b";")[0], 16)
                total += size
                if total > MAX_BODY:
                    raise ValueError("body too large")
                if size == 0:
                    while self.rfile.readline(65536).strip():
                        pass
                    return
                yield from self.exactly(size)
                self.rfile.readline(8)
        else:
            yield from self.exactly(min(int(self.headers.get("Content-Length") or 0), MAX_BODY))

    def exactly(self, size):
        while size > 0:
            piece = self.rfile.read1(min(size, 65536))
            if not piece:
                raise ConnectionError("body ended early")
            size -= len(piece)
            yield piece

    def body(self):
        return b"".join(self.pieces())

    @property
    def url(self):
        return urlsplit(self.path)

    def query(self):
        return {name: values[-1] for name, values in parse_qs(self.url.query, keep_blank_values=True).items()}

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, socket.timeout, ValueError):
            self.close_connection = True

    def log_message(self, *_):
        pass

    def serve(self):
        raise NotImplementedError

    def dispatch(self):
        self.serve()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_PROPFIND = dispatch


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass


def run(server, what):
    """Serves until SIGTERM or SIGINT, however many of them; says on standard output where."""
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # waited for, not handled: a handler may interrupt itself
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    print(f"{what} on http://{host}:{port}, process {os.getpid()}", flush=True)
    signal.sigwait(ends)
    server.shutdown()


def address(text):
    """host:port"""
    host, _, port = text.rpartition(":")
    return host or "127.0.0.1", int(port)
