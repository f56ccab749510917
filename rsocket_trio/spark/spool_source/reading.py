"""A range of a spool, read in a task of Spark: `read_stored`.

On the host of the spool, the task reads its files. Elsewhere it asks the collector, and asks again
if the connection is lost.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from ...errors import RSocketError
from ...log_policy import logger
from ...spool import (
    NotASpool,
    OffsetNotStored,
    OffsetTrimmed,
    SpoolFailed,
    SpoolRestored,
    SpoolTooNew,
    StoredBatch,
    WrongSpool,
    read_range,
)
from ...uri import shown
from ..tls_options import TlsSettings
from ..trio_thread import TrioThread
from .source_errors import DataLost, RangeUnreadable

if TYPE_CHECKING:
    from ...metadata import Authentication

__all__ = ["Place", "open_stored", "read_stored"]

BUFFER: Final = 4
"""Stored batches that wait for the task."""

RETRY_PAUSE: Final = 0.2

BUSY_PAUSE: Final = 0.5
"""Seconds until the next attempt after the collector had no room for this reader."""

_thread: Final = TrioThread("rsocket-trio reads")


@attrs.frozen(kw_only=True)
class Place:
    """A range of a spool, and where to find the spool. It travels from the driver to a task.

    Attributes:
        spool_id: The spool.
        start: The offset of the first event.
        stop: The offset behind the last event.
        epoch: The epoch that the spool has up to ``stop``, if it is known.
        uri: The address of the collector, if it has one.
        address: The IP address at which it is, if its host has several.
        directory: The directory that has the spool, if this is its host.
        tls: The TLS settings for ``uri``.
        auth: The credentials for ``uri``.
        timeout: Seconds without progress, until the task fails.
        fail_on_data_loss: Whether it is an error if events are gone.
    """

    spool_id: str
    start: int
    stop: int
    epoch: str | None = None
    uri: str | None = attrs.field(repr=lambda uri: "None" if uri is None else shown(uri))
    address: str = ""
    directory: str | None = None
    tls: TlsSettings = attrs.field(factory=TlsSettings)
    auth: Authentication | None = None
    timeout: float = 30.0
    fail_on_data_loss: bool = True


def read_stored(place: Place) -> Iterator[StoredBatch]:
    """Iterate over the stored batches of a range: exactly its events, or an error.

    Args:
        place: The range.

    Raises:
        DataLost: Events of the range are gone.
        RangeUnreadable: The collector does not answer, or its answers are wrong.
        SpoolFailed: The files of the spool are damaged.
    """
    at = place.start
    while at < place.stop:
        try:
            for stored in _read_from(attrs.evolve(place, start=at)):
                if stored.start != at:
                    raise RangeUnreadable(
                        f"{_name(place)} gave the event {stored.start} and not {at}"
                    )
                at = stored.stop
                yield stored
        except WrongSpool as wrong:
            if place.fail_on_data_loss:
                raise DataLost(
                    f"{_name(place)}: {wrong}; the events that are wanted are gone. To go on"
                    " without them, set failOnDataLoss to false"
                ) from None
            logger.warning("%s: %s; the query goes on without these events", _name(place), wrong)
            end = wrong.end if isinstance(wrong, SpoolRestored) else None
            if end is None or not at < end < place.stop:
                return
            place = attrs.evolve(place, stop=end)  # The copy still has those before its end.
        except OffsetTrimmed as trimmed:
            if trimmed.oldest <= at:
                raise RangeUnreadable(
                    f"{_name(place)} says that the event {at} was deleted, and that"
                    f" {trimmed.oldest} is the oldest one"
                ) from None
            text = (
                f"{_name(place)}: the events {at} to {min(trimmed.oldest, place.stop)} of the spool"
                f" {place.spool_id} were deleted before the query read them"
            )
            if place.fail_on_data_loss:
                raise DataLost(
                    f"{text}. To go on without these events, set failOnDataLoss to false"
                ) from None
            logger.warning("%s; the query goes on without these events", text)
            at = min(trimmed.oldest, place.stop)
        else:
            if at < place.stop:
                raise RangeUnreadable(f"{_name(place)} gave no events from {at} on")


def _name(place: Place) -> str:
    uri = None if place.uri is None else shown(place.uri)
    return uri or place.directory or place.spool_id


def _read_from(place: Place) -> Iterator[StoredBatch]:
    if place.directory is not None:
        first = True
        try:
            for stored in read_range(
                place.directory,
                place.start,
                place.stop,
                spool_id=place.spool_id,
                epoch=place.epoch,
            ):
                first = False
                yield stored
        except (
            NotASpool, WrongSpool, OffsetNotStored, SpoolTooNew, SpoolFailed, OSError
        ) as error:  # fmt: skip
            # Another host, perhaps, or another user, or an old copy.
            if not first:
                raise
            if place.uri is None:
                if isinstance(error, WrongSpool | OffsetNotStored):
                    raise
                raise RangeUnreadable(
                    f"the directory of the spool, {place.directory}, is not on this host, or cannot"
                    f" be read: {error}. Run Spark in local mode, or read from collectors"
                ) from error
            logger.info("%s: %s; reading from %s", place.directory, error, shown(place.uri))
        else:
            return
    with _thread.iterate(partial(open_stored, place), buffer=BUFFER) as items:
        yield from items


@asynccontextmanager
async def open_stored(place: Place) -> AsyncIterator[trio.MemoryReceiveChannel[StoredBatch]]:
    """Read a range from its collector, in trio, for the time of a block.

    Checkpoint: entering and leaving, always.
    If cancelled: the connection is closed.
    """
    await trio.lowlevel.checkpoint()
    async with trio.open_nursery() as nursery:
        send, receive = trio.open_memory_channel[StoredBatch](0)
        nursery.start_soon(_fetch, place, send)
        with receive:
            try:
                yield receive
            finally:  # before the channel is closed, which would be an error for the other task
                nursery.cancel_scope.cancel(reason="the block of open_stored has ended")


async def _fetch(place: Place, send: trio.MemorySendChannel[StoredBatch]) -> None:
    """Send the batches of a range. A lost connection is made again, and a refused request too.

    A collector that has no room for a reader now is no reason to fail: it answers, and this waits
    for its turn.

    Raises:
        RangeUnreadable: There was no progress for the time of ``place.timeout``.
        OffsetTrimmed, WrongSpool: The events are gone.
    """
    # Tasks beside the spool read its files, and need no client.
    from ...collector import CollectorBusy, connect_collector

    assert place.uri is not None
    at = place.start
    deadline = trio.current_time() + place.timeout
    trouble: Exception | None = None
    told = False
    with send:
        while at < place.stop:
            try:
                with trio.CancelScope(deadline=deadline) as scope:
                    async with (
                        connect_collector(
                            place.uri,
                            address=place.address,
                            ssl_context=place.tls.context(),
                            auth=place.auth,
                        ) as client,
                        client.read(
                            at,
                            place.stop,
                            spool_id=place.spool_id,
                            epoch=place.epoch,
                            patience=0,
                        ) as batches,
                    ):
                        async for batch in batches:
                            scope.deadline = math.inf  # The task of Spark takes its time.
                            await send.send(batch)
                            at = batch.stop
                            deadline = scope.deadline = trio.current_time() + place.timeout
            except (OffsetTrimmed, WrongSpool):
                raise
            except CollectorBusy as busy:
                trouble = busy
                # The collector has answered, so the pause below is not a part of its time.
                deadline = trio.current_time() + BUSY_PAUSE + place.timeout
                if not told:
                    told = True
                    logger.warning("%s: %s; the task asks again", shown(place.uri), busy)
            except (RSocketError, OSError) as error:
                trouble = error
            if at < place.stop:
                if trio.current_time() >= deadline:
                    raise RangeUnreadable(
                        f"{shown(place.uri)}: no event of the spool {place.spool_id} from"
                        f" offset {at} on has come for {place.timeout:g} s"
                        f" ({trouble or 'the collector is silent'}); does the collector run, and"
                        " can this host reach it?"
                    )
                await trio.sleep(BUSY_PAUSE if isinstance(trouble, CollectorBusy) else RETRY_PAUSE)
