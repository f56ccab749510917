"""The metadata of a call: pairs of text, in order; a key may have several values.

Go's setter makes keys lower case, and its receiver does not, so keys are compared as they come
(`values_of`) and this package sends keys as they are given. There are no binary values, and no
metadata of responses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

__all__ = ["Metadata", "MetadataLike", "as_metadata", "values_of"]

Metadata: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata as they are sent and received."""

MetadataLike: TypeAlias = Mapping[str, str | Iterable[str]] | Iterable[tuple[str, str]]
"""Metadata as an application may give them: pairs, or a mapping to one value or several."""


def as_metadata(given: MetadataLike | None) -> Metadata:
    """Return metadata as pairs.

    Raises:
        TypeError: A key or a value is not text.
    """
    if given is None:
        return ()
    pairs: list[tuple[str, str]] = []
    try:
        if isinstance(given, Mapping):
            for key, value in given.items():
                values = [value] if isinstance(value, str) else value
                pairs += [(key, each) for each in values]
        else:
            pairs = list(given)
    except TypeError:
        raise TypeError(f"metadata must be pairs of text, not {type(given).__name__}") from None
    for pair in pairs:
        if (
            not isinstance(pair, tuple)
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or not isinstance(pair[1], str)
        ):
            raise TypeError(f"metadata must be pairs of text, not of {_kinds(pair)}")
    return tuple(pairs)


def _kinds(pair: object) -> str:
    """Return the types in a wrong pair: its values may be secrets."""
    if isinstance(pair, tuple):
        return f"({', '.join(type(each).__name__ for each in pair)})"
    return type(pair).__name__


def values_of(metadata: Metadata, key: str) -> list[str]:
    """Return the values of a key, in order; upper and lower case make a difference."""
    return [value for name, value in metadata if name == key]
