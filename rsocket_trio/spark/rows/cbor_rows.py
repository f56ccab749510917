"""Maps in CBOR into columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ...codecs import CborCodec
from .decoded import Decoded, check_types
from .values import to_columns

__all__ = ["CborRows"]


class CborRows:
    """Decodes maps in CBOR.

    Args:
        schema: The columns. Other keys of a map are ignored, and missing ones are null.

    Raises:
        ValueError: A column has a type that CBOR cannot be decoded into.
    """

    def __init__(self, schema: pa.Schema) -> None:
        check_types(schema)
        self._schema = schema
        self._codec = CborCodec()

    def decode(self, payloads: list[bytes]) -> list[Decoded]:
        """See `RowDecoder.decode`."""
        malformed: dict[int, str] = {}
        values: list[dict[Any, Any] | None] = []
        decode = self._codec.decode
        for index, data in enumerate(payloads):
            value: Any = None
            try:
                value = decode(data, Any)
            except Exception as error:  # of the decoder, which reads bytes of a stranger
                malformed[index] = f"it is no CBOR: {error}"
            else:
                if not isinstance(value, dict):
                    malformed[index] = f"a map is needed, not {type(value).__name__}"
            values.append(None if index in malformed else value)
        return [to_columns(values, self._schema, malformed)]
