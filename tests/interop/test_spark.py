"""Spark's source as the requester of other stacks."""

from __future__ import annotations

import pytest
import trio

pytestmark = pytest.mark.interop


def read(uri: str, **options: str) -> list[dict[str, object]]:
    # PySpark is imported by the tests that need it only.
    from rsocket_trio.spark.rsocket_source.rsocket_source import RSocketDataSource
    from tests.spark.engine import read_batch

    return read_batch(RSocketDataSource, {"uri": uri, "timeoutMs": "20000", **options})


async def test_a_batch_read(stack):
    """A thousand elements in small windows, from a peer that counts credit."""
    pytest.importorskip("pyspark")
    async with stack.serve() as (uri, _):
        rows = await trio.to_thread.run_sync(
            lambda: read(uri, data="1000", payloadFormat="utf8", initialRequestN="50")
        )
    assert [row["data"] for row in rows] == [str(number) for number in range(1000)]
    assert [row["offset"] for row in rows] == list(range(1000))


async def test_demand_on_the_wire(tcp_stack, wire_to):
    """The peer sends what it has credit for, and the credit is never above the window."""
    pytest.importorskip("pyspark")
    async with tcp_stack.serve() as (uri, _), wire_to(uri) as wire:
        rows = await trio.to_thread.run_sync(
            lambda: read(wire.uri, data="100", initialRequestN="8")
        )
    assert len(rows) == 100
    on_the_way = wire.on_the_way("server")
    assert len(on_the_way) == 100
    assert all(sent <= granted <= sent + 8 for sent, granted in on_the_way)


async def test_a_limited_read(stack):
    """The peer gets credit for seven elements, and a CANCEL."""
    pytest.importorskip("pyspark")
    async with stack.serve() as (uri, _):
        rows = await trio.to_thread.run_sync(
            lambda: read(uri, data="1000", payloadFormat="utf8", limit="7")
        )
    assert [row["data"] for row in rows] == [str(number) for number in range(7)]


async def test_a_request_with_one_response(stack):
    """The echo of the peer becomes a row for each partition."""
    pytest.importorskip("pyspark")
    async with stack.serve() as (uri, _):
        rows = await trio.to_thread.run_sync(
            lambda: read(
                uri, interaction="request_response", data="part {partition}", numPartitions="3"
            )
        )
    assert [row["data"] for row in rows] == [b"part 0", b"part 1", b"part 2"]
