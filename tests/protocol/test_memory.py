"""The accounts of a connection: their limits are those of the settings."""

from __future__ import annotations

import pytest

from rsocket_trio.config import Limits
from rsocket_trio.errors import ErrorCode, RemoteProtocolError
from rsocket_trio.protocol.memory import ConnectionMemory


def test_each_limit_has_its_account():
    """All are empty at first, and `held` is their sum."""
    limits = Limits(
        max_reassembly_size=1000,
        max_requests_size=2000,
        max_unread_size=3000,
        max_answers_size=4000,
        max_unread_body_size=100,
    )
    memory = ConnectionMemory(limits)
    accounts = (memory.fragments, memory.requests, memory.unread, memory.answers)
    assert [each.limit for each in accounts] == [1000, 2000, 3000, 4000]
    assert memory.max_unread_body == 100
    assert memory.held == 0
    for number, each in enumerate(accounts):
        assert each.take(10**number)
    assert memory.held == 1111


def test_reassemblers_share_the_limit_of_the_connection():
    """Two unfinished payloads share one limit; errors name the stream."""
    memory = ConnectionMemory(Limits(max_payload_size=100, max_reassembly_size=150))
    first, second = memory.reassembler(1), memory.reassembler(3)
    first.add(None, b"x" * 100)
    with pytest.raises(RemoteProtocolError, match="max_reassembly_size") as caught:
        second.add(None, b"x" * 51)
    assert (caught.value.code, caught.value.stream_id) == (ErrorCode.CANCELED, 3)
    first.discard()
    second.add(None, b"x" * 100)
    with pytest.raises(RemoteProtocolError, match="max_payload_size"):
        second.add(None, b"x")


def test_metadata_may_have_a_limit_of_their_own():
    """Metadata of requests have one."""
    memory = ConnectionMemory(Limits())
    with pytest.raises(RemoteProtocolError, match="max_metadata_size"):
        memory.reassembler(1, max_metadata=4).add(b"m" * 5, b"")
