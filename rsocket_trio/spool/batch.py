"""Batches of events, before and after they are stored: `Batch`, `StoredBatch`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from ..field_checks import instance_of, whole

__all__ = ["Batch", "StoredBatch", "cost_of", "encode_facts"]

ROW_COST: Final = 64
"""Bytes that a batch counts in addition to its contents. Small batches cost memory and disk too."""

MAX_COUNT: Final = 2**31 - 1
MAX_ENCODING: Final = 64

MAX_FACTS: Final = 2**16
"""Characters of all facts. Readers of a collector accept no more, so a spool does not either."""


def _check_facts(batch: object, _attribute: attrs.Attribute[Any], facts: object) -> None:
    if not isinstance(facts, Mapping):
        raise TypeError(f"facts must be a mapping, not {type(facts).__name__}")
    for name, text in facts.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise TypeError(f"facts are text, not {name!r}: {text!r}")
    if sum(len(name) + len(text) for name, text in facts.items()) > MAX_FACTS:
        raise ValueError(f"facts may have {MAX_FACTS} characters in all, names included")


def _check_encoding(batch: object, _attribute: attrs.Attribute[Any], encoding: str) -> None:
    if not (0 < len(encoding) <= MAX_ENCODING and encoding.isascii() and encoding.isprintable()):
        raise ValueError(
            f"encoding must be 1 to {MAX_ENCODING} printable ASCII characters, not {encoding!r}"
        )


def _check_data(batch: object, _attribute: attrs.Attribute[Any], data: object) -> None:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data must be bytes, not {type(data).__name__}")
    if not memoryview(data).c_contiguous:
        raise ValueError("data must be contiguous in memory")


@attrs.frozen
class Batch:
    """Events that are appended together.

    Attributes:
        count: The number of events, at least 1. The spool does not look into ``data``, so it
            trusts this number.
        data: The bytes of the events, as they came. They are not copied before they are stored:
            do not change a ``bytearray`` before `Spool.append` has returned.
        encoding: How to read ``data``: a short name of your own, such as ``"json-lines"``.
        facts: More about the batch as text, such as the address of its sender: 65536 characters in
            all, at most.
    """

    count: int = attrs.field(validator=whole(1, MAX_COUNT))
    data: bytes | bytearray | memoryview = attrs.field(repr=False, validator=_check_data)
    encoding: str = attrs.field(kw_only=True, validator=[instance_of(str), _check_encoding])
    facts: Mapping[str, str] = attrs.field(kw_only=True, factory=dict, validator=_check_facts)


@attrs.frozen(kw_only=True)
class StoredBatch:
    """A batch as it is read back. Its events have the offsets from ``first`` up to ``end``.

    A reader may ask for a range that begins or ends within a batch. It gets the whole batch then,
    and ``start`` and ``stop`` say which events are in the range.

    Attributes:
        first: The offset of the first event of the batch.
        count: The number of events in the batch.
        start: The offset of the first event that was asked for.
        stop: The offset behind the last event that was asked for.
        data: The bytes of the whole batch.
        encoding: As appended.
        facts: As appended.
        stored_at: When the batch was stored, in seconds since 1970, by the clock of its host.
    """

    first: int
    count: int
    start: int
    stop: int
    data: bytes = attrs.field(repr=False)
    encoding: str
    facts: Mapping[str, str]
    stored_at: float

    @property
    def end(self) -> int:
        """The offset behind the last event of the batch."""
        return self.first + self.count

    @property
    def skip(self) -> int:
        """The number of events at the beginning of ``data`` that were not asked for."""
        return self.start - self.first

    @property
    def wanted(self) -> int:
        """The number of events that were asked for; they follow the skipped ones."""
        return self.stop - self.start


def encode_facts(batch: Batch) -> str:
    """Return the facts as they are stored."""
    return json.dumps(dict(batch.facts), separators=(",", ":")) if batch.facts else "{}"


def cost_of(batch: Batch, facts: str) -> int:
    """Return the bytes that the batch counts against the size of the spool."""
    return memoryview(batch.data).nbytes + len(facts) + len(batch.encoding) + ROW_COST
