"""Annotations, compiled once: `Compiled` keeps the results, a `Compiler` makes them.

What reads values and what writes them are compiled alike: each annotation with all the types it is
made of, and a type that is part of itself, like a tree, through a reference that is filled in
later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from .annotations import annotation_name
from .mismatch import Unconvertible

__all__ = ["MAX_KNOWN", "Compiled", "Compiler"]

MAX_KNOWN: Final = 1024
"""Annotations whose compiled form is kept. More come only of a program that makes classes as it
runs; then all are forgotten, and compiled again where they are needed."""

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
        """The compiled form of an annotation, or of a part of one.

        Raises:
            Unconvertible: There is none of it, or of a part of it.
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

    @abstractmethod
    def _compile(self, annotation: Any) -> T:
        """The compiled form of one that is new."""

    @abstractmethod
    def _reference(self, annotation: Any, whole: list[T]) -> T:
        """Stands for one that is being compiled; ``whole`` holds its form when values come."""


class Compiled(Generic[T]):
    """The compiled forms of annotations.

    Args:
        compiler: Makes a compiler.
    """

    def __init__(self, compiler: Callable[[], Compiler[T]]) -> None:
        self._compiler = compiler
        self._known: dict[Any, T] = {}

    def of(self, annotation: Any) -> T:
        """The compiled form of an annotation.

        Raises:
            Unconvertible: There is none.
        """
        try:
            done = self._known.get(annotation)
        except TypeError:  # something unhashable is in it
            done = None
        if done is None:
            compiler = self._compiler()
            try:
                done = compiler.compiled(annotation)
            except RecursionError:
                name = annotation_name(annotation)
                raise Unconvertible(f"{name} is made of ever new types") from None
            if len(self._known) > MAX_KNOWN:
                self._known.clear()
            # Only now: what is part of what cannot be converted must not be found here.
            self._known |= compiler.done
        return done
