"""What passed between two peers is remembered, and demand is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rsocket_trio import Caller, Router, connect
from rsocket_trio.frames import (
    CancelFrame,
    PayloadFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.metadata import route_metadata
from rsocket_trio.testing.frame_log import FrameLog, recorded
from rsocket_trio.testing.in_memory import served


def application() -> Router:
    router = Router()

    @router.request_stream("count")
    async def count() -> AsyncIterator[int]:
        for n in range(6):
            yield n

    return router


async def test_demand_is_counted(autojump_clock):
    """What the client asks for, what it gets, and the order across streams."""
    log = FrameLog()
    async with served(application()) as dial, connect(recorded(dial, log)) as requester:
        caller = Caller(requester)
        stream = caller.request_stream("count", returns=int, prefetch=0, initial_request_n=2)
        async with stream as first:
            await first.receive()
            await log.wait_for("client", RequestStreamFrame)
            asked = log.requested(1)
            async with caller.request_stream("count", returns=int) as second:
                assert [each async for each in second] == list(range(6))
        assert await log.wait_for("client", CancelFrame)
    assert asked == log.items(1) == 2
    assert log.items(3) == 6
    assert [stream for _, stream in log.order][-6:] == [3] * 6
    log.assert_demand_kept()


async def test_an_item_that_nobody_asked_for():
    """It is named, with the end that sent it."""
    log = FrameLog()
    metadata = route_metadata("count")
    for by, frame in [
        ("client", RequestStreamFrame(1, 1, metadata=metadata)),
        ("server", PayloadFrame(1, data=b"0", next=True)),
        ("client", RequestNFrame(1, 1)),
        ("server", PayloadFrame(1, data=b"1", next=True, follows=True)),
        ("server", PayloadFrame(1, data=b"1", next=True)),
        ("client", RequestResponseFrame(3)),
        ("server", PayloadFrame(3, data=b"an answer", next=True, complete=True)),
    ]:
        log.add(1, by, frame.encode())
        log.assert_demand_kept()
    log.add(1, "server", PayloadFrame(1, data=b"2", next=True).encode())
    with pytest.raises(AssertionError, match=r"server sent item 3 of stream 1 .* 2 were requested"):
        log.assert_demand_kept()


def test_what_is_remembered_is_bounded():
    """Of a long run the latest frames; the counts are of all."""
    log = FrameLog(keep=2)
    log.add(1, "client", RequestStreamFrame(1, 5).encode())
    for _ in range(5):
        log.add(1, "server", PayloadFrame(1, data=b"", next=True).encode())
    log.add(1, "server", b"no frame")
    assert len(log.passed) == len(log.order) == 2
    assert log.items(1) == 5
    log.assert_demand_kept()
