"""Ctrl-C works in the programs that tests start, however the suite itself was started."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def control_c_works():
    """A shell starts what it runs in the background deaf to Ctrl-C, and programs inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
