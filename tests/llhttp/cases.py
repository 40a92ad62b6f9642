"""llhttp's published test cases: what its Markdown files say goes in, and what its log says it makes of it."""
import json
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FILES = ["request/*.md", "response/*.md", "url.md"]
# Errors of llhttp's that refuse nothing by themselves: it stops, and the caller is to go on or not.
PAUSED_FOR_UPGRADE = 22
DATA_AFTER_CLOSE = 5


class Message:
    def __init__(self):
        self.method = self.target = self.phrase = b""
        self.status = 0
        self.version = b""
        self.version_end = None  # where the line's end stands
        self.headers, self.trailers = [], []
        self.body = b""
        self.in_trailers = self.headers_complete = self.complete = False

    def reading(self, whole=True):
        """What two parsers must agree on; without `whole` as far as the head goes."""
        if not self.headers_complete:
            return None
        found = {"method": self.method, "target": self.target, "status": self.status, "phrase": self.phrase,
                 "headers": [(name, value.strip(b" \t")) for name, value in self.headers]}
        if whole:
            found.update(body=self.body, complete=self.complete,
                         trailers=[(name, value.strip(b" \t")) for name, value in self.trailers])
        return found

    def __repr__(self):
        return repr(self.reading())


class Case:
    def __init__(self, name, kind, meta, data, log):
        self.name, self.kind, self.meta, self.data = name, kind, meta, data
        self.messages, self.error, self.reason = [], None, ""
        self.read_log(log)

    @property
    def lenient(self):
        """The log is that of a parser with checks switched off: what it takes need not be good."""
        return "lenient" in self.kind

    @property
    def side(self):
        return "url" if self.kind == "url" else self.kind.split("-")[0]

    def refused(self):
        return self.error not in (None, PAUSED_FOR_UPGRADE, DATA_AFTER_CLOSE)

    def span(self, name, at, size):
        message, data = self.messages[-1], self.data[at:at + size]
        headers = message.trailers if message.in_trailers else message.headers
        if name == "header_field":
            if headers and headers[-1][2]:
                headers[-1] = (headers[-1][0] + data, b"", True)
            else:
                headers.append((data, b"", True))
        elif name == "header_value":
            headers[-1] = (headers[-1][0], headers[-1][1] + data, headers[-1][2])
        elif name in ("method", "body", "version"):
            setattr(message, name, getattr(message, name) + data)
        elif name == "url":
            message.target += data
        elif name == "status":
            message.phrase += data

    def read_log(self, log):
        for line in log.split("\n"):
            span = re.match(r"off=(\d+) len=(\d+) span\[([\w.]+)\]=", line)
            error = re.match(r'off=\d+ error code=(\d+) reason="(.*)"', line)
            event = re.match(r"off=(\d+) (.*)", line)
            if error:
                self.error, self.reason = int(error[1]), error[2]
            elif span and self.kind != "url":
                self.span(span[3], int(span[1]), int(span[2]))
            elif event and self.kind != "url":
                self.event(int(event[1]), event[2])
        for message in self.messages:
            message.headers = [header[:2] for header in message.headers]
            message.trailers = [header[:2] for header in message.trailers]

    def event(self, at, text):
        if text == "message begin":
            self.messages.append(Message())
            return
        message = self.messages[-1] if self.messages else None
        if text == "message complete":
            message.complete = True
        elif text == "version complete":
            message.version_end = at
        elif text in ("header_field complete", "header_value complete"):
            headers = message.trailers if message.in_trailers else message.headers
            if headers:
                headers[-1] = (*headers[-1][:2], text == "header_field complete")
        elif text.startswith("headers complete"):
            message.headers_complete = message.in_trailers = True
            status = re.search(r"status=(\d+)", text)
            message.status = int(status[1]) if status else 0


def bytes_of(text):
    """The input as llhttp's own runner reads it: line ends are CRLF but where a backslash says otherwise."""
    text = re.sub(r"\n\Z", "", text)
    text = re.sub(r"\\\n", "", text).replace("\n", "\r\n")
    for name, char in (("r", "\r"), ("n", "\n"), ("t", "\t"), ("f", "\f")):
        text = text.replace("\\" + name, char)
    text = re.sub(r"\\x([0-9a-fA-F]+)", lambda m: chr(int(m[1], 16)), text)
    text = re.sub(r"\\([0-7]{1,3})", lambda m: chr(int(m[1], 8)), text)
    assert "${" not in text, "a case is computed: this reader does not"
    return text.encode("utf-8")


def cases_of(path, root):
    title, meta, blocks = "", {}, {}
    block = None
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"), 1):
        if block is not None:
            if line != "```":
                blocks[block].append(line)
                continue
            if block == "log":
                kind = "url" if "url" in blocks else meta["type"]
                given = "\n".join(blocks["url" if "url" in blocks else "http"]) + "\n"
                yield Case(f"{path.relative_to(root)}:{first}: {title}", kind, meta, bytes_of(given),
                           "\n".join(blocks["log"]))
                meta, blocks = {}, {}
            block = None
        elif line.startswith("```"):
            block = line[3:]
            blocks[block] = []
            first = number if block != "log" else first
        elif line.startswith("#"):
            title = line.strip("# ")
        elif line.startswith("<!-- meta="):
            meta = json.loads(line[len("<!-- meta="):line.rindex("-->")])


def read(root):
    root = Path(root)
    found = [case for pattern in FILES for path in sorted(root.glob(pattern)) for case in cases_of(path, root)]
    assert found, f"no case in {root}"
    return found


def folder_of(version):
    return TOP / "build" / "tools" / "llhttp-cases" / version
