"""Stored batches to the record batches that Spark reads."""

from __future__ import annotations

import datetime as dt
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from rsocket_trio.collector import payloads_to_store
from rsocket_trio.lumberjack import encode_pairs
from rsocket_trio.metadata import CompositeMetadata, MetadataEntry
from rsocket_trio.payload import Payload
from rsocket_trio.spark.columns import (
    MalformedEvent,
    default_layout,
    default_schema,
    layout_for,
    record_batches,
    rows,
)
from rsocket_trio.spool import StoredBatch
from tests.spark.collectors import json_lines, received

ALL = (
    StructType()
    .add("n", LongType())
    .add("_collector", StringType(), nullable=False)
    .add("_offset", LongType(), nullable=False)
    .add("_received_at", TimestampType())
    .add("_remote", StringType())
    .add("_raw", BinaryType())
    .add("_corrupt_record", StringType())
)


def stored_one_after_another(batches, skip=0, leave=0):
    """They have the offsets from 10 on; the first and the last are cut."""
    found, first = [], 10
    for batch in batches:
        found.append(
            StoredBatch(
                first=first,
                count=batch.count,
                start=first,
                stop=first + batch.count,
                data=bytes(batch.data),
                encoding=batch.encoding,
                facts=batch.facts,
                stored_at=first + 0.25,
            )
        )
        first += batch.count
    found[0] = attrs.evolve(found[0], start=found[0].start + skip)
    found[-1] = attrs.evolve(found[-1], stop=found[-1].stop - leave)
    return found


def read(batches, layout, **cuts):
    stored = stored_one_after_another(batches, **cuts)
    found = list(record_batches(stored, layout, collector="here"))
    for batch in found:
        assert batch.schema == layout.schema
        batch.validate(full=True)
    return [row for batch in found for row in batch.to_pylist()]


def user_layout(schema=ALL, mode="PERMISSIVE"):
    return layout_for(schema, mode=mode, corrupt_column="_corrupt_record")


def test_the_default_columns():
    layout = default_layout(default_schema(include_raw=True))
    batches = [received([b"1", b"2"]), json_lines([b"3"])]
    assert read(batches, layout, skip=1) == [
        {"collector": "here", "offset": 11, "value": "2", "raw": b"2",
         "received_at": dt.datetime(1970, 1, 1, 0, 0, 10, 250_000, tzinfo=dt.UTC),
         "remote": "192.0.2.1:4711"},
        {"collector": "here", "offset": 12, "value": "3", "raw": b"3",
         "received_at": dt.datetime(1970, 1, 1, 0, 0, 12, 250_000, tzinfo=dt.UTC),
         "remote": "192.0.2.1:4711"},
    ]  # fmt: skip


def test_bytes_that_are_not_utf8():
    """They are replaced in the text, and kept in the raw column."""
    layout = default_layout(default_schema(include_raw=True))
    [row] = read([received([b'"caf\xe9"'])], layout)
    assert (row["value"], row["raw"]) == ('"caf\ufffd"', b'"caf\xe9"')


def test_other_encodings():
    layout = default_layout(default_schema(include_raw=True))
    pairs = encode_pairs([(b"a", b"1")])
    payloads = payloads_to_store([Payload(b"data", b"metadata")], mime_type="text/plain")
    rows = read([received([pairs], version=1), payloads], layout)
    assert [(row["value"], row["raw"]) for row in rows] == [('{"a":"1"}', pairs), ("data", b"data")]
    assert [row["remote"] for row in rows] == ["192.0.2.1:4711", None]


def test_metadata():
    """The facts of a batch, and what each payload has."""
    kept = CompositeMetadata([MetadataEntry("text/plain", b"blue")]).encode()
    batches = [
        received([b"1", b"2"]),
        payloads_to_store(
            [Payload(b"a"), Payload(b"b", b"\xff"), Payload(b"c", kept), Payload(b"d")],
            mime_type="text/csv",
            facts={"route": "events"},
        ),
    ]
    sender = [("version", b"2"), ("peer", b"192.0.2.1:4711")]
    facts = [("route", b"events"), ("mime", b"text/csv")]
    wanted = [
        sender,
        facts,
        [*facts, ("metadata", b"\xff")],
        [*facts, ("text/plain", b"blue")],
    ]
    default = default_layout(default_schema(include_raw=False, include_metadata=True))
    assert [each["metadata"] for each in read(batches, default, skip=1, leave=1)] == wanted
    # The sender of an event cannot say that it is another one.
    forged = CompositeMetadata([MetadataEntry("peer", b"10.0.0.1")]).encode()
    batch = payloads_to_store(
        [Payload(b"a", forged)], mime_type="text/csv", facts={"peer": "192.0.2.1"}
    )
    [row] = read([batch], default)
    assert dict(row["metadata"])["peer"] == b"192.0.2.1"
    own = user_layout(StructType().add("_metadata", MapType(StringType(), BinaryType())))
    assert [each["_metadata"] for each in read(batches, own, skip=1, leave=1)] == wanted


