"""The unit of data both sides exchange: `Payload`.

Protocol.md, "Terminology": a payload is data with optional metadata. Nothing is converted here;
what the bytes mean is the business of `rsocket_trio.codecs` and `rsocket_trio.metadata`.
"""

from __future__ import annotations

import attrs

__all__ = ["Payload"]


# Not frozen: that would make each one cost two to three times as much, and there is one for
# every message (docs/performance.md).
@attrs.define(unsafe_hash=True)
class Payload:
    """Data and, optionally, metadata of a request, an item or a response.

    A value: compared and hashed by its contents, and not to be changed once made.

    Attributes:
        data: The bytes of the message; may be empty.
        metadata: ``None`` when absent. ``b""`` is "present and empty", which is a different
            thing on the wire (Protocol.md, "Metadata Optional Header") and is kept apart.
    """

    data: bytes = b""
    metadata: bytes | None = None
