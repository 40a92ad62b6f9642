"""A program that was built where there is no cargo: all but policies in the process, which it says where they are asked for. It
is the build that scripts/test makes for the other llhttp."""
import glob
import os
import subprocess

import harness
import pytest

FOUND = sorted(glob.glob(os.path.join(harness.ROOT, "build", "llhttp[89]", "doorward")))
BIN = FOUND[0] if FOUND else None
MISSING = "DOORWARD_EMBEDDED_REGO"
CONFIG = """
listen: {{ address: "127.0.0.1:3001" }}
upstream: {{ url: "http://127.0.0.1:7001" }}
tokens:
  issuers: [ {{ issuer: "i", jwks_url: "https://id.example.org/keys", audiences: [api] }} ]
policy: {{ {} }}
routes: [ {{ prefix: / }} ]
"""
EMBEDDED = f'path: {harness.ROOT}/policies/example, rule: data.example.authz.allow'
ELSEWHERE = 'url: "http://127.0.0.1:8181/v1/data/example/authz/allow"'

pytestmark = pytest.mark.skipif(not BIN, reason="build/llhttp8 or llhttp9 is not built")


def run(tmp_path, *arguments, policy=EMBEDDED):
    config = tmp_path / "doorward.yaml"
    config.write_text(CONFIG.format(policy))
    arguments = [str(config) if one == "CONFIG" else one for one in arguments]
    done = subprocess.run([BIN, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE_S, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_version_names_no_engine(tmp_path):
    code, out, _ = run(tmp_path, "--version")
    assert code == 0 and "regorus" not in out


def test_a_configuration_with_policies_inside_is_refused_by_name(tmp_path):
    for arguments in (["--check", "--config", "CONFIG"], ["--config", "CONFIG"], ["eval", "--config", "CONFIG", "GET", "/"]):
        code, _, err = run(tmp_path, *arguments)
        assert code == 78 and "policy.path: " in err and MISSING in err and "policy.url" in err, (arguments, code, err)


def test_tests_of_policies_are_refused(tmp_path):
    code, out, err = run(tmp_path, "test", os.path.join(harness.ROOT, "policies", "example"))
    assert code == 1 and MISSING in err and not out


def test_an_engine_elsewhere_is_fine(tmp_path):
    code, _, err = run(tmp_path, "--check", "--config", "CONFIG", policy=ELSEWHERE)
    assert code == 0, err
