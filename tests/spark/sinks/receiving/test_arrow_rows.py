"""Rows of Arrow IPC are counted without pyarrow, and pyarrow says the same."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import Invalid
from rsocket_trio.spark.sinks.receiving.arrow_rows import count_rows

pa = pytest.importorskip("pyarrow")


def stream(*counts: int, end: bool = True, compression: str | None = None) -> bytes:
    """A stream with a record batch of each number of rows."""
    schema = pa.schema([("number", pa.int64()), ("name", pa.string()), ("ok", pa.bool_())])
    file = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(file, schema, options=options) as writer:
        for count in counts:
            columns = [range(count), [f"n{each}" for each in range(count)], [True] * count]
            writer.write_batch(pa.record_batch([pa.array(each) for each in columns], schema=schema))
    data = file.getvalue().to_pybytes()
    return data if end else data[:-8]


@given(counts=st.lists(st.integers(0, 300), max_size=5), end=st.booleans())
def test_the_count_is_that_of_pyarrow(counts, end):
    """The numbers of rows of all record batches are added."""
    data = stream(*counts, end=end)
    assert count_rows(data) == pa.ipc.open_stream(data).read_all().num_rows == sum(counts)


def test_rows_that_a_few_bytes_can_multiply_are_refused():
    """A compressed column of 12 kB had 400 MB of zeros; a text in a dictionary is used often."""
    for compression in ("lz4", "zstd"):
        with pytest.raises(Invalid, match="compressed: a responder takes plain columns"):
            count_rows(stream(1000, compression=compression))
    rows = pa.record_batch([pa.array(["x"] * 9).dictionary_encode()], names=["v"])
    file = pa.BufferOutputStream()
    with pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_batch(rows)
    with pytest.raises(Invalid, match="dictionaries"):
        count_rows(file.getvalue().to_pybytes())


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\xff\xff\xff\xff", bytes(8), b"\xff\xff\xff\xff" + bytes(4), b"{}" * 20],
    ids=repr,
)
def test_other_bytes_are_refused(data):
    """A payload that is no stream is refused when it arrives, not when it is committed."""
    with pytest.raises(Invalid, match="Arrow"):
        count_rows(data)


def test_cut_streams_are_refused():
    """A stream that ends within a message is refused, at each place."""
    data = stream(3)
    whole = {len(data), len(data) - 8}
    first = 8 + int.from_bytes(data[4:8], "little")
    for size in range(len(data)):
        if size not in whole and size != first:
            with pytest.raises(Invalid):
                count_rows(data[:size])


def test_bytes_behind_the_end_are_refused():
    """A second stream would be lost by readers."""
    with pytest.raises(Invalid, match="follow"):
        count_rows(stream(1) + stream(1))


def test_messages_are_limited():
    """Record batches without rows cost the sender little, and the loop its time."""
    with pytest.raises(Invalid, match="4096 messages"):
        count_rows(stream(*[0] * 5000))


@given(
    place=st.integers(0, 10_000),
    change=st.binary(min_size=1, max_size=8),
)
def test_changed_bytes_give_a_number_or_invalid(place, change):
    """No bytes cause another error."""
    data = bytearray(stream(5, 2))
    place %= len(data)
    data[place : place + len(change)] = change
    with suppress(Invalid):
        assert count_rows(bytes(data)) >= 0


@given(data=st.binary(max_size=100))
def test_any_bytes_give_a_number_or_invalid(data):
    """The same for bytes behind a marker."""
    with suppress(Invalid):
        assert count_rows(b"\xff\xff\xff\xff" + data) >= 0
