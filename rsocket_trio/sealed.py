"""Classes without a public constructor: `Sealed`, `make`.

Only this package makes their objects, so the constructor is not part of the interface. Calling the
class is a `TypeError` that says where to get an object. Deriving from one is a `TypeError` too:
no code would make objects of the derived class. A class of this package may derive from one: it
says where its own objects come from.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

__all__ = ["Sealed", "make", "maker"]

P = ParamSpec("P")
T = TypeVar("T")


class Sealed(ABCMeta):
    """The metaclass: ``class Requester(metaclass=Sealed, given="connect gives one")``.

    ``given`` says where the objects come from, for the error texts.
    """

    _given: str

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, given: str = ""
    ) -> Sealed:
        """Make a class.

        Raises:
            TypeError: It derives from a sealed class, and does not say where its objects come from.
        """
        for base in bases:
            if isinstance(base, Sealed) and not given:
                given = base._given  # noqa: SLF001 - an attribute of this metaclass
                raise TypeError(f"{base.__name__} cannot be subclassed: {given}")
        cls = super().__new__(mcs, name, bases, namespace)
        cls._given = given
        return cls

    def __call__(cls, *_args: object, **_options: object) -> NoReturn:
        """Raise a `TypeError`; `make` makes objects."""
        raise TypeError(f"{cls.__name__} has no public constructor: {cls._given}")


_construct: Final[Callable[..., Any]] = type.__call__


def make(cls: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make an object of a sealed class; for this package only."""
    made: T = _construct(cls, *args, **options)
    return made


def maker(cls: Callable[P, T]) -> Callable[P, T]:
    """Return a function that does as `make` does, in half the time, for what each request needs."""
    return partial(_construct, cls)