def test_metadata_count_in_the_size():
    """Small events with large metadata are not joined until the memory is full."""
    each = Payload(b"1", bytes(rows.ENOUGH_BYTES))
    batches = [payloads_to_store([each], mime_type="text/csv") for _ in range(2)]
    columns = default_layout(default_schema(include_raw=False))
    stored = stored_one_after_another(batches)
    assert [each.num_rows for each in record_batches(stored, columns, collector="here")] == [1, 1]


@pytest.mark.parametrize("layout", ["text", "JSON"])
def test_small_batches_of_large_events_are_not_joined(layout):
    """Their size counts after inflation: a few kilobytes of a sender can be gigabytes."""
    columns = default_layout(default_schema(include_raw=False))
    if layout == "JSON":
        columns = user_layout(StructType().add("n", StringType()))
    batch = received([b'{"n":"%s"}' % (b"x" * rows.ENOUGH_BYTES)], level=9)
    assert len(batch.data) < rows.ENOUGH_BYTES / 500
    taken = []

    def give():
        for each in stored_one_after_another([batch] * 3):
            taken.append(each)
            yield each

    found = record_batches(give(), columns, collector="here")
    assert [(next(found).num_rows, len(taken)) for _ in range(3)] == [(1, 1), (1, 2), (1, 3)]


def test_a_schema_with_reserved_columns():
    [good, bad] = read([received([b'{"n":5}', b'{"n":"5"}'])], user_layout())
    assert good == {
        "n": 5, "_collector": "here", "_offset": 10, "_remote": "192.0.2.1:4711",
        "_received_at": dt.datetime(1970, 1, 1, 0, 0, 10, 250_000, tzinfo=dt.UTC),
        "_raw": b'{"n":5}', "_corrupt_record": None,
    }  # fmt: skip
    assert bad == {**good, "n": None, "_offset": 11, "_raw": b'{"n":"5"}',
                   "_corrupt_record": '{"n":"5"}'}  # fmt: skip


event = st.one_of(
    st.integers(0, 99).map(lambda n: (b'{"n":%d}' % n, n)),
    st.sampled_from([(b"x", None), (b'{"n":"x"}', None), (b"{}{}", None), (b'{"n":\n7}', 7)]),
)
batch = st.lists(event, min_size=1, max_size=5)
makers = st.sampled_from([
    lambda texts: received(texts),
    lambda texts: received(texts, level=0),
    lambda texts: payloads_to_store([Payload(t) for t in texts], mime_type="text/plain"),
])  # fmt: skip


@given(st.data(), st.lists(batch, min_size=1, max_size=5),
       st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]))  # fmt: skip
def test_each_event_has_its_row(data, events, mode):
    """Count, order and offsets are exact, with malformed events anywhere."""
    batches = [data.draw(makers)([text for text, _ in each]) for each in events]
    skip = data.draw(st.integers(0, len(events[0]) - 1))
    leave = data.draw(st.integers(0, len(events[-1]) - 1 - (skip if len(events) == 1 else 0)))
    flat = [pair for each in events for pair in each]
    wanted = [(10 + n, *pair) for n, pair in enumerate(flat)][skip : len(flat) - leave]
    if mode == "DROPMALFORMED":
        wanted = [each for each in wanted if each[2] is not None]
    rows = read(batches, user_layout(mode=mode), skip=skip, leave=leave)
    assert [(row["_offset"], row["_raw"], row["n"]) for row in rows] == wanted
    for row in rows:
        corrupt = row["_raw"].decode() if row["n"] is None else None
        assert row["_corrupt_record"] == corrupt


