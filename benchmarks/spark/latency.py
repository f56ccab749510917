"""How long events took into a Parquet table that Spark's file sink has written: `latencies`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["Latencies", "latencies"]


@attrs.frozen
class Latencies:
    """The latencies of rows, in seconds.

    Attributes:
        rows: Their number.
        p50: The median.
        p99: 99 of 100 are smaller.
    """

    rows: int
    p50: float
    p99: float


def committed_files(table: Path) -> Iterator[tuple[Path, int]]:
    """Iterate over the files of a table, each with the time when its batch was committed.

    The sink writes the names of a batch's files to a file of its log, under another name, and
    renames it. With that they belong to the table. The rename sets the time of the last change
    (ctime).

    Yields:
        The file, and the time in microseconds.
    """
    seen = set()
    log = [path for path in (table / "_spark_metadata").iterdir() if path.name[0].isdigit()]
    for path in sorted(log, key=lambda path: int(path.stem)):
        committed = path.stat().st_ctime_ns // 1000
        for line in path.read_text().splitlines()[1:]:  # The first one is the version.
            file = Path(unquote(urlparse(json.loads(line)["path"]).path))
            if file not in seen:  # A compacted file has those of the batches before, too.
                seen.add(file)
                yield file, committed


def latencies(table: Path, begun: float) -> Latencies:
    """Return the latencies of the events that were made after a time.

    Args:
        table: The table. Its column ``sent`` has the time of each event, in microseconds.
        begun: The time, in seconds.
    """
    found = []
    for file, committed in committed_files(table):
        sent = pq.read_table(file, columns=["sent"]).column(0)
        sent = sent.filter(pc.greater_equal(sent, int(begun * 1e6)))
        found += pc.subtract(pa.scalar(committed, pa.int64()), sent).chunks
    values = pa.chunked_array(found, pa.int64())
    if not len(values):
        raise AssertionError("no event is in the table")
    p50, p99 = pc.quantile(values, q=[0.5, 0.99]).to_pylist()
    return Latencies(len(values), p50 / 1e6, p99 / 1e6)
