"""Fixtures for tests of Lumberjack."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from tests.given_back import everything_is_given_back
from tests.lumberjack.shipping import HOST, Network

__all__ = ["everything_is_given_back"]


@pytest.fixture
def network(monkeypatch):
    """Clients dial hosts in memory, of which one is up."""
    made = Network(HOST)
    monkeypatch.setattr("rsocket_trio.lumberjack.client.connector.dial", made.dial)
    return made


@pytest.fixture
def slow_hosts(monkeypatch):
    """Hosts that get bytes only while they read; returns (time, reading, answers) of each."""
    made = []

    async def dial(_uri, shake_hands, **_settings):
        sending, reading = trio.testing.lockstep_stream_one_way_pair()
        answers, acks = trio.testing.memory_stream_one_way_pair()
        made.append((trio.current_time(), reading, answers))
        stream = trio.StapledStream(sending, acks)
        return await shake_hands(ByteStream(stream, TransportInfo(scheme="memory")))

    monkeypatch.setattr("rsocket_trio.lumberjack.client.connector.dial", dial)
    return made
