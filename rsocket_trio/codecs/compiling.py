"""Compile annotations once: `Converters` make their forms, `Kept` keeps them.

Readers and writers are compiled in the same way: an annotation together with all the types it is
made of. A type that contains itself, like a tree, is compiled with a reference that is filled in
later.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import msgspec

from .annotations import ANY, annotation_name, bounded_members, stripped
from .bounds import check_of
from .mismatch import Unconvertible

__all__ = ["Bounded", "Converters", "Kept"]

_MAX_KNOWN: Final = 1024
"""The most annotations for which something is kept. Only a program that makes classes while it runs
has more. Then all of it is dropped, and made again when it is needed."""

T = TypeVar("T")
Bounded = list[tuple[Any, list[msgspec.Meta]]]
"""The members of a union, each with its bounds."""


class Converters(ABC, Generic[T]):
    """Compiles how values of one annotation are read, or how they are written."""

    def __init__(self) -> None:
        self._done: dict[Any, T] = {}
        self._begun: dict[Any, list[T]] = {}

    def compiled(self, annotation: Any) -> T:
        """Return the compiled form of an annotation, or of a part of one.

        Raises:
            Unconvertible: The annotation, or a part of it, cannot be compiled.
        """
        try:
            done = self._done.get(annotation)
        except TypeError:  # something unhashable is in it
            return self._compile(annotation)
        if done is not None:
            return done
        begun = self._begun.get(annotation)
        if begun is not None:
            return self._reference(annotation, begun)
        begun = self._begun[annotation] = []
        made = self._done[annotation] = self._compile(annotation)
        begun.append(made)
        return made

    def whole(self, annotation: Any) -> T:
        """Return the compiled form of an annotation that is no part of another.

        Raises:
            Unconvertible: It cannot be compiled.
        """
        try:
            return self.compiled(annotation)
        except RecursionError:
            name = annotation_name(annotation)
            raise Unconvertible(
                f"{name} contains a new type at each level, without an end"
            ) from None

    def _compile(self, annotation: Any) -> T:
        members = bounded_members(annotation)
        if len(members) == 1:
            [(plain, bounds)] = members
            cls, name = typing.get_origin(plain) or plain, annotation_name(plain)
            form = self._anything if plain in ANY else self._of(plain, cls, name)
            return self._bounded(form, plain, bounds)
        if any(member in ANY for member, _ in members):
            return self._anything
        return self._union(members, annotation_name(stripped(annotation)))

    def _bounded(self, form: T, plain: Any, bounds: Sequence[msgspec.Meta]) -> T:
        return self._checked(form, check_of(plain, bounds)) if bounds else form

    def _members(
        self, members: Bounded, instead: Mapping[Any, T] = MappingProxyType({})
    ) -> list[tuple[Any, T]]:
        """Return the members of a union with their forms, some of which may be others there."""
        return [
            (member, self._bounded(instead.get(member) or self.compiled(member), member, bounds))
            for member, bounds in members
        ]

    def _part(self, step: str, annotations: Sequence[Any]) -> T:
        """Return the form of the first of ``annotations``; that of anything if there is none."""
        if not annotations:
            return self._anything
        try:
            return self.compiled(annotations[0])
        except Unconvertible as error:
            error.within(step)
            raise

    @abstractmethod
    def _reference(self, annotation: Any, whole: list[T]) -> T:
        """Return a form for an annotation that is being compiled.

        ``whole`` has the real form when the first value comes.
        """

    @property
    @abstractmethod
    def _anything(self) -> T:
        """The form of any value."""

    @abstractmethod
    def _of(self, plain: Any, cls: Any, name: str) -> T:
        """Return the form of a type that is no union, with its origin and its name."""

    @abstractmethod
    def _union(self, members: Bounded, name: str) -> T:
        """Return the form of a union."""

    @abstractmethod
    def _checked(self, form: T, check: Callable[[Any], None]) -> T:
        """Return a form with a check of the value in Python."""


class Kept(Generic[T]):
    """What is made of annotations, once of each.

    Args:
        make: Makes it of an annotation.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._known: dict[Any, T] = {}

    def of(self, annotation: Any) -> T:
        """Return what is made of an annotation. Errors are raised each time."""
        try:
            known = self._known.get(annotation)
        except TypeError:  # something unhashable is in it
            return self._make(annotation)
        if known is None:
            known = self._make(annotation)
            if len(self._known) > _MAX_KNOWN:
                self._known.clear()
            self._known[annotation] = known
        return known
