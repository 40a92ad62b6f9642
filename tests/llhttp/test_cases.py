"""What llhttp's own published cases are to our parser (llhttp under http/parser, judged by http/message): what it
refuses in its strict form we refuse; what it takes we read the same, or refuse by a rule of ours that stands in a table
here. Each case is read at once and byte by byte. scripts/deps test fetches the cases; $LLHTTP_PARSE is the program."""
import collections
import os
import re
import subprocess

import pytest

import cases

VERSIONS = ["8.1.1", "9.2.1"]
PARSE = os.environ.get("LLHTTP_PARSE", cases.TOP / "build" / "dev" / "tests" / "llhttp" / "llhttp_parse")


def read(version):
    folder = cases.folder_of(version)
    if not folder.is_dir() and not os.environ.get("CI"):
        pytest.skip(f"{folder} is not there: scripts/deps test fetches it")
    return [case for case in cases.read(folder) if case.meta.get("mode") != "loose"]



class Reading:
    """What our parser made of one input."""

    def __init__(self, lines):
        self.messages, self.judged = [], []
        for line in lines[:-1]:
            word, _, rest = line.partition(" ")
            if word in ("method", "status"):
                self.messages.append(cases.Message())
                self.messages[-1].headers_complete = True
            message = self.messages[-1]
            if word in ("header", "trailer"):
                name, value = rest.split(" = ")
                getattr(message, word + "s").append((bytes.fromhex(name), bytes.fromhex(value)))
            elif word == "judged":
                self.judged.append(rest)
            elif word == "status":
                message.status = int(rest)
            elif word == "complete":
                message.complete = True
            else:
                setattr(message, word, getattr(message, word) + bytes.fromhex(rest))
        self.outcome = lines[-1].split(" ")[1]
        self.refused = self.outcome not in ("done", "partial", "closed")


