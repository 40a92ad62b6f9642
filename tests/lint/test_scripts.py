"""scripts/deps where something cannot be had: it says what, and why, and fails. Run with a PATH of nothing but fakes."""
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAKES = {
    "id": "echo 1000",
    "nproc": "echo 1",
    "dpkg-query": "exit 1",
    "apt-cache": "exit 0",
    "apt-get": 'echo "E: Failed to fetch http://mirror.test/$1" >&2; exit 100',
}


@pytest.fixture
def machine(tmp_path):
    """A tree with the scripts alone, and a folder of commands in which no package is installed."""
    shutil.copytree(os.path.join(ROOT, "scripts"), tmp_path / "tree" / "scripts")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "dirname", "mkdir", "cat", "grep", "tail", "sed", "env", "rm"):
        os.symlink(shutil.which(name), commands / name)
    for name, body in FAKES.items():
        fake(commands, name, body)
    return tmp_path


def fake(commands, name, body):
    (commands / name).write_text(f"#!/bin/sh\n{body}\n")
    (commands / name).chmod(0o755)


def deps(machine, *modes):
    done = subprocess.run([str(machine / "tree/scripts/deps"), *modes], env={"PATH": str(machine / "bin"), "HOME": "/"},
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_without_root(machine):
    status, said = deps(machine, "build")
    assert status == 1
    assert "libuv1-dev" in said and "the event loop" in said, "what is missing, and what for"
    assert "root is needed" in said and "libjq-dev" in said.split("root is needed")[1]


def test_without_a_network(machine):
    fake(machine / "bin", "id", "echo 0")
    if not os.path.exists("/usr/sbin/policy-rc.d"):
        pytest.skip("the script would make one")
    (machine / "tree/build").mkdir()
    (machine / "tree/build/deps.log").write_text("E: of another day\n")
    status, said = deps(machine, "build")
    assert status == 1
    assert "E: Failed to fetch http://mirror.test/install" in said and "of another day" not in said
    assert "libuv1-dev: known, but it could not be downloaded or installed" in said
    assert "apt-get update && apt-get install" in said


def test_elsewhere_than_debian(machine):
    os.unlink(machine / "bin/apt-get")
    status, said = deps(machine, "build")
    assert status == 1 and "this is no Debian" in said and "libuv1-dev" in said.split("this is no Debian")[1]
