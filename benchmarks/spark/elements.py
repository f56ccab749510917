"""The elements of the ``format("rsocket")`` cases, in each format of payloads."""

from __future__ import annotations

import io
import json
import random
from typing import Final

import cbor2
import pyarrow as pa

FORMATS: Final = ("binary", "utf8", "json", "cbor", "arrow")

SCHEMA: Final = "number BIGINT, name STRING, share DOUBLE, note STRING"
"""The columns of elements in JSON, CBOR and Arrow."""

ROWS_OF_ARROW: Final = 4096
"""Rows of an element in Arrow. All other elements have one row."""

_COUNT: Final = 32 * ROWS_OF_ARROW
_NOTE: Final = 64


def make_rows(count: int = _COUNT) -> list[dict[str, object]]:
    """Return rows of about 128 bytes as JSON."""
    rng = random.Random(2)
    return [
        {
            "number": rng.getrandbits(40),
            "name": f"host-{rng.randrange(1000):03}",
            "share": round(rng.random(), 6),
            "note": rng.randbytes(_NOTE // 2).hex(),
        }
        for _ in range(count)
    ]


def rows_of(name: str) -> int:
    """Return the rows of an element."""
    return ROWS_OF_ARROW if name == "arrow" else 1


def make_elements(name: str) -> list[bytes]:
    """Return the elements in a format. They have 131072 rows."""
    rows = make_rows()
    if name == "arrow":
        return [
            _as_stream(pa.RecordBatch.from_pylist(rows[start : start + ROWS_OF_ARROW]))
            for start in range(0, len(rows), ROWS_OF_ARROW)
        ]
    if name == "cbor":
        return [cbor2.dumps(row) for row in rows]
    return [json.dumps(row, separators=(",", ":")).encode() for row in rows]


def _as_stream(batch: pa.RecordBatch) -> bytes:
    data = io.BytesIO()
    with pa.ipc.new_stream(data, batch.schema) as writer:
        writer.write_batch(batch)
    return data.getvalue()
