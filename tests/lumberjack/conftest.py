"""Fixtures for tests of Lumberjack."""

from __future__ import annotations

import pytest

from tests.lumberjack.shipping import HOST, Network


@pytest.fixture
def network(monkeypatch):
    """Clients dial hosts in memory, of which one is up."""
    made = Network(HOST)
    monkeypatch.setattr("rsocket_trio.lumberjack.connector.dial", made.dial)
    return made
