"""What Spark asks a responder for, and what it answers, for elements by offset.

For a route ``numbers``, a responder answers two routes. Requests and replies are maps in CBOR:

- ``numbers.offsets`` (request_response) without data, answered by
  ``{p: {"earliest": n, "latest": m, "id": text}}``: the elements of partition ``p`` from offset
  ``n`` up to ``m``, without ``m``. Partitions are numbers, as decimal text or as integers. ``id``
  may be left out. It changes if the offsets of the partition begin to mean other elements.
- ``numbers`` (request_stream) with ``{"p": p, "lo": n, "hi": m}``, and ``"id"`` if there is one:
  answered by the ``m - n`` elements from offset ``n`` on, the same ones each time.

A range that is not there any more is answered with the error code `NotReplayable.TRIMMED`, one that
is not there yet with `NotReplayable.NOT_YET`, and another ``id`` with `NotReplayable.OTHER_ID`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

import attrs
import cbor2

from ... import CustomError
from ...codecs import CborCodec
from ...field_checks import sized, whole

__all__ = ["OFFSETS", "NotReplayable", "Offsets", "RangeRequest", "ReplayOffsets", "not_replayable"]

OFFSETS: Final = ".offsets"
"""Behind the route of the elements, this is the route of their offsets."""

MAX_PARTITIONS: Final = 100_000
"""Partitions of one responder: each costs memory at the driver. A large Kafka cluster has fewer."""

MAX_OFFSET: Final = 2**63 - 1
_MAX_ID: Final = 1000

_offset = whole(0, MAX_OFFSET)
_id = sized(str, 0, _MAX_ID, none=True)


class NotReplayable(IntEnum):
    """The error codes of a range that cannot be read."""

    TRIMMED = 0x301
    NOT_YET = 0x302
    OTHER_ID = 0x303


def not_replayable(code: NotReplayable, text: str) -> CustomError:
    """Return the error that a responder answers with."""
    return CustomError(text, code=code)


@attrs.frozen
class Offsets:
    """The elements of a partition that can be read.

    Attributes:
        earliest: The offset of the first element.
        latest: The offset behind the last one.
        id: An identity of the elements. It changes if offsets begin to mean other elements, e.g.
            if a file was written anew. None: this never happens.
    """

    earliest: int = attrs.field(validator=_offset)
    latest: int = attrs.field(validator=_offset)
    id: str | None = attrs.field(default=None, validator=_id)

    @latest.validator
    def _check(self, _attribute: attrs.Attribute[int], latest: int) -> None:
        if latest < self.earliest:
            raise ValueError(f"latest is {latest}, less than earliest ({self.earliest})")


@attrs.frozen
class ReplayOffsets:
    """The elements that can be read.

    Attributes:
        partitions: The offsets by the number of the partition.
    """

    partitions: Mapping[int, Offsets]

    def encode(self) -> bytes:
        """Return the reply."""
        return cbor2.dumps(
            {
                str(number): attrs.asdict(each, filter=lambda _, value: value is not None)
                for number, each in self.partitions.items()
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ReplayOffsets:
        """Read a reply.

        Raises:
            ValueError: It is no reply.
        """
        reply = _map(data)
        if len(reply) > MAX_PARTITIONS:
            raise ValueError(f"it has {len(reply)} partitions, more than {MAX_PARTITIONS}")
        partitions = {_number(key): _offsets(key, each) for key, each in reply.items()}
        if len(partitions) < len(reply):
            raise ValueError("it has a partition twice")
        return cls(partitions)


@attrs.frozen(kw_only=True)
class RangeRequest:
    """A request for elements.

    Attributes:
        partition: The partition.
        start: The offset of the first element.
        stop: The offset behind the last one.
        id: The `Offsets.id` that the offsets belong to, or None.
    """

    partition: int = attrs.field(validator=_offset)
    start: int = attrs.field(validator=_offset)
    stop: int = attrs.field(validator=_offset)
    id: str | None = attrs.field(default=None, validator=_id)

    def as_map(self) -> dict[str, object]:
        """Return the request, to be encoded."""
        request: dict[str, object] = {"p": self.partition, "lo": self.start, "hi": self.stop}
        return request if self.id is None else request | {"id": self.id}

    @classmethod
    def decode(cls, data: bytes) -> RangeRequest:
        """Read a request.

        Raises:
            ValueError: It is no request.
        """
        request = _map(data)
        try:
            found = cls(
                partition=_number(request.get("p")),
                start=request["lo"],
                stop=request["hi"],
                id=request.get("id"),
            )
        except KeyError as error:
            raise ValueError(f"it has no {error}") from None
        except TypeError as error:
            raise ValueError("a value is of a wrong type") from error
        if found.stop < found.start:
            raise ValueError(f"hi is {found.stop}, less than lo ({found.start})")
        return found


def _map(data: bytes) -> dict[Any, Any]:
    try:
        value = CborCodec().decode(data, Any)
    except Exception as error:  # of the decoder, which reads bytes of a stranger
        raise ValueError(f"it is no CBOR: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"it is no map, but {type(value).__name__}")  # noqa: TRY004 - of the peer
    return value


def _number(key: object) -> int:
    """Return the number of a partition. Some languages have text as keys of maps only."""
    is_text = isinstance(key, str) and len(key) <= 10 and key.isascii() and key.isdigit()
    number = int(key) if is_text else key  # type: ignore[call-overload]  # checked above
    if type(number) is int and 0 <= number < 2**31:
        return number
    raise ValueError(f"{str(key)[:40]!r} is no number of a partition")


def _offsets(key: object, value: Any) -> Offsets:
    if not isinstance(value, dict):
        raise ValueError(f"the offsets of partition {key} are no map")  # noqa: TRY004 - of the peer
    try:
        earliest: Any = value.get("earliest")  # `Offsets` checks the types.
        latest: Any = value.get("latest")
        return Offsets(earliest, latest, value.get("id"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the offsets of partition {key} are wrong: {error.args[0]}") from None
