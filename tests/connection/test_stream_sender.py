"""Frames that leave in the turn of the caller: only if there is room, byte by byte."""

from __future__ import annotations

import pytest

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.connection.admission import OpenAdmission
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.stream_sender import StreamSender
from rsocket_trio.connection.stream_table import StreamTable
from rsocket_trio.frames.header import NEXT, FrameType
from rsocket_trio.interactions.operation import Operation
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.receive_account import ReceiveAccount

LIMIT = 100


def sender_with(used):
    """A sender whose outbox has ``used`` of `LIMIT` bytes in it."""
    outbox = Outbox(LIMIT, 10**6, 10**6)
    table = StreamTable(client=True)
    sender = StreamSender(
        ConnectionConfig(), table, outbox, OpenAdmission(outbox), ReceiveAccount(Limits())
    )
    outbox.put(bytes(used))
    return sender, outbox, table


@pytest.mark.parametrize(("used", "sent"), [(LIMIT - 1, True), (LIMIT, False)])
@pytest.mark.parametrize("metadata", [None, b"m"])
def test_a_payload_leaves_while_a_byte_is_free(used, sent, metadata):
    """The last frame may exceed the limit; a full outbox takes none."""
    sender, outbox, _ = sender_with(used)
    assert sender.try_send_payload(1, NEXT, Payload(b"data", metadata)) is sent
    assert (outbox.room.used > used) is sent


@pytest.mark.parametrize(("used", "sent"), [(LIMIT - 1, True), (LIMIT, False)])
def test_a_request_leaves_while_a_byte_is_free(used, sent):
    """A request that has to wait takes no stream id yet."""
    sender, outbox, table = sender_with(used)
    operation = Operation(sender, 0)
    kind = FrameType.REQUEST_RESPONSE.value
    assert sender.try_open(operation, kind, 0, None, Payload(b"data")) is sent
    assert (outbox.room.used > used) is sent
    assert (operation.stream_id, table.operations) == ((1, {1: operation}) if sent else (0, {}))
