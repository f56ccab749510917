"""Names of publishers as requests of handlers: ``route?key=value&...``; `split_name`, `arguments`.

A query becomes the data of the request, as JSON. If the handler has one parameter for the data, and
the query has one key of its name, the value alone is the data: ``ticks?every=0.1`` for
``ticks(every: float)``. Otherwise an object with all keys is: ``ticks?every=0.1&count=3`` for
``ticks(request: Ticks)``. A key that comes several times has a list.
"""

from __future__ import annotations

import json
import typing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import attrs

from ..codecs import JsonCodec
from ..codecs.annotations import stripped
from ..codecs.mismatch import Mismatch
from ..routing.parameters import EMPTY, Source
from ..routing.refusals import shown
from .errors import PublisherError

if TYPE_CHECKING:
    from ..routing.parameters import Parameter
    from ..routing.signature import Signature

__all__ = ["arguments", "missing", "split_name"]

_JSON: Final = JsonCodec()
_OCTETS: Final = (bytes, bytearray, memoryview)

_MAX_KEYS: Final = 64
"""The most keys of a query: a handler has a handful of arguments."""


def split_name(name: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the route in the name of a publisher, and the pairs of its query, decoded.

    Raises:
        PublisherError: The query cannot be read.
    """
    route, mark, query = name.partition("?")
    if not mark or not query:
        return route, []
    try:
        pairs = parse_qsl(
            query,
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_MAX_KEYS,
        )
    except ValueError:
        raise PublisherError("the query in the name of the publisher cannot be read") from None
    return route, pairs


def arguments(pairs: list[tuple[str, str]], signature: Signature | None) -> bytes:
    """Return the data of a request for a handler; nothing if there is no query.

    Args:
        pairs: The query.
        signature: The handler, if it is known.
    """
    if not pairs:
        return b""
    parameter = _parameter(signature)
    if parameter is not None and len(pairs) == 1 and pairs[0][0] == parameter.name:
        text = pairs[0][1]
        if parameter.annotation in _OCTETS:
            return text.encode()
        return _encoded(_value(text, parameter.annotation))
    hints = _fields(None if parameter is None else parameter.annotation)
    values: dict[str, Any] = {}
    repeated: set[str] = set()
    for key, text in pairs:
        value = _value(text, hints.get(key, Any))
        if key in repeated:
            values[key].append(value)
        elif key in values:
            repeated.add(key)
            values[key] = [values[key], value]
        else:
            values[key] = value
    return _encoded(values)


def missing(route: str, pairs: list[tuple[str, str]], signature: Signature | None) -> str:
    """Return how to give an argument, if there is none and the handler needs one.

    Args:
        route: The name before ``?``.
        pairs: The query.
        signature: The handler, if it is known.
    """
    parameter = _parameter(signature)
    if pairs or parameter is None or parameter.default is not EMPTY:
        return ""
    if parameter.annotation in _OCTETS:  # no data are data
        return ""
    fields = list(_fields(parameter.annotation))
    key = fields[0] if fields else parameter.name
    return f"its arguments stand in the name, such as {shown(f'{route}?{key}=...')}"


def _parameter(signature: Signature | None) -> Parameter | None:
    """Return the parameter of a handler that gets the data; its type without bounds."""
    for each in () if signature is None else signature.parameters:
        if each.source is Source.DATA:
            return attrs.evolve(each, annotation=stripped(each.annotation))
    return None


def _fields(annotation: Any) -> dict[str, Any]:
    """Return the annotations of the fields of a class."""
    if not isinstance(annotation, type):
        return {}
    try:
        return typing.get_type_hints(annotation)
    except Exception:  # an annotation of the application may be any expression
        return {}


def _value(text: str, annotation: Any) -> Any:
    """Return a value: read as JSON if it is valid JSON, and the annotation is not text."""
    if _is_text(annotation):
        return text
    try:
        return _JSON.decode(text.encode(), Any)
    except Mismatch:
        return text


def _is_text(annotation: Any) -> bool:
    if annotation is str:
        return True
    members = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return all(isinstance(each, str) for each in members)
    others = [each for each in members if each is not type(None)]
    return bool(others) and typing.get_origin(annotation) is not list and others == [str]


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