def test_failfast_names_the_event():
    """And not its contents."""
    layout = user_layout(mode="FAILFAST")
    assert [row["n"] for row in read([received([b'{"n":1}'])], layout)] == [1]
    with pytest.raises(MalformedEvent, match="at offset 12 of the collector here") as caught:
        read([received([b'{"n":1}', b'{"n":2}']), received([b"secret"])], layout)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b'{"n":1, "s": 5, "t": "secret"}', "it has no value of the type of the column s, t;"),
        (b'{"n":"secret"}', "it has no value of the type of the column n;"),
        (b"secret", "it is not one JSON object in UTF-8;"),
        (b'{"u": "secret\xff"}', "it is not one JSON object in UTF-8;"),
    ],
)
def test_failfast_names_the_columns(event, reason):
    """A schema has many columns, and the user has to know which one is wrong."""
    schema = StructType().add("n", LongType()).add("s", StringType()).add("t", LongType())
    with pytest.raises(MalformedEvent, match=f"does not fit to the schema: {reason}") as caught:
        read([received([b'{"n":1}', event])], user_layout(schema, mode="FAILFAST"))
    assert "secret" not in str(caught.value)


def test_a_schema_of_reserved_columns_only(monkeypatch):
    """No event is decoded."""
    layout = user_layout(StructType().add("_offset", LongType()))
    assert read([received([b"x", b"y"])], layout) == [{"_offset": 10}, {"_offset": 11}]


def test_only_the_corrupt_column():
    layout = user_layout(StructType().add("_corrupt_record", StringType()))
    assert read([received([b"x", b"{}"])], layout) == [
        {"_corrupt_record": "x"}, {"_corrupt_record": None},
    ]  # fmt: skip


def test_all_malformed():
    layout = user_layout(mode="DROPMALFORMED")
    assert read([received([b"x"]), received([b"y", b"z"])], layout) == []


def test_small_batches_are_joined_and_large_ones_cut(monkeypatch):
    layout = default_layout(default_schema(include_raw=False))
    stored = stored_one_after_another([json_lines([b"%d" % n]) for n in range(25_000)])
    found = list(record_batches(stored, layout, collector="here"))
    assert [batch.num_rows for batch in found] == [10_000, 10_000, 5_000]
    monkeypatch.setattr(rows, "MOST_BYTES", 1000)
    found = list(record_batches(stored[:100], layout, collector="here"))
    assert len(found) > 3
    offsets = [row["offset"] for batch in found for row in batch.to_pylist()]
    assert offsets == list(range(10, 110))


def test_events_that_were_lost_between_batches():
    """The offsets are those of the events that are there."""
    layout = default_layout(default_schema(include_raw=False))
    stored = stored_one_after_another([json_lines([b"1", b"2"]) for _ in range(3)])
    found = pa.Table.from_batches(
        record_batches([stored[0], stored[2]], layout, collector="here")
    ).to_pylist()
    assert [row["offset"] for row in found] == [10, 11, 14, 15]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (("_offset", IntegerType()), "_offset is reserved and has the type bigint, not int"),
        (("_corrupt_record", LongType()), "_corrupt_record is reserved and has the type string"),
        (("a", BinaryType()), "a has the type binary, which is not decoded"),
        (("a", ArrayType(BinaryType())), r"a\[\] has the type binary"),
        (("a", MapType(LongType(), LongType())), "keys of the map a must be strings"),
        (("a", MapType(StringType(), DecimalType(5, 2))), r"a\{\} .* in a column with a map"),
        (("a", LongType(), False), "a must be nullable"),
        (("a", StructType().add("b", LongType(), nullable=False)), "a.b must be nullable"),
        (("a", ArrayType(LongType(), containsNull=False)), r"a\[\] must be nullable"),
        (("_remote", StringType(), False), "_remote must be nullable"),
        (("a", StructType().add("b", LongType()).add("b", LongType())), "a.b is there twice"),
        (("a", ArrayType(StructType().add("b", LongType()).add("b", LongType()))), "a.b is there"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_read(field, text):
    with pytest.raises(ValueError, match=text):
        user_layout(StructType().add(*field))


def test_a_schema_without_columns():
    """Arrow does not count the rows of such a batch, so there would be none."""
    with pytest.raises(ValueError, match="the schema has no columns"):
        user_layout(StructType())
    with pytest.raises(ValueError, match="n is there twice"):
        user_layout(StructType().add("n", LongType()).add("n", LongType()))


def test_json_text_of_all_events_is_one_buffer(monkeypatch):
    """The default path with a schema makes no object for an event."""
    from rsocket_trio.spark.columns import chunk, splitting

    monkeypatch.setattr(splitting, "_slow", None)
    monkeypatch.setattr(chunk, "decode_events", None)
    texts = [json.dumps({"n": n}).encode() for n in range(3000)]
    for level in (0, 3):
        assert [row["n"] for row in read([received(texts, level=level)], user_layout())] == list(
            range(3000)
        )
