"""The marks of parameters that the data of the peer must never fill: `Principal`, `Provided`."""

from __future__ import annotations

import typing
from collections.abc import Hashable
from typing import Any, Final

from ..codecs.annotations import (
    aliased,
    fields_of,
    is_bound,
)
from ..codecs.mismatch import Unconvertible
from ..errors import Rejected

__all__ = ["MARKS", "Principal", "Provided", "check_known", "marked", "marks_a_part", "plain"]

_MAX_PARTS: Final = 1000
"""The types that are looked at: a type may contain a new type at each level, without an end."""


class Principal:
    """Marks the parameter of a handler that receives the principal.

    ``user: Annotated[User, Principal]`` receives what the router's ``authenticate`` has returned.
    If that is ``None``, the request is refused with REJECTED, unless the annotation allows it:
    ``Annotated[User | None, Principal]``.
    """


class Provided:
    """Marks a parameter that receives what `Router.provide` has registered for its type.

    ``db: Annotated[Database, Provided]`` is a parameter of a handler, of a provider, or of a
    function for `Router.connection`. ``Annotated[Database | None, Provided]`` receives ``None`` if
    nothing is registered.
    """


MARKS: Final = (Principal, Provided)


def check_known(principal: Any) -> None:
    """Refuse a request without a principal, whose handler needs one.

    Raises:
        Rejected: There is none.
    """
    if principal is None:
        raise Rejected("authentication is needed")


def plain(annotation: Any) -> Any:
    """Return an annotation without ``Annotated``, unless that has bounds of the values."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return annotation
    inner, *notes = typing.get_args(annotation)
    return annotation if any(map(is_bound, notes)) else inner


def marked(annotation: Any, mark: type) -> Any:
    """Return the type that an annotation marks, and otherwise ``None``.

    Args:
        annotation: The annotation of a parameter.
        mark: `Principal` or `Provided`.
    """
    inner, notes = _unwrapped(annotation)
    return inner if _is_marked(notes, mark) else None


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return an annotation without aliases and ``Annotated``, and the notes of ``Annotated``."""
    notes: tuple[Any, ...] = ()
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation, *more = typing.get_args(annotation)
            notes += tuple(more)
        else:
            meant = _meant(annotation)
            if meant is annotation:
                return annotation, notes
            annotation = meant


def _is_marked(notes: tuple[Any, ...], mark: type) -> bool:
    return any(note is mark or isinstance(note, mark) for note in notes)


def marks_a_part(annotation: Any, mark: type) -> bool:
    """Whether a part of an annotation is marked, which the data of the peer would fill."""
    seen: set[Any] = set()
    waiting = [annotation]
    while waiting and len(seen) < _MAX_PARTS:
        inner, notes = _unwrapped(waiting.pop())
        if _is_marked(notes, mark):
            return True
        if isinstance(inner, typing.NewType):
            waiting.append(inner.__supertype__)
        if isinstance(inner, Hashable) and inner not in seen:
            seen.add(inner)
            waiting += [*typing.get_args(inner), *_fields(inner)]
    return False


def _meant(annotation: Any) -> Any:
    try:
        return aliased(annotation)
    except Unconvertible:  # reported where data are converted
        return annotation


def _fields(annotation: Any) -> list[Any]:
    try:
        return [field.annotation for field in fields_of(annotation)]
    except Unconvertible:  # reported where data are converted
        return []
