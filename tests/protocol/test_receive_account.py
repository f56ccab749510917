"""The account of received bytes: its limits are those of the settings."""

from __future__ import annotations

import pytest

from rsocket_trio.config import Limits
from rsocket_trio.errors import ErrorCode, RemoteProtocolError
from rsocket_trio.protocol.receive_account import ReceiveAccount


def test_a_new_account_is_empty():
    """It has no unread bytes, and the limits of the settings."""
    account = ReceiveAccount(Limits(max_unread_size=1000, max_unread_body_size=100))
    assert (account.unread, account.max_unread, account.max_unread_body) == (0, 1000, 100)


def test_reassemblers_share_the_limit_of_the_connection():
    """Two unfinished payloads share one limit; errors name the stream."""
    account = ReceiveAccount(Limits(max_payload_size=100, max_reassembly_size=150))
    first, second = account.reassembler(1), account.reassembler(3)
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
    account = ReceiveAccount(Limits())
    with pytest.raises(RemoteProtocolError, match="max_metadata_size"):
        account.reassembler(1, max_metadata=4).add(b"m" * 5, b"")
