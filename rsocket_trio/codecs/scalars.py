"""Numbers, dates and times: what all formats refuse of them, and their texts (RFC 3339)."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import ValidationError, convert, to_builtins

from .mismatch import Mismatch, kind_of

__all__ = [
    "check_offset",
    "date_text",
    "datetime_of",
    "duration_of",
    "duration_text",
    "exact_float",
    "finite_decimal",
    "finite_float",
    "moment_text",
    "time_of",
    "uuid_of",
]

Moment = TypeVar("Moment", datetime, time)
_MINUTE: Final = timedelta(minutes=1)


def exact_float(value: Any) -> Any:
    """Return a float, or an int that is the same number as a float.

    Raises:
        Mismatch: A float nearest to the int is another number, so a peer would read that one.
    """
    if isinstance(value, float):
        return value
    try:
        same = float(value) == value
    except OverflowError:
        same = False
    if not same:
        raise Mismatch("expected float, got an int that is no float")
    return value


def finite_float(value: Any) -> Any:
    """As `exact_float`, for a format without NaN and infinities.

    Raises:
        Mismatch: It is one of them, or no float.
    """
    if not isinstance(value, float):
        return exact_float(value)
    if value - value:  # NaN; isfinite() takes longer
        raise Mismatch("expected float, got NaN or an infinity")
    return value


def finite_decimal(value: Decimal) -> Decimal:
    """Return a Decimal that is a number.

    Raises:
        Mismatch: It is NaN or an infinity.
    """
    if not value.is_finite():
        raise Mismatch("expected Decimal, got NaN or an infinity")
    return value


def check_offset(value: Moment) -> Moment:
    """Return a datetime or a time whose offset from UTC RFC 3339 has: hours and minutes.

    Raises:
        Mismatch: Its offset has seconds.
    """
    offset = value.utcoffset()
    if offset is not None and offset % _MINUTE:
        raise Mismatch(f"expected {kind_of(value)}, got one whose offset has seconds")
    return value


def moment_text(value: Moment) -> str:
    """Return a datetime or a time as text, with ``Z`` for UTC; without an offset if it has none.

    Raises:
        Mismatch: Its offset from UTC has seconds.
    """
    text = check_offset(value).isoformat()
    # Java's types without an offset take a Z, and refuse +00:00.
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def date_text(value: date) -> str:
    """Return a date as text; a datetime is a date, too, and has more."""
    return date(value.year, value.month, value.day).isoformat()


def duration_text(value: timedelta) -> str:
    """Return a timedelta as text of ISO 8601, in days and seconds."""
    text: str = to_builtins(value)
    return text


def datetime_of(text: str) -> datetime:
    """Read a datetime: as RFC 3339, with nanoseconds rounded, or in other forms of ISO 8601.

    Raises:
        ValueError: It is none.
    """
    try:
        return convert(text, datetime)
    except ValidationError:
        return datetime.fromisoformat(text)


def time_of(text: str) -> time:
    """Read a time: as RFC 3339, with nanoseconds rounded, or without seconds as Java writes it.

    Raises:
        ValueError: It is none.
    """
    try:
        return convert(text, time)
    except ValidationError:
        if text[2:3] != ":":  # other forms could be dates
            raise
        return time.fromisoformat(text)


def uuid_of(text: str) -> UUID:
    """Read a UUID: with hyphens or without, in braces, as a URN.

    Raises:
        ValueError: It is none.
    """
    found = UUID(text)
    if _NO_DIGITS.sub("", text.lower()) != found.hex:  # int() also takes signs and underscores
        raise ValueError
    return found


def duration_of(text: str) -> timedelta:
    """Read a timedelta of ISO 8601, with signs where Java writes them: ``PT-1H-30M``.

    Raises:
        ValueError: It is none, or too long a one.
    """
    try:
        return convert(text, timedelta)
    except ValidationError:
        found = _DURATION.fullmatch(text)
        if found is None or not any(found.groups()[1:]):
            raise
    sign, *parts = found.groups()
    # Without Decimal, whose results depend on the context of the application.
    *others, (whole, _, fraction) = [(part or "0").partition(".") for part in parts]
    nanoseconds = int(f"{whole}{fraction:0<9}")
    nanoseconds += sum(int(part) * scale for (part, *_), scale in zip(others, _SCALES, strict=True))
    microseconds, rest = divmod(nanoseconds, 1000)
    duration = timedelta(microseconds=microseconds + (rest + microseconds % 2 > 500))
    return -duration if sign == "-" else duration


_NO_DIGITS: Final = re.compile("urn:|uuid:|[-{}]")
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,9})D)?"
    r"(?:T(?:([-+]?\d{1,12})H)?(?:([-+]?\d{1,12})M)?(?:([-+]?\d{1,15}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_SCALES: Final = (86400 * 10**9, 3600 * 10**9, 60 * 10**9)
