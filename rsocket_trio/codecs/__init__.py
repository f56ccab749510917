"""Payload data to Python objects and back, by annotation and MIME type.

`Codecs` is the registry that a `rsocket_trio.Router` asks; a `Codec` converts one MIME type.

The modules, in reading order:

- ``registry``: the codecs by MIME type, and the error `CodecError`
- ``cbor``: the codec for CBOR, and what it refuses of a peer
- ``json``: the codec for JSON
- ``text``: the codecs for plain text and for octets
- ``protobuf``: the codec for messages of protobuf
- ``same_to_msgspec``: which annotations msgspec may read, as they mean the same to it
- ``left_out``: the defaults of dataclasses that msgspec leaves out
- ``annotations``: annotations taken apart into unions, fields and type variables
- ``mismatch``: the errors of a value and of an annotation, with their place
- ``conventions``: the names of fields in data, and what enums are written as
- ``bounds``: the bounds of values that `msgspec.Meta` gives
- ``models``: models of pydantic and classes that users register, which convert themselves
- ``compiling``: the compiled forms of annotations, recursive ones included
- ``reading``: plain values into annotated types
- ``shapes``: how values without parts are read
- ``scalars``: the rules for numbers, dates and times that all formats share
- ``containers``: how lists, tuples, sets and mappings are read
- ``unions``: how the member of a union is chosen
- ``writing``: annotated types into plain values, with a check of each value
- ``forms``: how values of one type are written, and which values these are
"""

from __future__ import annotations

from .cbor import CborCodec
from .json import JsonCodec
from .models import Types
from .protobuf import ProtobufCodec
from .registry import DEFAULT_CODECS, Codec, CodecError, Codecs
from .text import OctetStreamCodec, TextCodec

__all__ = [
    "DEFAULT_CODECS",
    "CborCodec",
    "Codec",
    "CodecError",
    "Codecs",
    "JsonCodec",
    "OctetStreamCodec",
    "ProtobufCodec",
    "TextCodec",
    "Types",
]
