"""The metadata of a call: pairs of text, in order; a key may have several values.

Go's setter makes keys lower case, and its receiver does not, so keys are compared as they come
(`values_of`) and this package sends keys as they are given. There are no binary values, and no
metadata of responses.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from ..metadata import builder
from ..metadata.authentication import (
    Authentication,
    BearerAuthentication,
    SimpleAuthentication,
)
from .errors import Unauthenticated

__all__ = [
    "METADATA_TYPE",
    "Metadata",
    "MetadataLike",
    "as_metadata",
    "entries_of",
    "pairs_in",
    "values_of",
]

METADATA_TYPE: Final = "message/x.ttrpc.metadata.v0"
"""The MIME type of the entry with the metadata of a call: a JSON array of pairs of text."""

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


def entries_of(route: str, pairs: Metadata) -> builder.Metadata:
    """Return metadata of RSocket that say the same as the pairs of a call.

    Raises:
        MetadataError: The route is too long.
        Unauthenticated: The authentication in the pairs cannot be read.
    """
    if not pairs:
        return builder.Metadata(route=route)
    extra = [(METADATA_TYPE, json.dumps(pairs).encode())]
    return builder.Metadata(route=route, auth=_authentication(pairs), extra=extra)


def pairs_in(entry: bytes) -> Metadata:
    """Return the pairs in an entry of `METADATA_TYPE`, which any peer of RSocket may send.

    Raises:
        ValueError: It has something else.
    """
    try:
        return as_metadata([tuple(each) for each in json.loads(entry)])
    except (TypeError, RecursionError) as error:
        raise ValueError("the metadata of ttrpc must be pairs of text") from error


def _authentication(pairs: Metadata) -> Authentication | None:
    """Return the authentication in the metadata of a call.

    Raises:
        Unauthenticated: It cannot be read.
    """
    value = next((each for key, each in pairs if key.lower() == "authorization"), None)
    if value is None:
        return None
    scheme, _, rest = value.partition(" ")
    if scheme.lower() == "bearer":
        return BearerAuthentication(rest.strip())
    if scheme.lower() == "basic":
        try:
            user, _, password = b64decode(rest, validate=True).decode().partition(":")
        except ValueError:
            raise Unauthenticated("the basic authorization cannot be read") from None
        return SimpleAuthentication(user, password)
    raise Unauthenticated("the authorization must be Bearer or Basic")
