"""The ledger: one line of JSON for each arm of each repetition, appended and never changed; also for runs that do not count,
with the reason in `rejected`."""
import hashlib
import json
import os
import sys

import histogram

CONFIG_BYTES = 3000  # of a configuration; what is longer stands as its digest only


def _packed(value):
    if isinstance(value, dict):
        if "counts" in value and "max_us" in value:
            return histogram.pack(value)
        return {key: _packed(v) for key, v in value.items()}
    return [_packed(v) for v in value] if isinstance(value, list) else value


class Ledger:
    def __init__(self, path, common):
        self.path = path
        self.common = common
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "a+b") as f:  # what was ended while it wrote a line must not spoil the next one
            if f.tell() and f.seek(-1, os.SEEK_END) is not None and f.read() != b"\n":
                f.write(b"\n")

    def add(self, line):
        line = dict(self.common, **_packed(line))
        config = line.get("config")
        if config:
            line["config_sha256"] = hashlib.sha256(config.encode()).hexdigest()
            if len(config) > CONFIG_BYTES:
                line["config"] = f"{len(config)} bytes"
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(line, ensure_ascii=False) + "\n")
        return line


def read(path):
    """All its lines, in order: the first is number one. One that was cut off stands as {}."""
    found = []
    with open(path, encoding="utf-8", errors="replace") as f:
        for number, line in enumerate(f, 1):
            try:
                found.append(json.loads(line))
            except ValueError:
                print(f"{path}:{number}: cut off, left out", file=sys.stderr)
                found.append({})
    return found


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()
