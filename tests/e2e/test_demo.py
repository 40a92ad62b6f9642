"""The demo's own parts: a Ctrl-C reaches the whole group, and the script then ends each; they must end, and at once."""
import os
import signal
import subprocess
import sys

import pytest

from harness import ROOT


@pytest.mark.parametrize("part", ["issuer.py", "api.py"])
def test_ends_at_once_however_often_it_is_told(part):
    process = subprocess.Popen([sys.executable, os.path.join(ROOT, "demo", part), "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert f"process {process.pid}" in process.stdout.readline()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        assert process.wait(timeout=3) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
