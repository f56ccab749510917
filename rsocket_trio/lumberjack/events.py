"""Events from their bytes: JSON texts and key-value pairs.

A reader does not decode events, because a program that only stores or forwards them needs the
bytes. An event that cannot be decoded is an `InvalidEvent`: it is the fault of one event, and the
connection can go on. The error never contains a part of the event, which may be confidential.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from rsocket_trio.errors import MalformedFrame, RSocketError

from .batches import IncomingBatch
from .frames import split_pairs

__all__ = ["InvalidEvent", "decode_event", "decode_events", "decode_json", "decode_pairs"]


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


class _NotJSON(ValueError):
    pass


def _refuse_constant(_name: str) -> NoReturn:
    raise _NotJSON


_decoder: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def decode_json(raw: bytes) -> object:
    """Return the value of a JSON text: usually a dict, but arrays and scalars are values too.

    Args:
        raw: The event, as in `IncomingBatch.events`.

    Raises:
        InvalidEvent: It is not UTF-8, not JSON (so are NaN and Infinity), is nested too deeply, or
            contains an integer of more digits than Python converts.
    """
    try:
        text = raw.decode()
        # `JSONDecoder.decode` looks for spaces at both ends of the text. This takes a third of its
        # time, and Beats send none.
        if text[:1] == "{":
            value, end = _decoder.raw_decode(text)
            if end == len(text):
                return value
        return _decoder.decode(text)
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InvalidEvent(f"is not JSON at character {error.pos}") from None
    except _NotJSON:
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
    try:
        return _decoder_of(batch)(batch.events[n - 1])
    except InvalidEvent as error:
        raise InvalidEvent(error.reason, n) from None


def decode_events(batch: IncomingBatch) -> Iterator[object]:
    """Iterate over the events of a batch, decoded; an `InvalidEvent` is yielded, not raised.

    So one event that cannot be decoded does not hide the others.

    Args:
        batch: The batch.
    """
    decode = _decoder_of(batch)
    for n, raw in enumerate(batch.events, 1):
        try:
            event = decode(raw)
        except InvalidEvent as error:
            numbered = InvalidEvent(error.reason, n)
            numbered.__cause__ = None  # Its context may show the event.
            yield numbered
        else:
            yield event


def _decoder_of(batch: IncomingBatch) -> Callable[[bytes], object]:
    return decode_json if batch.is_json else decode_pairs
