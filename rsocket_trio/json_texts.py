"""JSON texts of values without annotations, as `json` reads and writes them, by msgspec.

How deep a text or a value may be is decided here, too, for every encoder and decoder in C.

`json` says what a text means, and which values have a text. msgspec takes a third of its time, and
is used where its result is the same. This is decided here for all that use it:

- What msgspec reads, `json` reads as the same value. msgspec refuses a few texts that `json` reads:
  floats beyond the range, halves of surrogate pairs. So `json` decides about all that it refuses.
- msgspec writes some values that `json` refuses or writes in another way: bytes, sets, dates, data
  classes, NaN, keys that are no text. So it writes plain values only: text, numbers that are
  finite, booleans, None, and lists, tuples and dicts of these, but no instances of subclasses.
  `json` decides about all others, and about what msgspec refuses.

The texts of one value may differ in the exponents of floats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from gc import get_referents
from itertools import accumulate, chain
from math import isfinite
from sys import getrecursionlimit
from typing import Any, Final, NoReturn

import msgspec

__all__ = [
    "FLAT_SIZE",
    "MAX_DEPTH",
    "NotJSON",
    "is_deep",
    "is_too_deep",
    "read",
    "read_all",
    "write",
    "write_all",
    "write_plain",
]

MAX_DEPTH: Final = 200
"""Levels of lists and objects: more than data need. Without this bound it is Python's own, which a
program may have raised, and a thread with a small stack crashes before."""

FLAT_SIZE: Final = 2 * MAX_DEPTH
"""Bytes of a text that is not too deep, whatever it is: each level takes two. What is no JSON may
have twice as many levels before it is refused."""

_OPENING: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)).difference(b'[]{}"'))
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
_ROUNDS: Final = 8


def is_deep(data: bytes) -> bool:
    """Return whether a JSON text has more than `MAX_DEPTH` levels.

    Short texts, and those with few brackets, are not looked at. Otherwise strings are taken away,
    then pairs of brackets without anything between: what has only a few levels has gone after a few
    rounds.
    """
    if len(data) <= FLAT_SIZE or _openings(data) <= MAX_DEPTH:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A pair of adjacent quotes can go: whether a bracket is within a string stays as it was.
    brackets = data.translate(_OPENING, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    for _ in range(_ROUNDS):
        brackets = brackets.replace(b"[]", b"")
    steps = memoryview(brackets.translate(_STEPS)).cast("b")
    return max(accumulate(steps), default=0) > MAX_DEPTH - _ROUNDS


def _openings(data: bytes) -> int:
    # `replace` finds a byte many times as fast as `count` does.
    return 2 * len(data) - len(data.replace(b"[", b"")) - len(data.replace(b"{", b""))


_USUAL: Final = 1000
"""Python's own limit of recursion: there an encoder raises an error long before its stack ends."""
_NESTED: Final = (list, tuple, dict, set, frozenset)


def is_too_deep(value: object, most: int) -> bool:
    """Return whether a value has too many levels, in a program that has raised Python's limit.

    There an encoder in C might end the process. In other programs the value is not looked at: their
    encoders raise a `RecursionError`.

    Args:
        value: The value, which may contain itself.
        most: The levels that it may have.
    """
    if getrecursionlimit() <= _USUAL:
        return False
    level: list[Any] = [value]
    for _ in range(most + 1):
        nested = {id(each): each for each in level if isinstance(each, _NESTED)}
        if not nested:
            return False
        level = get_referents(*nested.values())
    return True


class NotJSON(ValueError):
    """The text contains NaN or Infinity, which are not JSON."""


def _refuse_constant(_name: str) -> NoReturn:
    raise NotJSON


_json_read: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode
_read: Final = msgspec.json.Decoder().decode
_REFUSED: Final = (ValueError, RecursionError)
"""What `read` raises, and msgspec."""


