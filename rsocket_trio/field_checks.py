"""Checks of the fields of settings: `whole`, `number`, `instance_of` and others.

They are validators of attrs. Those of attrs itself raise errors whose text is a tuple with the
field, the type and the value. These raise one sentence that names the class, the field, what is
expected and what was given:

    RsioConfig.limits must be of type RsioLimits, not dict
    RsioConfig.max_ahead must be at least 1, not 0

Of a value of a wrong type, only the type is shown: a token in the wrong field must not get into a
log.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final, TypeAlias

import attrs

__all__ = [
    "COUNT",
    "FINITE",
    "SECONDS",
    "Check",
    "check_order",
    "field_name",
    "instance_of",
    "largest",
    "number",
    "one_of",
    "optional",
    "sized",
    "smallest",
    "whole",
]

Check: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]
"""A validator: it gets the object, the field and its value."""

_SHOWN: Final = 100
"""Characters of a value in the text of an error."""


def field_name(instance: object, attribute: attrs.Attribute[Any]) -> str:
    """Return ``Class.field``, as it begins the text of an error."""
    return f"{type(instance).__name__}.{attribute.name}"


def instance_of(kind: type, *, none: bool = False) -> Check:
    """Return a check for objects of one type.

    Args:
        kind: The type. `int` does not include `bool`.
        none: ``None`` is allowed too.
    """
    expected = f"{kind.__name__} or None" if none else kind.__name__

    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if none and value is None:
            return
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            name = field_name(instance, attribute)
            raise TypeError(f"{name} must be of type {expected}, not {type(value).__name__}")

    return check


def whole(at_least: int = 1, at_most: int | None = None) -> Check:
    """Return a check for whole numbers in a range."""
    check_type = instance_of(int)
    text = _range(at_least=at_least, at_most=inf if at_most is None else at_most)

    def check(instance: object, attribute: attrs.Attribute[Any], value: int) -> None:
        check_type(instance, attribute, value)
        if value < at_least or (at_most is not None and value > at_most):
            _refuse(instance, attribute, text, value)

    return check


def number(
    *,
    above: float | None = None,
    at_least: float = -inf,
    at_most: float = inf,
    finite: bool = False,
) -> Check:
    """Return a check for numbers in a range. NaN is in none."""
    text = _range(above, at_least, at_most, finite=finite)

    def check(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            name = field_name(instance, attribute)
            raise TypeError(f"{name} must be a number, not {type(value).__name__}")
        if (
            not at_least <= value <= at_most
            or (above is not None and value <= above)
            or (finite and value == inf)
        ):
            _refuse(instance, attribute, text, value)

    return check


def one_of(*values: str | int) -> Check:
    """Return a check for one of some values."""
    listed = ", ".join(map(repr, values[:-1])) + f" or {values[-1]!r}"
    kind = type(values[0])
    check_type = instance_of(kind)

    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        check_type(instance, attribute, value)
        if value not in values:
            _refuse(instance, attribute, listed, value)

    return check


def sized(
    kind: type[str | bytes], at_least: int = 0, at_most: int | None = None, *, none: bool = False
) -> Check:
    """Return a check for text or bytes of a limited length. The error does not show them.

    Args:
        kind: `str` or `bytes`.
        at_least: The least characters or octets.
        at_most: The most of them.
        none: ``None`` is allowed too.
    """
    check_type = instance_of(kind, none=none)
    unit = "characters" if kind is str else "bytes"
    text = _range(at_least=at_least, at_most=inf if at_most is None else at_most)

    def check(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        check_type(instance, attribute, value)
        if value is not None and (
            len(value) < at_least or (at_most is not None and len(value) > at_most)
        ):
            name = field_name(instance, attribute)
            raise ValueError(f"{name} must have {text} {unit}, not {len(value)}")

    return check


def smallest(size: int, *others: object) -> int:
    """Return a default that is not above other fields.

    The checks of these fields come after all defaults: what is no int is refused there.
    """
    return min([size, *[each for each in others if isinstance(each, int)]])


def largest(size: int, *others: object) -> int:
    """Return a default that is not below other fields; see `smallest`."""
    return max([size, *[each for each in others if isinstance(each, int)]])


def check_order(instance: object, lower: str, higher: str, why: str) -> None:
    """Check that one field is not above another one.

    Args:
        instance: The object, whose fields have passed their own checks.
        lower: The name of the one field.
        higher: The name of the other one.
        why: What would happen otherwise.

    Raises:
        ValueError: It is; the text names both, and says what to do.
    """
    low, high = getattr(instance, lower), getattr(instance, higher)
    if low > high:
        raise ValueError(
            f"{type(instance).__name__}.{lower} is {low}, above {higher}, which is {high}: {why}; "
            f"lower {lower}, or raise {higher}"
        )


def optional(check: Check) -> Check:
    """Return a check that lets ``None`` pass too."""

    def check_if_given(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_if_given


def _range(
    above: float | None = None,
    at_least: float = -inf,
    at_most: float = inf,
    *,
    finite: bool = False,
) -> str:
    if above is not None:
        text = f"greater than {above}"
        if at_most != inf:
            text += f" and at most {at_most}"
    elif at_most == inf:
        text = f"at least {at_least}"
    elif at_least == -inf:
        text = f"at most {at_most}"
    else:
        text = f"from {at_least} to {at_most}"
    return f"{text} and finite" if finite else text


def _refuse(
    instance: object, attribute: attrs.Attribute[Any], expected: str, value: object
) -> None:
    shown = ascii(value)
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    raise ValueError(f"{field_name(instance, attribute)} must be {expected}, not {shown}")


COUNT: Final = whole()
"""A whole number of at least 1."""

SECONDS: Final = number(above=0)
"""A time in seconds, greater than 0; it may be without an end."""

FINITE: Final = number(above=0, finite=True)
"""A time, a rate or the like that is greater than 0 and has an end."""
