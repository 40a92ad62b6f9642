"""What a process costs that has just started: measured on the plain builds, a sanitizer's memory says nothing."""
import re

import pytest

from general import Recorder, is_sanitized, settings
from harness import BIN

ANONYMOUS_KIB_MAX = 6 * 1024


@pytest.mark.skipif(is_sanitized(BIN), reason="a sanitizer build")
def test_anonymous_memory_after_start(doorward, policy, issuer, redis):
    recorder = Recorder()
    daemon = doorward(settings(recorder.url, policy.url, issuer, redis={"url": redis.url}))
    assert daemon.curl("/x").status == 200
    with open(f"/proc/{daemon.process.pid}/smaps_rollup", encoding="ascii") as file:
        kib = int(re.search(r"Anonymous:\s+(\d+) kB", file.read()).group(1))
    recorder.stop()
    assert kib < ANONYMOUS_KIB_MAX, f"{kib} KiB"
