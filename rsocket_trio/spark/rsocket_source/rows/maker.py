"""Rows out of the payloads of a stream: `RowMaker`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from .... import Payload
from .arrow_rows import ArrowRows
from .cbor_rows import CborRows
from .decoded import Decoded, RowDecoder
from .json_rows import JsonRows
from .layout import Layout
from .settings import RowSettings

__all__ = ["REQUEST_FACTS", "SPOOL_FACTS", "RowMaker"]

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
_DECODERS: Final[dict[str, Callable[[pa.Schema], RowDecoder]]] = {
    "json": JsonRows,
    "cbor": CborRows,
    "arrow": ArrowRows,
}


class RowMaker:
    """Makes rows out of payloads.

    Args:
        settings: The format of the payloads, and what happens to malformed elements.
        schema: The columns that Spark wants, exactly.
        facts: `REQUEST_FACTS` or `SPOOL_FACTS`.

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
        if payload_format in _DECODERS:
            reserved = {"_data": pa.binary()} | {f"_{name}": kind for name, kind in facts.items()}
            self._layout = Layout(schema, reserved, mode=mode, corrupt=corrupt)
            if len(self._layout.decoded):
                self._decoder = _DECODERS[payload_format](self._layout.decoded)
            return
        self._layout = Layout(schema, facts, mode=mode, corrupt=corrupt)
        data = pa.string() if payload_format == "utf8" else pa.binary()
        for field in self._layout.decoded:
            if field.name != "data" or field.type != data:
                raise ValueError(
                    f"payloadFormat={payload_format} has the columns data ({data}), "
                    f"{', '.join(f'{name} ({kind})' for name, kind in facts.items())}: there is no "
                    f"column {field.name} ({field.type}). To decode elements into columns, choose "
                    "payloadFormat json, cbor or arrow"
                )

    def rows(
        self, payloads: Sequence[Payload], offset: int, **facts: int | str | datetime
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of elements in order.

        Args:
            payloads: The elements.
            offset: The offset of the first one.
            **facts: Facts that are the same for all of them, the place of the offset first.

        Raises:
            MalformedElement: One is malformed, and the mode is FAILFAST.
        """
        data = [payload.data for payload in payloads]
        count = len(data)

        def column(name: str) -> pa.Array:
            name = name.removeprefix("_")
            match name:
                case "data":
                    return pa.array(data, pa.binary())
                case "metadata":
                    return pa.array([payload.metadata for payload in payloads], pa.binary())
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

    def _decoded(self, data: list[bytes]) -> Iterable[Decoded]:
        if self._decoder is not None:
            return self._decoder.decode(data)
        columns = self._layout.decoded
        if not len(columns):
            # Facts only. A batch without columns has no length, so it has a column of nulls.
            return [Decoded(pa.RecordBatch.from_arrays([pa.nulls(len(data))], names=[""]), {})]
        if self._format == "utf8":
            return [_texts(data, columns)]
        return [Decoded(pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], ["data"]), {})]


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
