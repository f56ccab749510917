"""Checks of the fields of settings, and of arguments: `whole`, `number`, `instance_of` and others.

They are validators of attrs; `argument` and `listed` check the arguments of functions by them.
Those of attrs itself raise errors whose text is a tuple with the field, the type and the value.
These raise one sentence that names the class and the field, or the argument, what is expected and
what was given:

    RsioConfig.limits must be of type RsioLimits, not dict
    RsioConfig.max_ahead must be at least 1, not 0

Of a value of a wrong type, only the type is shown: a token in the wrong field must not get into a
log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Final, TypeAlias, TypeVar

import attrs

__all__ = [
    "COUNT",
    "FINITE",
    "FLAG",
    "FUNCTION",
    "SECONDS",
    "TEXT",
    "Check",
    "argument",
    "check_order",
    "field_name",
    "instance_of",
    "largest",
    "listed",
    "number",
    "one_of",
    "optional",
    "sized",
    "smallest",
    "whole",
]

T = TypeVar("T")
Check: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]
"""A validator: it gets the object, the field and its value."""

_SHOWN: Final = 100
"""Characters of a value in the text of an error."""


class _Argument:
    """An argument, in place of the object and of its field."""

    def __init__(self, name: str) -> None:
        self.name = name


def argument(name: str, value: object, check: Check) -> None:
    """Check the argument of a function where it is given.

    Args:
        name: Its name.
        value: Its value.
        check: The check, as for a field.

    Raises:
        TypeError: It is of a wrong type; the text begins with the name.
        ValueError: It is out of range; the text begins with the name.
    """
    argument: Any = _Argument(name)
    check(argument, argument, value)


def listed(name: str, values: Iterable[T], *kinds: type) -> tuple[T, ...]:
    """Return the items of an argument or a field that is iterable.

    It is iterated here, once: a generator would be used up by the first of several uses.

    Args:
        name: The name of the argument, or ``Class.field``.
        values: Its value. Text and bytes are refused, though one can iterate over them.
        kinds: The types that the items may have.

    Raises:
        TypeError: It is not iterable, or an item is of another type.
    """
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a list of {_names(kinds)}, or another iterable of it, not "
            f"{_kind(values)}"
        )
    items = tuple(values)
    for item in items:
        if not isinstance(item, kinds):
            raise TypeError(
                f"the items of {name} must be of type {_names(kinds)}, not {_kind(item)}"
            )
    return items


def field_name(instance: object, attribute: attrs.Attribute[Any]) -> str:
    """Return ``Class.field``, or the name of an argument, as it begins the text of an error."""
    if isinstance(instance, _Argument):
        return attribute.name
    return f"{type(instance).__name__}.{attribute.name}"


def instance_of(*kinds: type, none: bool = False) -> Check:
    """Return a check for objects of one type, or of one of several.

    Args:
        kinds: The types. `int` does not include `bool`, unless that is one of them too.
        none: ``None`` is allowed too.
    """
    expected = _names((*kinds, None) if none else kinds)
    no_bool = int in kinds and bool not in kinds

    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if none and value is None:
            return
        if not isinstance(value, kinds) or (no_bool and isinstance(value, bool)):
            name = field_name(instance, attribute)
            raise TypeError(f"{name} must be of type {expected}, not {_kind(value)}")

    return check


def _function(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not callable(value):
        name = field_name(instance, attribute)
        raise TypeError(f"{name} must be a function, not {type(value).__name__}")


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
    listed = " or ".join(filter(None, [", ".join(map(repr, values[:-1])), repr(values[-1])]))
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


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return type(value).__name__


def _names(kinds: tuple[type | None, ...]) -> str:
    names = ["None" if kind is None else kind.__name__ for kind in kinds]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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


FLAG: Final = instance_of(bool)
"""True or False: a text such as "no" would count as true."""

TEXT: Final = instance_of(str)
"""Text."""

FUNCTION: Final[Check] = _function
"""A function, or another object that can be called."""

COUNT: Final = whole()
"""A whole number of at least 1."""

SECONDS: Final = number(above=0)
"""A time in seconds, greater than 0; it may be without an end."""

FINITE: Final = number(above=0, finite=True)
"""A time, a rate or the like that is greater than 0 and has an end."""
