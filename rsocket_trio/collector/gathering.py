"""The events of a stream, gathered until they are worth a batch: `Gathering`."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from math import inf
from typing import Final

import attrs
import trio

from ..errors import RSocketError
from ..payload import Payload
from ..spool import Batch
from .feeds import EventStream
from .ingest_config import IngestConfig
from .own_metadata import Item
from .stored import payloads_to_store

__all__ = ["ITEM_COST", "Gathering", "batches_of", "size_of"]

ITEM_COST: Final = 176
"""Bytes that an event counts in addition to its contents: so much memory one has in Python 3.14.

In Python 3.11 it is 16 bytes less.
"""


def size_of(payload: Payload) -> int:
    """Return the bytes that an event counts while it waits."""
    return len(payload.data) + len(payload.metadata or b"") + ITEM_COST


def batches_of(items: list[Item], facts: dict[str, str]) -> list[Batch]:
    """Return events as batches for the spool, in their order: one for each run of a MIME type."""
    return [
        payloads_to_store([each.payload for each in run], mime_type=mime_type, facts=facts)
        for mime_type, run in groupby(items, key=lambda each: each.mime_type)
    ]


@attrs.define(eq=False)
class Gathering:
    """Takes the events of a stream, until there are enough or the first has waited long enough.

    Events that were taken stay here if `fill` is cancelled.

    Attributes:
        most: Events that may come before the sender needs an answer: it makes no sense to wait for
            more.
        items: The events that were taken.
        largest: The bytes of the largest of them.
    """

    stream: EventStream
    config: IngestConfig
    most: float = inf
    items: list[Payload] = attrs.field(factory=list, init=False)
    largest: int = attrs.field(default=0, init=False)
    _size: int = attrs.field(default=0, init=False)

    async def fill(self) -> None:
        """Take events: one at least.

        Raises:
            trio.EndOfChannel: There are no more, and none was taken.
            RSocketError: The stream has failed, and none was taken.
        """
        if not self.items:
            self._add(await self.stream.receive())
        # What ends the stream is raised by the next call.
        with trio.move_on_after(self.config.linger), suppress(trio.EndOfChannel, RSocketError):
            while not self.full:
                if not self.take_one():
                    self._add(await self.stream.receive())

    @property
    def full(self) -> bool:
        """Whether there are enough for a batch."""
        return (
            len(self.items) >= min(self.config.max_batch_events, self.most)
            or self._size >= self.config.max_batch_size
        )

    def take_one(self) -> bool:
        """Take an event that has arrived, if there is one.

        Raises:
            trio.EndOfChannel: There are no more.
            RSocketError: The stream has failed.
        """
        try:
            self._add(self.stream.receive_nowait())
        except trio.WouldBlock:
            return False
        return True

    def take(self) -> list[Payload]:
        """Return the events, and begin anew."""
        items, self.items = self.items, []
        self._size = self.largest = 0
        return items

    def _add(self, payload: Payload) -> None:
        size = size_of(payload)
        self.items.append(payload)
        self._size += size
        self.largest = max(self.largest, size)
