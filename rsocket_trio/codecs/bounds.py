"""The bounds that `msgspec.Meta` gives in `Annotated`: `check_of` makes their check.

They hold in every format, for what is read and for what is written, whichever way it is read.
"""

from __future__ import annotations

import re
import typing
from collections import abc
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, time
from typing import Any, Final

from msgspec import Meta

from .annotations import OCTETS, annotation_name, bounded_members, has_fields, is_typed_dict
from .mismatch import OutOfBounds, Unconvertible

__all__ = ["check_in", "check_of"]

_Test = Callable[[Any], Any]

_TESTS: Final[dict[str, tuple[str, Callable[[Any], _Test]]]] = {
    "gt": ("> {}", lambda bound: lambda value: value > bound),
    "ge": (">= {}", lambda bound: lambda value: value >= bound),
    "lt": ("< {}", lambda bound: lambda value: value < bound),
    "le": ("<= {}", lambda bound: lambda value: value <= bound),
    "multiple_of": ("that is a multiple of {}", lambda bound: lambda value: value % bound == 0),
    "pattern": ("that matches {!r}", lambda bound: re.compile(bound).search),
    "min_length": ("of length >= {}", lambda bound: lambda value: len(value) >= bound),
    "max_length": ("of length <= {}", lambda bound: lambda value: len(value) <= bound),
    "tz": ("with{} an offset", lambda bound: lambda value: _has_offset(value) is bound),
}
"""For each bound, its words and its test. A NaN is within no bound."""
_NUMBERS: Final = (int, float)
_SIZED: Final = (str, *OCTETS, abc.Collection)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(_TESTS, _NUMBERS),
    "pattern": (str,),
    "min_length": _SIZED,
    "max_length": _SIZED,
    "tz": (datetime, time),
}


def _has_offset(value: Any) -> bool:
    return value.utcoffset() is not None


def check_in(annotation: Any, plain: type) -> Callable[[Any], None]:
    """Return the check of the values of a type that is a member of a union, or alone.

    Raises:
        Unconvertible: A type cannot have such a bound.
    """
    checks = [(member, check_of(member, bounds)) for member, bounds in bounded_members(annotation)]
    return next((check for member, check in checks if member is plain), check_of(plain, ()))


def check_of(plain: Any, bounds: Sequence[Meta]) -> Callable[[Any], None]:
    """Return a function that raises `OutOfBounds` for a value out of bounds.

    Args:
        plain: The type, stripped.
        bounds: Its bounds.

    Raises:
        Unconvertible: The type cannot have such a bound.
    """
    name, cls = annotation_name(plain), typing.get_origin(plain) or plain
    tests = []
    for meta in bounds:
        for key, (words, test_of) in _TESTS.items():
            bound = getattr(meta, key)
            if bound is not None:
                if not _fits(cls, _TYPES[key]):
                    raise Unconvertible(f"{name} has no {key}: msgspec.Meta cannot bound it so")
                said = ("" if bound else "out") if key == "tz" else bound
                tests.append((words.format(said), test_of(bound)))

    def check(value: Any) -> None:
        for words, test in tests:
            try:
                within = test(value)
            except ArithmeticError:  # an int too large for a float
                within = False
            if not within:
                raise OutOfBounds.another(f"{name} {words}", value)

    return check


def _fits(cls: Any, types: Iterable[type]) -> bool:
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple(types))
        and cls is not bool
        and not has_fields(cls)
        and not is_typed_dict(cls)
    )
