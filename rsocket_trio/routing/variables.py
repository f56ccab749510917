"""The variables of routes as values, and back: `variable_reader`, `variable_writer`."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ..codecs import CodecError, Codecs
from ..codecs.annotations import (
    ANY,
    annotation_name,
    has_fields,
    is_named_tuple,
    is_typed_dict,
    members_of,
)
from ..codecs.mismatch import Unconvertible
from ..metadata.mime_types import MIME

__all__ = ["check_variable", "variable_reader", "variable_writer"]

_NUMBERS: Final = (bool, int, float, Decimal)
_CONTAINERS: Final = (list, tuple, set, frozenset, dict, bytes, bytearray, memoryview)


def check_variable(annotation: Any, codecs: Codecs) -> None:
    """Refuse an annotation that no variable of a route can be converted to.

    Raises:
        TypeError: It is one; the text says what to write.
    """
    try:
        members = members_of(annotation)
    except Unconvertible:
        members = ()
    inner = members[0] if len(members) == 1 else None
    cls = typing.get_origin(inner) or inner
    if (
        inner is None
        or inner in ANY
        or (isinstance(cls, type) and issubclass(cls, _CONTAINERS))
        or (typing.get_origin(inner) is not None and cls is not typing.Literal)
        or is_typed_dict(cls)
        or is_named_tuple(cls)
        or has_fields(cls)
    ):
        raise TypeError(
            f"{annotation_name(annotation)} is not one text: annotate it str, int, UUID, an Enum "
            "or another type that is one"
        )
    codecs.check_decode(annotation, MIME.JSON)


def variable_reader(annotation: Any, codecs: Codecs) -> Callable[[str], Any]:
    """Return a function that converts the text of a variable; it raises `CodecError`.

    A ``str`` is the text, and a number is written as in JSON. Other types are read as from a text
    of JSON, and then as from what stands there, such as the number of a member of an enum.
    """
    inner = members_of(annotation)[0]
    if inner is str:
        as_text = codecs.decoder(annotation, MIME.TEXT)
        return lambda text: as_text(text.encode())
    decode = codecs.decoder(annotation, MIME.JSON)
    if inner in _NUMBERS:
        return lambda text: decode(text.encode())

    def read(text: str) -> Any:
        try:
            return decode(json.dumps(text).encode())
        except CodecError as error:
            try:
                return decode(text.encode())
            except CodecError:
                raise error from error.__cause__  # what is said of a text is what helps

    return read


def variable_writer(annotation: Any, codecs: Codecs) -> Callable[[Any], str]:
    """Return a function that writes what `variable_reader` reads; it raises `CodecError`.

    Raises:
        TypeError: No variable can be of this type.
    """
    check_variable(annotation, codecs)
    encode = codecs.encoder(annotation, MIME.JSON)

    def write(value: Any) -> str:
        written = encode(value).decode()
        return str(json.loads(written)) if written[:1] == '"' else written

    return write
