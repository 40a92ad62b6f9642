"""An API in a process of its own, that can be killed and started again on its port: says who it is, and does what its
control path is told. By hand: python3 backend.py <address> <port> <name>

  GET /control?health=500&delay_ms=50&status=503    sets; answers {"served": n, "open": n} of the requests but these
"""
import asyncio
import json
import os
import signal
import sys
import urllib.parse

from tools import Process, eventually, free_port, http

STATE = {"health": 200, "delay_ms": 0, "status": 200, "served": 0, "probed": 0}


async def answer(target, name):
    path, _, query = target.partition("?")
    if path == "/control":
        STATE.update({key: int(value) for key, value in urllib.parse.parse_qsl(query)})
        return 200, json.dumps(STATE)
    if path == "/up":
        STATE["probed"] += 1
        return STATE["health"], "{}"
    if path == "/":
        return 200, ""
    STATE["served"] += 1
    await asyncio.sleep(STATE["delay_ms"] / 1000)
    return STATE["status"], name


async def converse(reader, writer, name):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.decode("latin-1").split(" ", 2)
            size = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            await reader.readexactly(size)
            status, body = await answer(target, name)
            text = b"" if method == "HEAD" else body.encode()
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), text))
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        writer.close()


async def serve(address, port, name):
    server = await asyncio.start_server(lambda r, w: converse(r, w, name), address, port, backlog=512)
    await server.serve_forever()


class Backend:
    def __init__(self, name, address="127.0.0.1", port=None):
        self.name, self.address, self.port = name, address, port or free_port()
        shown = f"[{address}]" if ":" in address else address
        self.authority = f"{shown}:{self.port}"
        self.url = f"http://{self.authority}"
        self.start()

    def start(self):
        self.process = Process([sys.executable, os.path.abspath(__file__), self.address, str(self.port), self.name])
        eventually(self.listens, f"{self.name} listens")

    def listens(self):
        assert self.process.alive(), self.process.stderr()
        try:
            return self.control()
        except OSError:
            return None

    def control(self, **values):
        return json.loads(http("GET", f"{self.url}/control?{urllib.parse.urlencode(values)}"))

    def kill(self):
        self.process.end(signal.SIGKILL)

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
