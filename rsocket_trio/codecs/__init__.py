"""Payload data to Python objects and back, by annotation and MIME type.

`Codecs` is the registry that a `rsocket_trio.Router` asks; a `Codec` converts one MIME type.

The modules, in reading order. The registry and the formats:

- ``registry``: the codecs by MIME type, and the error `CodecError`
- ``cbor``: the codec for CBOR, and what it refuses of a peer
- ``json``: the codec for JSON
- ``text``: the codecs for plain text and for octets
- ``protobuf``: the codec for messages of protobuf
- ``by_annotation``: what those codecs share that go by annotations

The meaning of annotations:

- ``annotations``: they are taken apart into unions, fields and type variables
- ``compiling``: forms are made of them once, of recursive ones, too
- ``bounds``: the bounds of values that `msgspec.Meta` gives
- ``mismatch``: the errors of a value and of an annotation, with their place
- ``scalars``: the rules for numbers, dates and times that all formats share

The options:

- ``conventions``: the names of fields in data, and what enums are written as
- ``models``: models of pydantic and classes that users register, which convert themselves

The readers, for plain values into annotated types:

- ``reading``: the functions by annotation
- ``readable``: what values of one type are read from, and how
- ``unions``: how the member of a union is chosen, also for writing
- ``same_to_msgspec``: which annotations msgspec may read, as they mean the same to it
- ``left_out``: the defaults of dataclasses that msgspec leaves out

The writers, for annotated types into plain values, with a check of each value:

- ``writing``: the functions by annotation
- ``packing``: CBOR of classes, written by code that is made for them
- ``writable``: which values of one type are written, and as what
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
