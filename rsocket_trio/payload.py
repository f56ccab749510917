"""The unit of data both sides exchange: `Payload`.

Protocol.md, "Terminology": a payload is data with optional metadata. Both are bytes;
`rsocket_trio.codecs` and `rsocket_trio.metadata` give them a meaning.
"""

from __future__ import annotations

import attrs

from .escapes import size_only

__all__ = ["Payload"]


# Not frozen: a frozen one costs two to three times as much, and there is one for every message
# (docs/performance.md).
@attrs.define(unsafe_hash=True)
class Payload:
    """Data and, optionally, metadata of a request, an item or a response.

    A value: it is compared and hashed by its contents. Do not change one.

    Attributes:
        data: The bytes of the message; may be empty.
        metadata: ``None`` when absent. ``b""`` is "present and empty", which is sent differently
            (Protocol.md, "Metadata Optional Header").
    """

    data: bytes = b""
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
