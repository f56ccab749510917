"""One operation of a bench for each interaction: `OPERATIONS`.

Each sends one request, records the answer in the `Tally`, and returns when the interaction ends.
The latency counts from ``sent``, a time of `perf_counter_ns`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import repeat
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio import Payload

from .tally import Tally

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import PayloadStream, Requester

    Operation = Callable[[Requester, Payload, argparse.Namespace, Tally, int], Awaitable[None]]

__all__ = ["OPERATIONS"]


async def _request_response(
    requester: Requester, payload: Payload, args: argparse.Namespace, tally: Tally, sent: int
) -> None:
    if await requester.request_response(payload, route=args.route) is not None:
        tally.items += 1
    tally.answered(sent)


async def _fire_and_forget(
    requester: Requester, payload: Payload, args: argparse.Namespace, tally: Tally, sent: int
) -> None:
    await requester.fire_and_forget(payload, route=args.route)
    tally.answered(sent)


async def _request_stream(
    requester: Requester, payload: Payload, args: argparse.Namespace, tally: Tally, sent: int
) -> None:
    opened = requester.request_stream(payload, route=args.route, prefetch=args.prefetch)
    await _drain(opened, tally, sent)


async def _request_channel(
    requester: Requester, payload: Payload, args: argparse.Namespace, tally: Tally, sent: int
) -> None:
    source = repeat(payload, args.items)
    opened = requester.request_channel(source, route=args.route, prefetch=args.prefetch)
    await _drain(opened, tally, sent)


async def _drain(
    opened: AbstractAsyncContextManager[PayloadStream], tally: Tally, sent: int
) -> None:
    answered = False
    async with opened as stream:
        try:
            while True:
                # Take all that has arrived: the bench measures the peer, not this loop.
                items = await stream.receive_many()
                if not answered:
                    answered = True
                    tally.answered(sent)
                tally.items += len(items)
        except trio.EndOfChannel:
            if not answered:
                tally.answered(sent)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "request_response": _request_response,
    "fire_and_forget": _fire_and_forget,
    "request_stream": _request_stream,
    "request_channel": _request_channel,
}
"""The operations by their names, which are the values of ``--interaction``."""
