"""Numbers, dates and times: what all formats refuse of them, and their texts (RFC 3339)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from .mismatch import Mismatch, kind_of

__all__ = [
    "check_offset",
    "date_text",
    "datetime_text",
    "exact_float",
    "finite_decimal",
    "finite_float",
    "float_of",
]

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
    if isinstance(value, float) and value - value:  # NaN; isfinite() takes longer
        raise Mismatch("expected float, got NaN or an infinity")
    return exact_float(value)


def float_of(number: Decimal) -> float:
    """Return the float nearest to a Decimal.

    Raises:
        ValueError: There is none.
    """
    value = float(number)
    if value - value:
        raise ValueError("too large for a float")
    return value


def finite_decimal(value: Decimal) -> Decimal:
    """Return a Decimal that is a number.

    Raises:
        Mismatch: It is NaN or an infinity.
    """
    if not value.is_finite():
        raise Mismatch("expected Decimal, got NaN or an infinity")
    return value


def check_offset(value: datetime) -> datetime:
    """Return a datetime whose offset from UTC RFC 3339 has: hours and minutes.

    Raises:
        Mismatch: Its offset has seconds.
    """
    offset = value.utcoffset()
    if offset is not None and offset % _MINUTE:
        raise Mismatch(f"expected {kind_of(value)}, got one whose offset has seconds")
    return value


def datetime_text(value: datetime) -> str:
    """Return a datetime as text, with ``Z`` for UTC; without an offset if it has none.

    Raises:
        Mismatch: Its offset from UTC has seconds.
    """
    text = check_offset(value).isoformat()
    # Java's types without an offset take a Z, and refuse +00:00.
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def date_text(value: date) -> str:
    """Return a date as text; a datetime is a date, too, and has more."""
    return date(value.year, value.month, value.day).isoformat()
