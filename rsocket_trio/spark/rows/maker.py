"""Rows out of the payloads of a stream: `RowMaker`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from ... import Payload
from .arrow_rows import ArrowRows
from .cbor_rows import CborRows
from .decoded import Decoded, RowDecoder
from .fixed_rows import FixedRows
from .json_rows import JsonRows
from .layout import Layout
from .packed import PackedElements
from .settings import RowSettings

__all__ = ["PUBLISHER_FACTS", "REQUEST_FACTS", "SPOOL_FACTS", "RowMaker"]

REQUEST_FACTS: Final = {
    "metadata": pa.binary(),
    "partition": pa.int32(),
    "offset": pa.int64(),
}
"""Facts about an element of a request, for the formats binary and utf8.

Beside decoded columns their names begin with an underscore, and ``_data`` is there, too.
"""
SPOOL_FACTS: Final = {
    "metadata": pa.binary(),
    "collector": pa.string(),
    "offset": pa.int64(),
    "received_at": pa.timestamp("us", "UTC"),
}
"""The same for an element that comes out of a spool."""
PUBLISHER_FACTS: Final = {"partition": pa.int32(), "offset": pa.int64()}
"""The same for an element of a publisher over rsio, which has no metadata."""
_DECODED: Final = ("json", "cbor", "arrow", "fixed")
"""The formats that fill the columns of a schema."""


class RowMaker:
    """Makes rows out of payloads.

    Args:
        settings: The format of the payloads, and what happens to malformed elements.
        schema: The columns that Spark wants, exactly.
        facts: `REQUEST_FACTS`, `SPOOL_FACTS` or `PUBLISHER_FACTS`.

    Raises:
        ValueError: The schema does not fit the format.
    """

    def __init__(
        self, settings: RowSettings, schema: pa.Schema, facts: Mapping[str, pa.DataType]
    ) -> None:
        payload_format, mode, corrupt = settings.payload_format, settings.mode, settings.corrupt
        self._format = payload_format
        self._facts = facts
        self._decoder: RowDecoder | None = None
        if payload_format in _DECODED:
            reserved = {"_data": pa.binary()} | {f"_{name}": kind for name, kind in facts.items()}
            self._layout = Layout(schema, reserved, mode=mode, corrupt=corrupt)
            if len(self._layout.decoded):
                self._decoder = _decoder(self._layout.decoded, settings)
            return
        self._layout = Layout(schema, facts, mode=mode, corrupt=corrupt)
        data = pa.string() if payload_format == "utf8" else pa.binary()
        for field in self._layout.decoded:
            if field.name != "data" or field.type != data:
                raise ValueError(
                    f"payloadFormat={payload_format} has the columns data ({data}), "
                    f"{', '.join(f'{name} ({kind})' for name, kind in facts.items())}: there is no "
                    f"column {field.name} ({field.type}). To decode elements into columns, choose "
                    "payloadFormat json, cbor, arrow or fixed"
                )

    def rows(
        self,
        payloads: Sequence[Payload] | PackedElements,
        offset: int,
        **facts: int | str | datetime,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of elements in order.

        Args:
            payloads: The elements. Packed ones have no metadata.
            offset: The offset of the first one.
            **facts: Facts that are the same for all of them, the place of the offset first.

        Raises:
            MalformedElement: One is malformed, and the mode is FAILFAST.
        """
        data: list[bytes] | PackedElements
        if isinstance(payloads, PackedElements):
            data = payloads
        else:
            data = [payload.data for payload in payloads]
        count = len(data)

        def column(name: str) -> pa.Array:
            name = name.removeprefix("_")
            match name:
                case "data":
                    return pa.array(list(data), pa.binary())
                case "metadata":
                    return pa.array(_metadata(payloads), pa.binary())
                case "offset":
                    return pa.array(range(offset, offset + count), pa.int64())
            return pa.repeat(pa.scalar(facts[name], self._facts[name]), count)

        place, number = next(iter(facts.items()))
        for decoded in self._decoded(data):
            yield self._layout.rows(
                decoded,
                column,
                data.__getitem__,
                lambda index: f"the element with the offset {offset + index} of {place} {number}",
            )

    def _decoded(self, data: list[bytes] | PackedElements) -> Iterable[Decoded]:
        if isinstance(self._decoder, FixedRows):
            return self._decoder.decode(data)
        data = list(data)
        if self._decoder is not None:
            return self._decoder.decode(data)
        columns = self._layout.decoded
        if not len(columns):
            # Facts only. A batch without columns has no length, so it has a column of nulls.
            return [Decoded(pa.RecordBatch.from_arrays([pa.nulls(len(data))], names=[""]), {})]
        if self._format == "utf8":
            return [_texts(data, columns)]
        return [Decoded(pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], ["data"]), {})]


def _decoder(columns: pa.Schema, settings: RowSettings) -> RowDecoder:
    match settings.payload_format:
        case "json":
            return JsonRows(columns)
        case "cbor":
            return CborRows(columns)
        case "arrow":
            return ArrowRows(columns)
    return FixedRows(columns, settings.byte_order)


def _metadata(payloads: Sequence[Payload] | PackedElements) -> list[bytes | None]:
    if isinstance(payloads, PackedElements):
        return [None] * len(payloads)
    return [payload.metadata for payload in payloads]


def _texts(data: list[bytes], columns: pa.Schema) -> Decoded:
    """Return a column of texts; data that are no UTF-8 are malformed."""
    malformed: dict[int, str] = {}
    texts = pa.array(data, pa.binary())
    try:
        texts = texts.cast(pa.string())
    except pa.ArrowInvalid:
        decoded: list[str | None] = []
        for index, each in enumerate(data):
            try:
                decoded.append(each.decode())
            except UnicodeDecodeError as error:
                malformed[index] = f"it is no UTF-8: {error.reason} at byte {error.start}"
                decoded.append(None)
        texts = pa.array(decoded, pa.string())
    return Decoded(pa.RecordBatch.from_arrays([texts], columns.names), malformed)
