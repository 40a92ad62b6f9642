"""Scripted upstreams: raw bytes, sent and recorded as they are."""
import re
import socket
import ssl
import threading
import time


class Conversation:
    """One accepted connection of a scripted upstream: what came, byte for byte, and what goes back."""

    def __init__(self, sock):
        self.socket = sock
        self.received = b""
        self.taken = 0
        self.ended = threading.Event()

    def more(self):
        data = self.socket.recv(65536)
        self.received += data
        return data

    def until(self, mark):
        """Takes bytes up to and with the mark; b"" at the end of the stream."""
        while mark not in self.received[self.taken:]:
            if not self.more():
                return b""
        end = self.received.index(mark, self.taken) + len(mark)
        taken, self.taken = self.received[self.taken:end], end
        return taken

    def exactly(self, size):
        while len(self.received) - self.taken < size:
            if not self.more():
                return b""
        taken, self.taken = self.received[self.taken:self.taken + size], self.taken + size
        return taken

    def request(self):
        """(head, body) of the next request, None at the end. Chunked bodies come as sent, framing and all."""
        head = self.until(b"\r\n\r\n")
        if not head:
            return None
        lower = head.lower()
        if b"\r\ntransfer-encoding:" in lower:
            return head, self.chunked()
        found = re.search(rb"\r\ncontent-length:\s*(\d+)", lower)
        return head, self.exactly(int(found.group(1))) if found else b""

    def chunked(self):
        body = b""
        while True:
            line = self.until(b"\r\n")
            body += line
            if int(line.split(b";")[0] or b"0", 16) == 0:
                while True:
                    line = self.until(b"\r\n")
                    body += line
                    if line in (b"\r\n", b""):
                        return body
            body += self.exactly(int(line.split(b";")[0], 16) + 2)

    def send(self, *pieces, delay_s=0.0):
        for i, piece in enumerate(pieces):
            if i and delay_s:
                time.sleep(delay_s)
            self.socket.sendall(piece)

    def send_bytewise(self, data, delay_s=0.0):
        self.send(*[data[i:i + 1] for i in range(len(data))], delay_s=delay_s)

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


OK_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def always(answer=OK_ANSWER):
    """A script that answers each request of a connection with the same bytes."""
    def script(conversation):
        while conversation.request():
            conversation.send(answer)
    return script


class ScriptedUpstream:
    """Raw bytes in Python. script(conversation) runs once a connection, on a thread of its own; a list gives the first
    connection its first script and so on, the last for all that follow."""

    def __init__(self, script=None):
        self.scripts = script if isinstance(script, list) else [script or always()]
        self.conversations = []
        self.failures = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conversation = Conversation(sock)
            script = self.scripts[min(len(self.conversations), len(self.scripts) - 1)]
            self.conversations.append(conversation)
            threading.Thread(target=self.run, args=(script, conversation), daemon=True).start()

    def run(self, script, conversation):
        try:
            script(conversation)
        except OSError as error:  # the other side went away: what it means is the test's to say
            self.failures.append(error)
        finally:
            conversation.close()
            conversation.ended.set()

    def requests(self):
        """The first lines of all requests seen, over all connections."""
        line = re.compile(rb"(?:^|(?<=\n))[A-Z]+ \S+ HTTP/1\.1\r\n")
        return [found for c in self.conversations for found in line.findall(c.received)]

    def stop(self):
        self.listener.close()
        for conversation in self.conversations:
            try:
                conversation.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class TlsUpstream(ScriptedUpstream):
    """The same in TLS. pair: (certificate file, key file); ca_file: clients must show a certificate of it. Handshakes that
    fail are in `failures`; `context` may be changed before the first connection."""

    def __init__(self, pair, script=None, ca_file=None):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        if ca_file:
            self.context.load_verify_locations(ca_file)
            self.context.verify_mode = ssl.CERT_REQUIRED
        super().__init__(script)
        self.url = f"https://127.0.0.1:{self.port}"

    def run(self, script, conversation):
        try:
            conversation.socket = self.context.wrap_socket(conversation.socket, server_side=True)
        except OSError as error:
            self.failures.append(error)
            conversation.close()
            conversation.ended.set()
            return
        super().run(script, conversation)
