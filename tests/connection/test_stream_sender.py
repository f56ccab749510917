"""Frames that leave in the turn of the caller: only if there is room, byte by byte."""

from __future__ import annotations

import tracemalloc

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.connection.admission import OpenAdmission
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.stream_sender import StreamSender
from rsocket_trio.connection.stream_table import StreamTable
from rsocket_trio.frames.header import NEXT, FrameType
from rsocket_trio.interactions.operation import Operation
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.memory import ConnectionMemory

LIMIT = 100


def sender_with(used):
    """A sender whose outbox has ``used`` of `LIMIT` bytes in it."""
    outbox = Outbox(LIMIT, 10**6, 10**6)
    table = StreamTable(client=True)
    sender = StreamSender(
        ConnectionConfig(), table, outbox, OpenAdmission(outbox), ConnectionMemory(Limits())
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


async def test_a_fragment_is_made_when_there_is_room():
    """Streams that wait have no copies of their fragments, and leave the room as it was."""
    sender, outbox, table = sender_with(LIMIT)
    payload = Payload(bytes(2**20))
    async with trio.open_nursery() as nursery:
        tracemalloc.start()
        try:
            for number in range(1, 201, 2):
                table.operations[number] = Operation(sender, number)
                nursery.start_soon(sender.send_payload, number, NEXT, payload)
            await wait_all_tasks_blocked()
            assert tracemalloc.get_traced_memory()[0] < 100 * 10_000
        finally:
            tracemalloc.stop()
        table.operations.clear()
        await outbox.take()
        await wait_all_tasks_blocked()
        assert outbox.room.used == 0
        nursery.cancel_scope.cancel()


async def test_a_payload_that_cannot_be_encoded_takes_no_room():
    """The room that it has reserved is given back."""
    sender, outbox, table = sender_with(0)
    table.operations[1] = Operation(sender, 1)
    with pytest.raises(TypeError):
        await sender.send_payload(1, NEXT, Payload(b"data", "text"))
    assert outbox.room.used == 0
