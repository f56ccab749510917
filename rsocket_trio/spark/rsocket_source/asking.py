"""Ask a responder for its offsets, and wait for new ones: `find_offsets`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from ... import ConnectionClosed, Rejected, RSocketError, StreamError
from ...uri import shown
from ..attempts import RETRY
from ..failures import ReadFailed, explain
from ..replay import OFFSETS, ReplayOffsets
from .connecting import Responder, connected
from .settings import SourceSettings

__all__ = ["find_offsets"]

_T = TypeVar("_T")

PAUSE: Final = 0.1
"""Seconds between two requests while there is nothing new."""

_ADVICE: Final = (
    "With delivery=replay, the default of a stream, the responder serves elements by offset, e.g."
    " with rsocket_trio.spark.replay_router. An ordinary stream is read with delivery=spool; a"
    " batch reads it with delivery=request"
)


async def find_offsets(
    settings: SourceSettings, news: Callable[[ReplayOffsets], _T | None], seconds: float = 0
) -> _T | None:
    """Ask for offsets until a function finds something new in them.

    Args:
        settings: How to connect, and the route.
        news: Returns None if there is nothing new in them. Its errors are raised.
        seconds: Ask for so long, at most.

    Raises:
        ReadFailed: No responder has answered within ``timeoutMs``, or one has answered something
            that is not this protocol.
    """
    stop = trio.current_time() + seconds
    deadline = trio.current_time() + settings.timeout
    while True:
        uri = settings.uris[0]
        try:
            async with connected(settings, within=deadline - trio.current_time()) as responder:
                uri = responder.uri
                while True:
                    found = news(await _ask(settings, responder))
                    if found is not None or trio.current_time() >= stop:
                        return found
                    # The responder has answered, so the next answer has all its time, too.
                    deadline = trio.current_time() + settings.timeout
                    await trio.sleep(PAUSE)
        except RSocketError as error:
            may_pass = isinstance(error, ConnectionClosed | Rejected)
            if not may_pass or trio.current_time() + RETRY.initial_delay >= deadline:
                failure = explain(error, f"the route {_route(settings)}", uri)
                if isinstance(error, StreamError) and not may_pass:
                    failure = ReadFailed(f"{failure}. {_ADVICE}")
                raise failure from error
        await trio.sleep(RETRY.initial_delay)


async def _ask(settings: SourceSettings, responder: Responder) -> ReplayOffsets:
    request = settings.cbor_request(None, _route(settings), 0)
    with trio.move_on_after(settings.timeout):
        reply = await responder.requester.request_response(
            request.payload, route=request.route, metadata=request.metadata
        )
        try:
            return ReplayOffsets.decode(b"" if reply is None else reply.data)
        except ValueError as error:
            raise ReadFailed(
                f"{shown(responder.uri)} has answered {_route(settings)} with something else than "
                f"offsets of partitions: {error}"
            ) from error
    raise ReadFailed(
        f"{shown(responder.uri)} has not answered {_route(settings)} within {settings.timeout:g} s "
        "(option timeoutMs)"
    )


def _route(settings: SourceSettings) -> str:
    return f"{settings.route}{OFFSETS}"
