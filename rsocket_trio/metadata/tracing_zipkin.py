"""The trace and the span of a request: Zipkin metadata (Tracing-Zipkin.md)."""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

from ..errors import MetadataError
from ..field_checks import instance_of

__all__ = ["Sampling", "ZipkinTrace"]

_IDS: Final = 0x80
_DEBUG: Final = 0x40
_SAMPLE: Final = 0x20
_NOT_SAMPLED: Final = 0x10
_TRACE_ID_128: Final = 0x08
_PARENT: Final = 0x04

_BYTES: Final = instance_of(bytes, none=True)


class Sampling(Enum):
    """Whether the trace is to be recorded. The value is the flag that is sent."""

    UNDECIDED = 0
    NOT_SAMPLED = _NOT_SAMPLED
    SAMPLE = _SAMPLE
    DEBUG = _DEBUG


def _eight_bytes(
    instance: object, attribute: attrs.Attribute[bytes | None], value: bytes | None
) -> None:
    if value is not None and len(value) != 8:
        raise ValueError(f"{attribute.name} must be 8 bytes long, not {len(value)}")


def _eight_or_sixteen_bytes(
    instance: object, attribute: attrs.Attribute[bytes | None], value: bytes | None
) -> None:
    if value is not None and len(value) not in (8, 16):
        raise ValueError(f"{attribute.name} must be 8 or 16 bytes long, not {len(value)}")


@attrs.frozen(kw_only=True)
class ZipkinTrace:
    """A decision about sampling and, usually, the ids of a trace and of a span in it.

    Attributes:
        sampling: The decision.
        trace_id: 8 or 16 bytes; ``None`` if there are no ids.
        span_id: 8 bytes; ``None`` if there are no ids.
        parent_id: 8 bytes; ``None`` for the root of a trace.
    """

    sampling: Sampling = Sampling.UNDECIDED
    trace_id: bytes | None = attrs.field(default=None, validator=[_BYTES, _eight_or_sixteen_bytes])
    span_id: bytes | None = attrs.field(default=None, validator=[_BYTES, _eight_bytes])
    parent_id: bytes | None = attrs.field(default=None, validator=[_BYTES, _eight_bytes])

    def __attrs_post_init__(self) -> None:
        """Check the ids against each other."""
        if (self.trace_id is None) != (self.span_id is None):
            raise ValueError("trace_id and span_id go together: give both or neither")
        if self.parent_id is not None and self.span_id is None:
            raise ValueError("parent_id needs trace_id and span_id: give them too")

    def encode(self) -> bytes:
        """Encode as the content of Zipkin tracing metadata."""
        flags = self.sampling.value
        if self.trace_id is None or self.span_id is None:
            return bytes((flags,))
        flags |= _IDS | (_TRACE_ID_128 if len(self.trace_id) == 16 else 0)
        if self.parent_id is None:
            return bytes((flags,)) + self.trace_id + self.span_id
        return bytes((flags | _PARENT,)) + self.trace_id + self.span_id + self.parent_id

    @classmethod
    def decode(cls, data: bytes) -> ZipkinTrace:
        """Decode the content of Zipkin tracing metadata.

        Raises:
            MetadataError: The number of bytes does not match the flags.
        """
        if not data:
            raise MetadataError("tracing metadata must have at least one byte, not 0")
        flags = data[0]
        # Debug goes before sample, sample before not sampled (Tracing-Zipkin.md, "Metadata
        # Contents").
        flag = next((f for f in (_DEBUG, _SAMPLE, _NOT_SAMPLED) if flags & f), 0)
        sampling = Sampling(flag)
        # Without ids, the flags that describe ids are ignored.
        span = 1 + (0 if not flags & _IDS else 16 if flags & _TRACE_ID_128 else 8)
        parent = span + (8 if flags & _IDS else 0)
        end = parent + (8 if flags & _IDS and flags & _PARENT else 0)
        if len(data) != end:
            raise MetadataError(
                f"tracing metadata with these flags must have {end} bytes, not {len(data)}"
            )
        if not flags & _IDS:
            return cls(sampling=sampling)
        return cls(
            sampling=sampling,
            trace_id=data[1:span],
            span_id=data[span:parent],
            parent_id=data[parent:end] or None,
        )
