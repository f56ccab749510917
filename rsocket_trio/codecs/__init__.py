"""Payload data <-> Python objects, by annotation and MIME type.

`Codecs` is the registry a `rsocket_trio.Router` asks; `Codec` is what one MIME type needs.
"""

from __future__ import annotations

from .builtin import CborCodec, JsonCodec, OctetStreamCodec, TextCodec
from .registry import DEFAULT_CODECS, Codec, CodecError, Codecs

__all__ = [
    "DEFAULT_CODECS",
    "CborCodec",
    "Codec",
    "CodecError",
    "Codecs",
    "JsonCodec",
    "OctetStreamCodec",
    "TextCodec",
]
