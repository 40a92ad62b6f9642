"""Fixtures of the end-to-end tests. Real parts stand for the whole session; daemons for a test or a module."""
import os

import pytest

import harness
from general import Recorder


def pytest_collection_modifyitems(items):
    if not os.path.exists(harness.BIN):
        raise pytest.UsageError(f"{harness.BIN} is not built: set DOORWARD_BIN")
    for item in items:
        item.add_marker(pytest.mark.e2e)


def pytest_configure(config):
    config.addinivalue_line("markers", "e2e: needs the binary, Redis and OPA")


@pytest.fixture(scope="session")
def redis():
    server = harness.Redis()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def opa():
    """The real OPA with policies/cwms and policies/example."""
    server = harness.Opa(os.path.join(harness.ROOT, "policies"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def issuer():
    peer = harness.Issuer()
    yield peer
    peer.stop()


@pytest.fixture(scope="session")
def session_api(issuer):
    peer = harness.Api(issuer)
    yield peer
    peer.stop()


@pytest.fixture
def api(session_api):
    """The sample API, with its users as in the table and nothing seen yet."""
    session_api.reset()
    yield session_api
    session_api.reset()


@pytest.fixture
def policy():
    """A policy engine that answers what the test says; `true` at first."""
    peer = harness.Policy()
    yield peer
    peer.stop()


@pytest.fixture
def upstream():
    """scripted = upstream(script): raw peers, closed at the end."""
    made = []

    def make(script=None):
        made.append(harness.ScriptedUpstream(script))
        return made[-1]
    yield make
    for peer in made:
        peer.stop()


@pytest.fixture
def doorward():
    """doorward(config, env, arguments): as many daemons as the test likes."""
    starter = harness.Starter()
    yield starter
    starter.finish()


@pytest.fixture(scope="module")
def module_doorward():
    starter = harness.Starter()
    yield starter
    starter.finish()


@pytest.fixture(autouse=True)
def watch_daemons(request):
    """After each test the module's daemons still run, without a report."""
    yield
    if "module_doorward" in request.fixturenames:
        for daemon in request.getfixturevalue("module_doorward").started:
            if not daemon.stopped:
                daemon.check()


@pytest.fixture(scope="module")
def recorder():
    """The API of a module: raw bytes, each request kept; the test sets the answer."""
    peer = Recorder()
    yield peer
    peer.stop()


@pytest.fixture(scope="module")
def engine():
    """The policy engine of a module; the test says what it answers."""
    peer = harness.Policy()
    yield peer
    peer.stop()
