"""An event as JSON text in UTF-8, with any values in it, and within a size.

Receivers close the connection if an event is no JSON or no UTF-8, and a sender sends it again
without end. So the text is always valid: there is no NaN, no half of a surrogate pair, and not more
levels than receivers read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import date, time
from decimal import Decimal
from math import isfinite
from pathlib import PurePath
from typing import Final
from uuid import UUID

from rsocket_trio.json_texts import MAX_DEPTH as DEEPEST
from rsocket_trio.json_texts import is_deep, is_too_deep, write_plain

__all__ = ["as_text", "encode_event"]

MAX_TEXT: Final = 1000
"""Characters of the text of a value that JSON does not have. The text is its `repr`."""
MAX_DEPTH: Final = 8
"""Levels of a value that has to be made fit for JSON. A list may contain itself."""
MAX_ITEMS: Final = 1000
"""Items of each container of such a value."""
MAX_VALUES: Final = 10_000
"""Values in such a value, over all levels: some milliseconds. A container may be in it many times,
so the other two limits alone would allow more than the memory holds."""
_MAX_BITS: Final = 64

_SIMPLE: Final = (UUID, Decimal, PurePath)
"""Types whose `str` is their value."""


def encode_event(event: Mapping[str, object], max_size: int) -> bytes | None:
    """Return an event as JSON text.

    Values that JSON does not have become their `repr`, cut to `MAX_TEXT` characters. If the text is
    larger than ``max_size``, long texts in it are cut and ``log.flags`` says so.

    Args:
        event: The event.
        max_size: The largest size of the text, in bytes.

    Returns:
        The text; ``None`` if it is still too large.
    """
    text = _encoded(event)
    return text if len(text) <= max_size else _shortened(event, max_size)


def as_text(value: object) -> str:
    """Return a text for any value, of `MAX_TEXT` characters at most."""
    try:
        if isinstance(value, date | time):
            text = value.isoformat()
        else:
            text = str(value) if isinstance(value, _SIMPLE) else repr(value)
    except Exception as error:  # `repr` runs code of the application, which may raise anything
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return _cut(text, MAX_TEXT)


_encode: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=as_text
).encode


def _encoded(event: Mapping[str, object]) -> bytes:
    if is_too_deep(event, DEEPEST):
        return write_plain(_plain(event))
    try:
        text = _encode(event).encode()
    except (TypeError, ValueError, RecursionError):
        # A key that is no text, NaN, a lone surrogate, a list that contains itself, ...
        return write_plain(_plain(event))
    return write_plain(_plain(event)) if is_deep(text) else text


def _cut(text: str, at_most: int) -> str:
    return text if len(text) <= at_most else f"{text[:at_most]}..."


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _plain(event: Mapping[str, object]) -> object:
    """Return a value that JSON has, in place of an event with any values."""
    return _Plain().of(event, MAX_DEPTH)


class _Plain:
    """Makes one event fit for JSON. A container inside itself becomes ``...``."""

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self._around: set[int] = set()  # The containers around the present value.

    def of(self, value: object, depth: int) -> object:
        """Return a value that JSON has, in place of any value."""
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _clean(value)
        if isinstance(value, int):
            # Python refuses to make a text of an int with thousands of digits.
            return int(value) if value.bit_length() <= _MAX_BITS else _cut(hex(value), MAX_TEXT)
        if isinstance(value, float):
            return float(value) if isfinite(value) else repr(float(value))
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            if not depth or self._left <= 0 or id(value) in self._around:
                return "..."
            self._around.add(id(value))
            try:
                return self._of_items(value, depth - 1)
            finally:
                self._around.discard(id(value))
        return _clean(as_text(value))

    def _of_items(self, container: Collection[object], depth: int) -> object:
        at_most = min(MAX_ITEMS, self._left)
        if isinstance(container, Mapping):
            items = list(container.items())[:at_most]
            return {_key(key): self.of(each, depth) for key, each in items}
        return [self.of(each, depth) for each in list(container)[:at_most]]


def _key(key: object) -> str:
    return _cut(_clean(key if isinstance(key, str) else as_text(key)), MAX_TEXT)


def _shortened(event: Mapping[str, object], max_size: int) -> bytes | None:
    plain = _plain(event)
    assert isinstance(plain, dict)
    log = plain.get("log")
    plain["log"] = {**log, "flags": ["truncated"]} if isinstance(log, dict) else ["truncated"]
    at_most = max_size
    while at_most:
        at_most //= 2
        plain = _with_texts_of(plain, at_most)
        text = write_plain(plain)
        if len(text) <= max_size:
            return text
    return None


def _with_texts_of(value: object, at_most: int) -> object:
    """Return the value with each text in it cut."""
    if isinstance(value, str):
        return _cut(value, at_most)
    if isinstance(value, dict):
        return {key: _with_texts_of(each, at_most) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_texts_of(each, at_most) for each in value]
    return value
