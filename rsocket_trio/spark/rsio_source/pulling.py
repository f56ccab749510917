"""Elements of one publisher, in chunks, with demand only for what Spark takes: `open_chunks`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Final

import trio

from ... import Payload, RSocketError, rsio
from ...reactive_streams import ElementStream
from ...uri import shown, without_query
from ..attempts import connected_to
from ..demand import Window
from ..failures import ReadFailed, explain
from ..pulling import LINGER, MOST, Chunk, Pull, nothing
from ..rows.packed import PackedElements
from .settings import SourceSettings

__all__ = ["open_chunks"]


@asynccontextmanager
async def open_chunks(
    settings: SourceSettings, partition: int
) -> AsyncIterator[AsyncIterable[Chunk]]:
    """Connect, subscribe to the publisher of a partition, and give its elements.

    Leaving cancels the subscription.

    Args:
        settings: How to connect, and the window.
        partition: The number of the partition.

    Raises:
        ReadFailed: No server was reached. From the iteration: the publisher has failed; or the
            connection ended; or no element came in time.
    """
    name = settings.name(partition)
    async with connected_to(
        settings.uris, partial(_dial, settings), timeout=settings.timeout, first=partition
    ) as (connection, uri):
        publisher = connection.publisher(name)
        what = f"the publisher {without_query(name)}"
        if settings.rows.payload_format == "fixed":
            async with publisher.open_packed(settings.window, limit=settings.limit) as blocks:
                packed = _Blocks(blocks, settings.timeout, what, uri)
                if await packed.begin():
                    yield packed
                    return
        window = Window(settings.window, settings.window_size, settings.limit)
        pull = Pull(window, settings.window, settings.timeout, what, uri)
        async with publisher.open(0) as elements:
            pull.stream = _Elements(elements)
            pull.stream.request_n(window.grant())
            try:
                yield pull
            finally:
                pull.stream = None


def _dial(settings: SourceSettings, uri: str) -> AbstractAsyncContextManager[rsio.Connection]:
    encrypted = rsio.rsio_uri(uri).is_encrypted
    return rsio.connect(uri, ssl_context=settings.tls.context() if encrypted else None)


class _Elements:
    """The elements of a publisher as payloads; see `rsocket_trio.spark.pulling.ElementSource`."""

    def __init__(self, elements: ElementStream[bytes]) -> None:
        self._elements: Final = elements
        self.request_n: Final = elements.request_n

    async def receive_many(self, limit: int | None = None) -> list[Payload]:
        return [Payload(element) for element in await self._elements.receive_many(limit)]


class _Blocks(AsyncIterator[Chunk]):
    """The elements of a publisher whose elements have a fixed size, block by block."""

    def __init__(
        self,
        blocks: trio.abc.ReceiveChannel[rsio.PackedElements],
        timeout: float,
        what: str,
        uri: str,
    ) -> None:
        self._blocks = blocks
        self._first: rsio.PackedElements | None = None
        self._timeout = timeout
        self._what = what
        self._uri = uri

    async def begin(self) -> bool:
        """Wait for the first block; return whether the elements have one size."""
        try:
            self._first = await self._receive()
        except rsio.DifferentSizes:
            return False
        except (trio.EndOfChannel, RSocketError):
            pass  # It comes again with the first chunk.
        return True

    async def _receive(self) -> rsio.PackedElements:
        with trio.move_on_after(self._timeout):
            return await self._blocks.receive()
        raise ReadFailed(
            f"{shown(self._uri)} has sent no element of {self._what} for {self._timeout:g} s "
            "(option timeoutMs)"
        )

    async def __anext__(self) -> Chunk:
        first, self._first = self._first, None
        try:
            parts = [await self._receive() if first is None else first]
            count = parts[0].count
            with trio.move_on_after(LINGER), suppress(trio.EndOfChannel, RSocketError):
                # An error, or the end, comes again with the next chunk.
                while count < MOST:
                    parts.append(await self._blocks.receive())
                    count += parts[-1].count
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        except RSocketError as error:
            raise explain(error, self._what, self._uri) from error
        data = parts[0].data if len(parts) == 1 else b"".join([part.data for part in parts])
        return Chunk(PackedElements(data, parts[0].size), nothing)
