"""Elements of a stream in chunks, with credit only for what Spark takes: `Pull`.

The connection lives in a thread with trio. Spark's thread takes chunks, makes rows of them, and
says when it is done with a chunk. Only then is there credit for as many new elements.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from math import inf
from typing import Final, Protocol, TypeAlias

import attrs
import trio

from .. import Payload, RSocketError
from ..uri import shown
from .demand import Window
from .failures import ReadFailed, explain
from .rows.packed import PackedElements

__all__ = ["BUFFER", "LINGER", "MOST", "Chunk", "Chunks", "ElementSource", "Pull", "nothing"]

BUFFER: Final = 2
"""Chunks between the threads. The window bounds their elements, so this only saves waits."""

MOST: Final = 10_000
"""Elements of a chunk, at most: larger batches of Arrow are not faster."""

LINGER: Final = 0.01
"""Seconds to wait for more elements of a chunk: each chunk becomes a batch of Arrow."""

_OVERHEAD: Final = 100
"""Bytes that an element costs beside its contents, in Python."""


@attrs.frozen
class Chunk:
    """Elements that follow each other.

    Attributes:
        payloads: The elements, at least one.
        done: Called when Spark has taken them, in any thread.
    """

    payloads: list[Payload] | PackedElements = attrs.field(repr=False)
    done: Callable[[], None] = attrs.field(repr=False)


Chunks: TypeAlias = AbstractAsyncContextManager[AsyncIterable[Chunk]]


class ElementSource(Protocol):
    """A stream with manual demand: a `rsocket_trio.PayloadStream`, or alike."""

    async def receive_many(self, limit: int | None = None) -> list[Payload]:
        """See `rsocket_trio.PayloadStream.receive_many`."""

    def request_n(self, n: int) -> None:
        """See `rsocket_trio.PayloadStream.request_n`."""


class Pull(AsyncIterator[Chunk]):
    """The elements of a stream.

    Args:
        window: Counts the credit.
        items: The largest number of elements on the way or unread.
        timeout: How long to wait for an element, in seconds.
        what: What was asked for, for the texts of errors.
        uri: The address, for the texts of errors.

    Attributes:
        stream: The open stream, or ``None``. It belongs to whoever has opened it.
    """

    def __init__(self, window: Window, items: int, timeout: float, what: str, uri: str) -> None:
        self._timeout = timeout
        self._window = window
        # Half of the window: the next chunk is on its way while Spark works at this one.
        self._most = max(1, min(MOST, items // 2))
        self._uri = uri
        self._what = what
        self._token = trio.lowlevel.current_trio_token()
        self.stream: ElementSource | None = None
        self._waiting: trio.CancelScope | None = None

    async def __anext__(self) -> Chunk:
        assert self.stream is not None
        if self._window.is_over:
            raise StopAsyncIteration
        try:
            payloads = await self._receive(self.stream)
            with trio.move_on_after(LINGER), suppress(trio.EndOfChannel, RSocketError):
                # An error, or the end, comes again with the next chunk.
                while len(payloads) < self._most and self._window.outstanding:
                    more = await self.stream.receive_many(self._most - len(payloads))
                    self._window.arrived(list(map(_size, more)))
                    payloads += more
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        except RSocketError as error:
            raise explain(error, self._what, self._uri) from error
        count, size = len(payloads), sum(map(_size, payloads))
        return Chunk(payloads, partial(self._done, count, size))

    async def _receive(self, stream: ElementSource) -> list[Payload]:
        with trio.CancelScope() as self._waiting:
            self._set_deadline()
            try:
                payloads = await stream.receive_many(self._most)
            finally:
                self._waiting = None
            self._window.arrived(list(map(_size, payloads)))
            return payloads
        raise ReadFailed(
            f"{shown(self._uri)} has sent no element of {self._what} for {self._timeout:g} s "
            "(option timeoutMs)"
        )

    def _set_deadline(self) -> None:
        """Expect an element in time, if the responder may send one."""
        if self._waiting is not None:
            outstanding = self._window.outstanding
            self._waiting.deadline = trio.current_time() + self._timeout if outstanding else inf

    def _done(self, count: int, size: int) -> None:
        # The thread may have ended, with the program.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._consumed, count, size)

    def _consumed(self, count: int, size: int) -> None:
        self._window.consumed(count, size)
        if self.stream is None:
            return
        idle = not self._window.outstanding
        more = self._window.grant()
        if more:
            self.stream.request_n(more)
            if idle:
                self._set_deadline()


def nothing() -> None:
    """Do nothing, for a `Chunk.done`."""


def _size(payload: Payload) -> int:
    return len(payload.data) + len(payload.metadata or b"") + _OVERHEAD
