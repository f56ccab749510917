"""Classes whose objects applications are given, and never make: `Sealed`, `make`.

What such an object is made of is the business of this package, so its constructor is no part of
the interface: calling the class is a `TypeError` that says where to get an object. Nor may it be
derived from, as nobody would make objects of that class.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

__all__ = ["Sealed", "make"]

P = ParamSpec("P")
T = TypeVar("T")


class Sealed(ABCMeta):
    """The metaclass: ``class Requester(metaclass=Sealed, given="connect gives one")``.

    ``given`` says where the objects come from.
    """

    _given: str

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, given: str = ""
    ) -> Sealed:
        """Make a class; a `TypeError` where it derives from a sealed one."""
        for base in bases:
            if isinstance(base, Sealed):
                given = base._given  # noqa: SLF001 - of this class
                raise TypeError(f"{base.__name__} is not to be derived from: {given}")
        cls = super().__new__(mcs, name, bases, namespace)
        cls._given = given
        return cls

    def __call__(cls, *_args: object, **_options: object) -> NoReturn:
        """Refuse: see `make`."""
        raise TypeError(f"{cls.__name__} has no public constructor: {cls._given}")


_construct: Final[Callable[..., Any]] = type.__call__


def make(cls: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """An object of a sealed class; for this package."""
    made: T = _construct(cls, *args, **options)
    return made
