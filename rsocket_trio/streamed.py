"""A payload that is never in memory as a whole: `StreamedPayload`."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TypeAlias

import attrs

from .payload import Payload

__all__ = ["AnyPayload", "StreamedPayload"]


@attrs.frozen
class StreamedPayload:
    """A payload whose data come in chunks. It is one payload: one item, one unit of credit.

    Fragments leave while the chunks come, as room allows, so the whole may be of any size; where
    the chunks end in it means nothing. The peer needs to take fragments, and one that puts them
    together has a limit of its own (here: `Limits.max_payload_size`).

    Attributes:
        data: An async generator, a ReceiveChannel of bytes, any async iterable of them. It is
            iterated, and closed, in the task that sends: once, so a generator that has ended is a
            `RuntimeError`. What it raises ends the request or the stream, as what a handler raises
            does.
        metadata: As of a `Payload`; it is sent before the data, and as a whole.
    """

    data: AsyncIterable[bytes]
    metadata: bytes | None = None


AnyPayload: TypeAlias = Payload | StreamedPayload
"""What can be sent."""
