"""Fixtures of the chaos tests. The parts stand for the whole session and are healed after each test."""
import os

import pytest

import parts as chaos_parts
from harness import BIN


def pytest_addoption(parser):
    parser.addoption("--seconds", type=int, default=None, help="length of the soak")
    parser.addoption("--seed", type=int, default=None, help="of what is killed when")
    parser.addoption("--results", default=None, help="file that a JSON line of each result is added to")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: left out of the short form")


def pytest_collection_modifyitems():
    if not os.path.exists(BIN):
        raise pytest.UsageError(f"{BIN} is not built: set DOORWARD_BIN")


@pytest.fixture(scope="session")
def session_parts():
    made = chaos_parts.Parts()
    yield made
    made.stop()


@pytest.fixture
def parts(session_parts):
    yield session_parts
    session_parts.heal()


@pytest.fixture
def doorward():
    """doorward(config): as many daemons as the test likes."""
    daemons = chaos_parts.Daemons()
    yield daemons
    daemons.finish()


@pytest.fixture(scope="module")
def module_doorward():
    daemons = chaos_parts.Daemons()
    yield daemons
    daemons.finish()
