"""A peer with known answers: ``rsocket-trio serve rsocket_trio.testing.peer:app``.

For tests of other RSocket stacks against this one, and of this one against itself. The peer ignores
routes. The data of a request selects the answer::

    interaction        data          answer
    request_response   error:TEXT    ERROR[APPLICATION_ERROR] with TEXT
                       never         no answer
                       empty         completion without a value
                       last-fnf      the data of the last fire_and_forget (empty at first)
                       last-push     the metadata of the last metadata_push (empty at first)
                       any other     the same data and metadata
    request_stream     N             "0", "1", ... "N-1"; ERROR[INVALID] if N is not a number
    request_channel    any           every payload, data and metadata; ends when the requester does

All connections share the last fire_and_forget and the last metadata_push.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import trio

from ..errors import ApplicationError, Invalid
from ..payload import Payload
from ..responder import Responder

__all__ = ["KnownAnswers", "app"]

_ERROR: Final = b"error:"


class KnownAnswers(Responder):
    """Answers requests according to the table of this module.

    Attributes:
        last_fire_and_forget: Data of the last fire_and_forget; empty at first.
        last_metadata_push: Metadata of the last metadata_push; empty at first.
    """

    def __init__(self) -> None:
        self.last_fire_and_forget = b""
        self.last_metadata_push = b""

    async def request_response(self, payload: Payload) -> Payload | None:
        """Return the answer that the data selects; by default the same payload.

        Raises:
            ApplicationError: The data is ``error:TEXT``.

        Checkpoint: only for ``never``.
        If cancelled: nothing has changed.
        """
        data = payload.data
        if data.startswith(_ERROR):
            raise ApplicationError(data.removeprefix(_ERROR))
        match data:
            case b"never":
                await trio.sleep_forever()
            case b"empty":
                return None
            case b"last-fnf":
                return Payload(self.last_fire_and_forget)
            case b"last-push":
                return Payload(self.last_metadata_push)
        return payload

    async def fire_and_forget(self, payload: Payload) -> None:
        """Store the data.

        Checkpoint: never.
        If cancelled: does not apply.
        """
        self.last_fire_and_forget = payload.data

    async def metadata_push(self, metadata: bytes) -> None:
        """Store the metadata.

        Checkpoint: never.
        If cancelled: does not apply.
        """
        self.last_metadata_push = metadata

    def request_stream(self, payload: Payload) -> AsyncIterator[Payload]:
        """Count from 0 up to the number in the data.

        Raises:
            Invalid: The data is not a decimal number.
        """
        try:
            # int() alone would also accept signs, spaces and underscores.
            end = int(payload.data) if payload.data.isdigit() else -1
        except ValueError:  # int() limits the number of digits
            end = -1
        if end < 0:
            raise Invalid("the data of request_stream must be the number of items to send")
        return _count(end)

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterator[Payload]:
        """Send every payload back. The first is that of the request frame."""
        return _echo(payloads)


async def _count(end: int) -> AsyncIterator[Payload]:
    for number in range(end):
        yield Payload(b"%d" % number)


async def _echo(payloads: trio.abc.ReceiveChannel[Payload]) -> AsyncIterator[Payload]:
    async for payload in payloads:
        yield payload


app: Final = KnownAnswers()
"""The responder that ``rsocket-trio serve rsocket_trio.testing.peer:app`` serves."""
