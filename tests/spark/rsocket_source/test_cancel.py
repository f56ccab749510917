"""What Spark's thread asks of trio, cancelled at every step: nothing stays behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio import Payload, Router, Server, serve
from rsocket_trio.spark.options import Options
from rsocket_trio.spark.replay import ReplayLines, ReplayList, replay_router
from rsocket_trio.spark.rsocket_source.asking import find_offsets
from rsocket_trio.spark.rsocket_source.pulling import open_chunks
from rsocket_trio.spark.rsocket_source.settings import SourceSettings, read_settings
from rsocket_trio.testing import cancel_everywhere


@asynccontextmanager
async def served(router: Router) -> AsyncIterator[Server]:
    async with trio.open_nursery() as nursery:
        yield await nursery.start(serve, router, "tcp://127.0.0.1:0")
        nursery.cancel_scope.cancel()


def settings(server: Server, **options: str) -> SourceSettings:
    return read_settings(Options({"uri": str(server.uris[0]), "route": "rows", **options}))


async def no_connections(server: Server) -> None:
    with trio.fail_after(10):
        while server.statistics().connections:
            await trio.sleep(0.001)


@pytest.mark.parametrize("interaction", ["request_stream", "request_response"])
async def test_elements(interaction):
    """The stream and the connection end, and each element is taken once in a complete run."""
    router, running = Router(), []

    @router.request_stream("rows")
    async def rows() -> AsyncIterator[Payload]:
        running.append(1)
        try:
            for number in range(20):
                yield Payload(b"%d" % number)
        finally:
            running.pop()

    @router.request_response("rows")
    async def row() -> bytes:
        return b"0"

    taken: list[bytes] = []
    async with served(router) as server:
        wanted = settings(server, initialRequestN="8", interaction=interaction)

        async def operation() -> None:
            taken.clear()
            async with open_chunks(wanted, wanted.request(0)) as chunks:
                async for chunk in chunks:
                    taken.extend(payload.data for payload in chunk.payloads)
                    chunk.done()

        async def check() -> None:
            await no_connections(server)
            assert not running

        assert await cancel_everywhere(operation, check) > 5
    count = 20 if interaction == "request_stream" else 1
    assert taken == [b"%d" % number for number in range(count)]


async def test_offsets():
    """The connection ends, and nothing is asked any more."""
    async with served(replay_router("rows", ReplayList([b"a"]))) as server:
        found = []

        async def operation() -> None:
            found.clear()
            await find_offsets(settings(server), found.append)

        assert await cancel_everywhere(operation, lambda: no_connections(server)) > 3
        assert found[0].partitions[0].latest == 1


async def test_lines_of_files(tmp_path):
    """A file that is being counted is not counted twice."""
    path = tmp_path / "rows"
    path.write_bytes(b"a\n" * 3000)
    source = ReplayLines(path)

    async def operation() -> None:
        assert (await source.offsets()).partitions[0].latest == 3000
        assert [item async for item in source.elements(0, 10, 2500)] == [b"a"] * 2490

    async def check() -> None:
        assert (await source.offsets()).partitions[0].latest == 3000

    assert await cancel_everywhere(operation, check) > 3
