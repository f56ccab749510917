"""Compile annotations once: a `Compiler` makes their forms, and `Kept` keeps what is made.

Readers and writers are compiled in the same way: an annotation together with all the types it is
made of. A type that contains itself, like a tree, is compiled with a reference that is filled in
later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from .annotations import annotation_name
from .mismatch import Unconvertible

__all__ = ["MAX_KNOWN", "Compiler", "Kept"]

MAX_KNOWN: Final = 1024
"""The most annotations for which something is kept. Only a program that makes classes while it runs
has more. Then all of it is dropped, and made again when it is needed."""

T = TypeVar("T")


class Compiler(ABC, Generic[T]):
    """Compiles one annotation, with all the types it is made of.

    Attributes:
        done: The compiled forms, by annotation.
    """

    def __init__(self) -> None:
        self.done: dict[Any, T] = {}
        self._begun: dict[Any, list[T]] = {}

    def compiled(self, annotation: Any) -> T:
        """Return the compiled form of an annotation, or of a part of one.

        Raises:
            Unconvertible: The annotation, or a part of it, cannot be compiled.
        """
        try:
            done = self.done.get(annotation)
        except TypeError:  # something unhashable is in it
            return self._compile(annotation)
        if done is not None:
            return done
        begun = self._begun.get(annotation)
        if begun is not None:
            return self._reference(annotation, begun)
        begun = self._begun[annotation] = []
        made = self.done[annotation] = self._compile(annotation)
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

    @abstractmethod
    def _compile(self, annotation: Any) -> T:
        """Compile a new annotation."""

    @abstractmethod
    def _reference(self, annotation: Any, whole: list[T]) -> T:
        """Return a form for an annotation that is being compiled.

        ``whole`` has the real form when the first value comes.
        """


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
            if len(self._known) > MAX_KNOWN:
                self._known.clear()
            self._known[annotation] = known
        return known
