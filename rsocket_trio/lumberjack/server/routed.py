"""Serve a `rsocket_trio.Router`: its events handler and its guards, for one connection."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ...codecs import CodecError
from ...errors import StreamError
from ...json_texts import write_plain
from ...routing.admission import admitted
from ...routing.events import BoundEvents, accept_events
from ...routing.router import Router
from ...sockets.peer import Peer
from ..wire.batches import IncomingBatch
from ..wire.events import InvalidEvent, decode_event
from .batch import Batch, PoisonHook, convert, decode_with_hook
from .handling import Handler, RefusedBatch

__all__ = ["admit", "routed"]


async def admit(
    router: Router,
    peer: Peer,
    on_poison: PoisonHook | None,
    patience: float,
) -> tuple[Handler, BoundEvents] | None:
    """Ask the guards of a router about a connection.

    Args:
        router: The router.
        peer: The sender.
        on_poison: Called with each event that cannot be decoded or converted, or ``None``.
        patience: The time for the guards, in seconds.

    Returns:
        The handler for this connection, and what has its block; ``None`` if it is refused, which
        is logged.

    Checkpoint: as the guards do.
    If cancelled: as the guards do.
    """

    async def ask() -> tuple[Handler, BoundEvents]:
        events = await accept_events(router, peer)
        return partial(routed, events, on_poison), events

    return await admitted(
        ask, peer.transport, peer="the sender", patience=patience, setting="first_byte_timeout"
    )


async def routed(events: BoundEvents, on_poison: PoisonHook | None, batch: Batch) -> None:
    """Ask the guards about a batch, convert its events, and call the handler, within middleware.

    Raises:
        RefusedBatch: A guard or a middleware refuses the batch.
        InvalidEvent: An event cannot be converted, and there is no hook.
        Exception: An error of the handler or of the hook.

    Checkpoint: as guards, middleware and handler do.
    If cancelled: as guards, middleware and handler do.
    """
    is_admitted = False
    try:
        around = events.around()
        async with around as call:
            if call.traffic is not None:
                call.traffic.received(batch.size, len(batch))
            events.check(call)
            is_admitted = True
            values: list[Any] = []
            if events.takes_raw:
                values = list(batch.raw)
            elif events.takes_events:
                incoming = batch._incoming  # noqa: SLF001 - same package; not for applications
                values = await convert(batch, _read_each(events, incoming), on_poison)
            elif on_poison is not None:
                await decode_with_hook(batch, on_poison)
            await events(batch, values, call, around)
    except StreamError as error:
        if is_admitted:
            raise
        raise RefusedBatch(str(error)) from None


def _read_each(events: BoundEvents, incoming: IncomingBatch) -> Iterator[tuple[list[Any], bool]]:
    """Iterate over the events as the handler takes them, in the form of `decode_slices`."""
    for n in range(1, len(incoming) + 1):
        value: Any
        try:
            value, invalid = _read(events, incoming, n), False
        except InvalidEvent as error:
            value, invalid = error, True
        yield [value], invalid


def _read(events: BoundEvents, incoming: IncomingBatch, n: int) -> Any:
    """Return an event as the type that the handler takes.

    Raises:
        InvalidEvent: It cannot be decoded or converted.
    """
    raw = incoming.events[n - 1]
    try:
        return events.read(raw if incoming.is_json else _pairs(incoming, n))
    except CodecError as error:
        reason = str(error)
    decode_event(incoming, n)  # raises a better error if it is no JSON at all
    raise InvalidEvent(reason, n)


def _pairs(incoming: IncomingBatch, n: int) -> bytes:
    """Return the key-value pairs of an event as a JSON object of text."""
    return write_plain(decode_event(incoming, n))
