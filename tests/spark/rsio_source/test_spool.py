"""Streams of ``format("rsio")``: what a publisher sends is stored first, and read by offset."""

from __future__ import annotations

import struct
import time

import pytest
from pyspark.sql.types import StructType

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import from_iterable
from rsocket_trio.spark.rsio_source.rsio_source import RsioDataSource
from tests.spark.engine import Checkpoint, Query
from tests.waiting import PATIENCE

RECORDS = StructType().add("id", "long").add("price", "double").add("_offset", "long")


def run_until(running: Query, rows: int) -> None:
    end = time.monotonic() + PATIENCE
    while len(running.checkpoint.rows) < rows:
        running.trigger()
        assert time.monotonic() < end, f"{len(running.checkpoint.rows)} rows only"


@pytest.mark.parametrize("fixed", [False, True])
def test_elements_are_stored_and_read(publishing, tmp_path, fixed):
    """Each once for a checkpoint, in order."""
    count = 5000
    elements = [struct.pack(">qd", number, number / 2) for number in range(count)]
    source = rsio.fixed_size(elements, 16) if fixed else from_iterable(elements)
    options = {
        "uri": publishing({"prices": source}),
        "publisher": "prices",
        "payloadFormat": "fixed",
        "spool": str(tmp_path / "spool"),
        "pollTimeoutMs": "50",
    }
    checkpoint = Checkpoint()
    running = Query(RsioDataSource, options, checkpoint, schema=RECORDS)
    run_until(running, count)
    running.stop(handler=True)
    assert [(row["_offset"], row["id"], row["price"]) for row in checkpoint.rows] == [
        (n, n, n / 2) for n in range(count)
    ]
