"""A peer in a process of its own, for tests of many requests: answers every request with the same bytes.

  python3 fast.py <file with the answer's body> [<content type>]      prints the port
"""
import asyncio
import os
import subprocess
import sys
import tempfile


class Fast(asyncio.Protocol):
    answer = b""

    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""

    def data_received(self, data):
        self.buffer += data
        answers = []
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                break
            head, size = self.buffer[:end].lower(), 0
            at = head.find(b"\r\ncontent-length:")
            if at >= 0:
                size = int(head[at + 17:].split(b"\r\n", 1)[0])
            if len(self.buffer) < end + 4 + size:
                break
            self.buffer = self.buffer[end + 4 + size:]
            answers.append(self.answer[:-self.size] if head.startswith(b"head ") else self.answer)
        if answers:
            self.transport.write(b"".join(answers))


async def serve(body, kind):
    Fast.size = len(body)
    Fast.answer = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        kind.encode(), len(body), body)
    server = await asyncio.get_running_loop().create_server(Fast, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class FastPeer:
    """The same as a child of a test."""

    def __init__(self, body=b"ok", kind="text/plain"):
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(body)
        self.child = subprocess.Popen([sys.executable, os.path.abspath(__file__),
                                      file.name, kind], stdout=subprocess.PIPE)
        self.port = int(self.child.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        os.unlink(file.name)

    def stop(self):
        self.child.terminate()
        self.child.wait()
        self.child.stdout.close()


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as given:
        content = given.read()
    asyncio.run(serve(content, sys.argv[2] if len(sys.argv) > 2 else "text/plain"))
