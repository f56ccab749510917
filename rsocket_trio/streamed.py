"""A payload that is sent in chunks and never in memory as a whole: `StreamedPayload`."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TypeAlias

import attrs

from .escapes import size_only
from .payload import Payload

__all__ = ["AnyPayload", "StreamedPayload"]


@attrs.frozen
class StreamedPayload:
    """A payload whose data come in chunks. It is one payload: one item, one unit of credit.

    Fragments are sent while the chunks come, as room allows, so the payload may be of any size. The
    peer does not see the borders of chunks. It must support fragments, and may limit the size of a
    payload that it reassembles (here: `Limits.max_payload_size`).

    Attributes:
        data: An async generator, a ReceiveChannel of bytes, or another async iterable of bytes.
            The sending task iterates and closes it once, so a generator that has ended is a
            `RuntimeError`. An exception of the iterable ends the request or the stream, as an
            exception of a handler does. A generator may have a timeout around its ``yield``. If it
            ends the wait of a chunk, the generator must end too: that chunk is the last one.
        metadata: As of a `Payload`; sent before the data, as a whole.
    """

    data: AsyncIterable[bytes]
    metadata: bytes | None = attrs.field(default=None, repr=size_only)


AnyPayload: TypeAlias = Payload | StreamedPayload
"""A payload of either kind; both can be sent."""
