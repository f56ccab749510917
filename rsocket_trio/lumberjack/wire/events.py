"""Events from their bytes: JSON texts and key-value pairs.

A reader does not decode events, because a program that only stores or forwards them needs the
bytes. An event that cannot be decoded is an `InvalidEvent`: it is the fault of one event, and the
connection can go on. The error never contains a part of the event, which may be confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from json import JSONDecodeError
from typing import Final

from rsocket_trio.errors import MalformedFrame, RSocketError
from rsocket_trio.json_texts import NotJSON, read, read_all

from .batches import IncomingBatch
from .frames import split_pairs

__all__ = [
    "InvalidEvent",
    "decode_event",
    "decode_events",
    "decode_json",
    "decode_pairs",
    "decode_slices",
    "slices",
]

_SLICE_COUNT: Final = 64
_SLICE_SIZE: Final = 64 * 2**10


class InvalidEvent(RSocketError):
    """An event that cannot be decoded. It never ends a connection by itself.

    Attributes:
        reason: What is wrong, without any of the contents.
        number: Which event of its batch it is; the first is number 1. ``None`` if it was decoded
            without its batch.
    """

    def __init__(self, reason: str, number: int | None = None) -> None:
        super().__init__(reason, number)
        self.reason = reason
        self.number = number

    def __str__(self) -> str:
        return f"{'an event' if self.number is None else f'event {self.number}'} {self.reason}"


def decode_json(raw: bytes) -> object:
    """Return the value of a JSON text: usually a dict, but arrays and scalars are values too.

    Args:
        raw: The event, as in `IncomingBatch.events`.

    Raises:
        InvalidEvent: It is not UTF-8, not JSON (so are NaN and Infinity), is nested too deeply, or
            contains an integer of more digits than Python converts.
    """
    try:
        return read(raw)
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"is not UTF-8 at byte {error.start}") from None
    except JSONDecodeError as error:
        raise InvalidEvent(f"is not JSON at character {error.pos}") from None
    except NotJSON:
        raise InvalidEvent("is not JSON: it contains NaN or Infinity") from None
    except ValueError:
        raise InvalidEvent("contains an integer that is too long") from None
    except RecursionError:
        raise InvalidEvent("is nested too deeply") from None


def decode_pairs(raw: bytes) -> dict[str, str]:
    """Return the pairs of an event of version 1. The last of equal keys counts.

    `split_pairs` returns all of them, as bytes.

    Args:
        raw: The event, as in `IncomingBatch.events`.

    Raises:
        InvalidEvent: A key or a value is not UTF-8, or the pairs do not end where ``raw`` ends.
    """
    try:
        return {key.decode(): value.decode() for key, value in split_pairs(raw)}
    except UnicodeDecodeError:
        raise InvalidEvent("has a key or a value that is not UTF-8") from None
    except MalformedFrame as error:
        raise InvalidEvent(f"is no list of pairs: {error}") from None


def decode_event(batch: IncomingBatch, n: int) -> object:
    """Return the n-th event of a batch, decoded: the first is number 1.

    Args:
        batch: The batch.
        n: The number of the event.

    Returns:
        The value of the JSON text, or a dict of text for key-value pairs.

    Raises:
        InvalidEvent: It cannot be decoded. The error has the number of the event.
        ValueError: There is no n-th event.
    """
    if not 1 <= n <= len(batch.events):
        raise ValueError(f"there is no event number {n} among {len(batch.events)}")
    event = _decode(decode_json if batch.is_json else decode_pairs, batch.events[n - 1], n)
    if isinstance(event, InvalidEvent):
        raise event
    return event


def decode_events(batch: IncomingBatch) -> Iterator[object]:
    """Iterate over the events of a batch, decoded; an `InvalidEvent` is yielded, not raised.

    So one event that cannot be decoded does not hide the others.

    Args:
        batch: The batch.
    """
    for decoded, _ in decode_slices(batch.events, batch.is_json):
        yield from decoded


def decode_slices(events: Sequence[bytes], is_json: bool) -> Iterator[tuple[list[object], bool]]:
    """Decode events as `decode_events`, some at a time.

    Args:
        events: The events, as in `IncomingBatch.events`.
        is_json: Whether they are JSON texts.

    Yields:
        Decoded events, and whether an `InvalidEvent` is among them.
    """
    decode = decode_json if is_json else decode_pairs
    decode_all = read_all if is_json else _decode_all_pairs
    before = 0
    for raws in slices(events):
        decoded: list[object]
        try:
            decoded = decode_all(raws)
            invalid = False
        except (ValueError, RecursionError, InvalidEvent):
            decoded = [_decode(decode, raw, n) for n, raw in enumerate(raws, before + 1)]
            invalid = any(isinstance(event, InvalidEvent) for event in decoded)
        yield decoded, invalid
        before += len(raws)


def slices(events: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Cut events into slices of some tens of KiB; a large event is alone."""
    for start in range(0, len(events), _SLICE_COUNT):
        part = events[start : start + _SLICE_COUNT]
        if sum(map(len, part)) <= _SLICE_SIZE:
            yield part
        else:
            yield from ([raw] for raw in part)


def _decode_all_pairs(raws: Sequence[bytes]) -> list[object]:
    return [decode_pairs(raw) for raw in raws]


def _decode(decode: Callable[[bytes], object], raw: bytes, n: int) -> object:
    try:
        return decode(raw)
    except InvalidEvent as error:
        invalid = InvalidEvent(error.reason, n)
        invalid.__cause__ = None  # So a log does not show the context, which may show the event.
        return invalid