def parse(side, inputs, bytewise):
    given = b"".join(b"%d\n%s" % (len(data), data) for data in inputs)
    arguments = [PARSE, side, "bytewise" if bytewise else "at once"]
    ran = subprocess.run(arguments, input=given, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    lines = ran.stdout.decode("ascii").splitlines()[1:]
    readings, start = [], 0
    for at, line in enumerate(lines):
        if line.startswith("end "):
            readings.append(Reading(lines[start:at + 1]))
            start = at + 1
    assert len(readings) == len(inputs)
    return readings


# --- our own rules: why a message that llhttp takes is refused all the same ------------------------------------------

def values(message, name):
    return [value.strip(b" \t").lower() for key, value in message.headers if key.lower() == name]


def other_coding(message, _):
    codings = values(message, b"transfer-encoding")
    return codings and codings != [b"chunked"]


REQUEST_RULES = [
    # what is refused, the code, and what of llhttp's reading of the message, or of the input, must be so
    ("HTTP/1.1 without Host", "invalid_host", lambda m, _: m.version == b"1.1" and not values(m, b"host")),
    ("neither HTTP/1.0 nor 1.1", "http_version", lambda m, _: m.version not in (b"1.0", b"1.1")),
    ("no version", "malformed_request", lambda m, _: not m.version),
    ("RTSP and ICE", "malformed_request", lambda _, data: re.match(rb"\S+ \S+ (RTSP|ICE)/", data)),
    ("a folded line", "malformed_request", lambda _, data: re.search(rb"\n[ \t]", data)),
    ("a coding besides chunked", "transfer_coding_unknown", other_coding),
    ("a coding besides chunked", "ambiguous_framing", other_coding),
    ("QUERY, which llhttp 8.1 does not know", "malformed_request", lambda m, _: m.method == b"QUERY"),
    ("a chunk extension behind one with a value, which llhttp 8.1 does not know", "ambiguous_framing",
     lambda _, data: re.search(rb"\n5;[^\r]*=\w+;", data)),
]
RESPONSE_RULES = [
    ("neither HTTP/1.0 nor 1.1", "upstream_malformed", lambda m, _: m.version not in (b"1.0", b"1.1")),
    ("a folded line", "upstream_malformed", lambda _, data: re.search(rb"\n[ \t]", data)),
    ("a coding besides chunked", "upstream_malformed", other_coding),
    ("an empty line before an answer", "upstream_malformed",
     lambda _, data: re.search(rb"(?:^|\r\n\r\n|[AB])\r\nHTTP", data)),
]
TARGET_RULES = [
    ("a fragment", "invalid_target", lambda url: b"#" in url),
    ("a user in the authority", "invalid_target", lambda url: b"@" in url.split(b"/")[2]),
    ("a zone in the authority", "invalid_target", lambda url: b"%" in url.split(b"/")[2]),
]


def rule_of(side, message, reading, data):
    rules = REQUEST_RULES if side == "request" else RESPONSE_RULES
    return next((name for name, code, holds in rules if code == reading.outcome and holds(message, data)), None)


# --- each case --------------------------------------------------------------------------------------------------------

HOST = b"Host: a\r\n"


def with_hosts(case):
    """Gives each request of HTTP/1.1 in the case that has no Host one, so that more than its absence is tried."""
    shift = 0
    for message in case.messages:
        at = (message.version_end or 0) + shift
        own = case.data[at:].split(b"\r\n\r\n")[0].lower()
        if message.version != b"1.1" or b"\nhost" in own or not own.startswith(b"\r\n"):
            continue
        case.data = case.data[:at + 2] + HOST + case.data[at + 2:]
        message.headers.insert(0, (b"Host", b"a"))
        shift += len(HOST)
    return shift > 0


def variants(version):
    """(case, side, data) of all that is run of one version's cases."""
    for case in read(version) + [c for c in read(version) if c.side == "request" and with_hosts(c)]:
        data, side = case.data, case.side
        if side == "url":
            side, data = "request", b"GET " + data + b" HTTP/1.1\r\n" + HOST + b"\r\n"
        elif case.refused() and b"\r\n\r\n" not in data:
            data += b"\r\n\r\n"  # a head that does not end is not judged yet
        if case.meta.get("skipBody"):
            if side == "request":
                continue  # the caller's wish, not the message's form
            side = "head"
        yield case, side, data


def until_close(side, message):
    return side == "response" and message.headers_complete and not values(message, b"content-length") and \
        values(message, b"transfer-encoding") != [b"chunked"]


def same(case, side, reading):
    """Do both read the same messages, as far as we went?"""
    theirs, ours = [m for m in case.messages if m.headers_complete], reading.messages
    if theirs and until_close(side, theirs[-1]):
        theirs[-1].complete = True  # our reader was told that the peer closed
    if len(ours) > len(theirs) and case.error != cases.PAUSED_FOR_UPGRADE:
        return False
    if len(ours) < len(theirs) and not reading.refused and not case.lenient:
        return False
    for i, (their, our) in enumerate(zip(theirs, ours)):
        last = i == len(ours) - 1 and reading.refused or i == len(theirs) - 1 and case.error == cases.PAUSED_FOR_UPGRADE
        if their.reading(whole=not last) != our.reading(whole=not last):
            return False
    return True


def judge(case, side, data, reading):
    """How it went, in a word for the count; None when it must not go so."""
    judged = next((code for code in reading.judged if code != "forwarded"), None)
    if case.refused():
        return "refused by both" if reading.refused or case.side == "url" and judged else None
    if case.side == "url":
        if not judged:
            return "read the same" if reading.outcome == "done" else None
        found = (name for name, code, holds in TARGET_RULES if code == judged and holds(case.data))
        return next(("rule: " + name for name in found), None)
    if not same(case, side, reading):
        return None
    if case.lenient and reading.outcome != "done":
        return "refused where llhttp is told to be lenient"
    if not reading.refused or case.error == cases.PAUSED_FOR_UPGRADE and len(reading.messages) == len(case.messages):
        return "read the same"
    rest = case.messages[len([m for m in reading.messages if m.complete]):]
    rule = rule_of(side, rest[0], reading, data) if rest else None
    return rule and "rule: " + rule


COUNT = collections.Counter()


@pytest.mark.parametrize("bytewise", [False, True], ids=["at once", "bytewise"])
@pytest.mark.parametrize("version", VERSIONS)
def test_cases(version, bytewise):
    wrong, count = [], collections.Counter()
    everything = list(variants(version))
    for side in ("request", "response", "head"):
        chosen = [(case, data) for case, its_side, data in everything if its_side == side]
        for (case, data), reading in zip(chosen, parse(side, [data for _, data in chosen], bytewise)):
            verdict = judge(case, side, data, reading)
            count[verdict] += 1
            if verdict is None:
                wrong.append(f"{case.name} ({case.kind}): {data!r}\n    llhttp: {case.reason or 'takes it'}, "
                             f"{case.messages}\n    we: {reading.outcome}, {reading.judged} {reading.messages}")
    COUNT.update({f"{version}, {verdict}": n for verdict, n in count.items()})
    assert not wrong, "\n".join(wrong)
    assert count["refused by both"] >= 90 and count["read the same"] >= 110, count
