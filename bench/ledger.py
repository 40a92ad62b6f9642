"""The ledger: one line of JSON for each arm of each repetition, appended and never changed; also for runs that do not count,
with the reason in `rejected`."""
import hashlib
import json
import os

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
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()