def read(raw: bytes) -> object:
    """Return the value of one JSON text.

    Raises:
        ValueError: It is not UTF-8, not JSON, or contains an integer of more digits than Python
            converts.
        RecursionError: It has more than `MAX_DEPTH` levels.
    """
    if len(raw) > FLAT_SIZE and is_deep(raw):
        raise RecursionError
    try:
        return _read(raw)
    except _REFUSED:
        return _json_read(raw.decode())


def read_all(raws: Sequence[bytes]) -> list[object]:
    """Return the values of some JSON texts, at least one.

    Raises:
        ValueError: At least one of them is not valid; see `read`.
        RecursionError: As above.
    """
    if max(map(len, raws)) <= FLAT_SIZE:
        try:
            return list(map(_read, raws))
        except _REFUSED:
            pass
    return [read(raw) for raw in raws]


_json_write: Final = json.JSONEncoder(
    # As Beats: no escapes that are not needed, no spaces. A cycle ends with a RecursionError, so no
    # table of all containers is needed.
    ensure_ascii=False,
    separators=(",", ":"),
    allow_nan=False,
    check_circular=False,
).encode
_encoder: Final = msgspec.json.Encoder()

write_plain: Final[Callable[[Any], bytes]] = _encoder.encode
"""Returns the JSON text of a value that is known to be plain, without halves of surrogate pairs."""


def write(value: object, errors: str = "strict") -> bytes:
    """Return the JSON text of any value that `json` writes.

    Args:
        value: The value.
        errors: What is done with halves of surrogate pairs, as for `str.encode`.

    Raises:
        TypeError: A value in it is of a type that JSON does not have.
        UnicodeEncodeError: It contains half of a surrogate pair.
        ValueError: It contains NaN, Infinity, or an integer of more digits than Python converts.
        RecursionError: It has more than `MAX_DEPTH` levels, or contains itself.
    """
    if is_too_deep(value, MAX_DEPTH):
        raise RecursionError
    text = _json_write(value).encode("utf-8", errors)
    if is_deep(text):
        raise RecursionError
    return text


def write_all(values: Sequence[dict[str, Any]]) -> list[bytes] | None:
    """Return the JSON texts of some dicts; ``None`` if one is not plain: `write` decides then.

    One call of msgspec for all takes less than one for each, and line ends are between the texts
    only.

    Args:
        values: No instances of subclasses.
    """
    if not _are_plain(values):
        return None
    try:
        return _encoder.encode_lines(values).splitlines()
    except (TypeError, ValueError):  # keys such as None, halves of surrogate pairs
        return None


_CONTAINERS: Final[frozenset[type]] = frozenset((dict, list, tuple))
_PLAIN: Final[frozenset[type]] = _CONTAINERS | {str, int, float, bool, type(None)}
_MOST: Final = 100_000
"""Values that are looked at: a list may contain itself, or another one many times."""


def _are_plain(level: Sequence[Any]) -> bool:
    """Return whether values are plain, and `json` would write their keys as msgspec does.

    All values of a level are looked at together. `get_referents` is the quickest loop over what
    containers hold. CPython's dicts, lists and tuples give all of it, but dicts whose keys are text
    leave those out.
    """
    left = _MOST
    for _ in range(MAX_DEPTH):
        left -= sum(map(len, level))
        if left < 0:
            return False
        inner = get_referents(*level)
        kinds = set(map(type, inner))
        if not kinds <= _PLAIN or (float in kinds and not _are_plain_floats(level, inner)):
            return False
        if kinds.isdisjoint(_CONTAINERS):
            return True
        level = [each for each in inner if type(each) in _CONTAINERS]
    return False


def _are_plain_floats(level: Sequence[Any], inner: Sequence[Any]) -> bool:
    """Return whether floats are finite, and none is a key: its text would not be that of `json`."""
    keys = chain.from_iterable([each for each in level if type(each) is dict])
    return all(map(isfinite, [each for each in inner if type(each) is float])) and (
        float not in set(map(type, keys))
    )
