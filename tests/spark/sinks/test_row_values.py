"""Rows of Arrow as dicts for CBOR and JSON, as payloads, and as events."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from rsocket_trio.spark.sinks.receiving.arrow_rows import count_rows  # noqa: E402
from rsocket_trio.spark.sinks.row_payloads import PayloadMaker  # noqa: E402

NOON = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)

CASES = [
    # type, value, in CBOR, in JSON
    (pa.int64(), 5, 5, 5),
    (pa.int8(), -5, -5, -5),
    (pa.bool_(), True, True, True),
    (pa.string(), 'é"\n', 'é"\n', 'é"\n'),
    (pa.null(), None, None, None),
    (pa.float64(), 1.5, 1.5, 1.5),
    (pa.float64(), float("inf"), float("inf"), "Infinity"),
    (pa.float32(), float("-inf"), float("-inf"), "-Infinity"),
    (pa.binary(), b"\xff\0", b"\xff\0", "/wA="),
    (pa.decimal128(10, 2), Decimal("1.50"), Decimal("1.50"), "1.50"),
    (pa.date32(), date(2026, 1, 2), date(2026, 1, 2), "2026-01-02"),
    (pa.timestamp("us", "UTC"), NOON, NOON, "2026-01-02T12:00:00.000005Z"),
    (pa.timestamp("us", "Asia/Tokyo"), NOON, NOON, "2026-01-02T12:00:00.000005Z"),
    (
        pa.timestamp("us"),
        NOON.replace(tzinfo=None),
        "2026-01-02T12:00:00.000005",
        "2026-01-02T12:00:00.000005",
    ),
    (pa.list_(pa.int64()), [1, None], [1, None], [1, None]),
    (pa.list_(pa.binary()), [b"\0", None], [b"\0", None], ["AA==", None]),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], {"a": 1}, {"a": 1}),
    (pa.map_(pa.int64(), pa.binary()), [(1, b"\0")], {1: b"\0"}, {"1": "AA=="}),
    (pa.map_(pa.bool_(), pa.int64()), [(True, 1)], {True: 1}, {"true": 1}),
    (
        pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.date32())]))]),
        {"a": 1, "b": {"c": date(2026, 1, 2)}},
        {"a": 1, "b": {"c": date(2026, 1, 2)}},
        {"a": 1, "b": {"c": "2026-01-02"}},
    ),
]


def payload(type_, value, format_: str) -> bytes:
    """The payload of a row with one column."""
    rows = pa.record_batch([pa.array([value], type_)], names=["v"])
    [made] = PayloadMaker(rows.schema, format_, 2**20).payloads(rows)
    return made


@pytest.mark.parametrize(("type_", "value", "in_cbor", "in_json"), CASES, ids=str)
def test_values(type_, value, in_cbor, in_json):
    """Each type of Spark, and null in its place."""
    assert cbor2.loads(payload(type_, value, "cbor")) == {"v": in_cbor}
    assert json.loads(payload(type_, value, "json")) == {"v": in_json}
    for format_, loads in (("cbor", cbor2.loads), ("json", json.loads)):
        assert loads(payload(type_, None, format_)) == {"v": None}


def test_not_a_number():
    """It is text, as in Spark's to_json."""
    assert json.loads(payload(pa.float64(), float("nan"), "json")) == {"v": "NaN"}


def test_the_text_of_json_has_no_spaces():
    """As other programs of this package write it."""
    type_ = pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))])
    found = payload(type_, {"a": "é", "b": [1, 2]}, "json")
    assert found == '{"v":{"a":"é","b":[1,2]}}'.encode()


@pytest.mark.parametrize("format_", ["cbor", "json"])
@pytest.mark.parametrize(
    "type_", [pa.duration("us"), pa.month_day_nano_interval(), pa.time64("us")], ids=str
)
def test_types_that_cannot_be_carried(type_, format_):
    """The error names the column, also inside a struct, and says what to do."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("t", type_)]))])
    with pytest.raises(ValueError, match=r"column s\.t has the type .* cast it"):
        PayloadMaker(schema, format_, 2**20)


@pytest.mark.parametrize("format_", ["cbor", "json"])
def test_values_that_cannot_be_carried(format_):
    """The error names the column and what is wrong with its value."""
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(bytes(4) + b"\x02\0\0\0"), pa.py_buffer(b"\xffa")]
    )
    map_type = pa.map_(pa.string(), pa.int64())
    for column, problem in (
        (text, "can't decode byte"),  # Spark casts any bytes to a string
        (pa.array([2**62], pa.timestamp("us", "UTC")), "out of range"),
        (pa.array([[("k", 1), ("k", 2)]], map_type), "a key twice"),
    ):
        rows = pa.record_batch([column], names=["v"])
        with pytest.raises(ValueError, match=f"column v has a value .*{problem}"):
            PayloadMaker(rows.schema, format_, 2**20).payloads(rows)


@pytest.mark.parametrize("format_", ["cbor", "json"])
def test_maps_with_keys_of_several_parts(format_):
    """A map of CBOR may have such keys, but no dict of Python."""
    for key in (pa.struct([("a", pa.int64())]), pa.list_(pa.int64())):
        schema = pa.schema([("m", pa.map_(key, pa.int64()))])
        with pytest.raises(ValueError, match="column m is a map whose keys are structs"):
            PayloadMaker(schema, format_, 2**20)


@pytest.mark.parametrize("format_", ["cbor", "json"])
def test_a_variant_is_refused(format_):
    """Its two binary parts tell nothing to a receiver."""
    parts = [
        pa.field("value", pa.binary()),
        pa.field("metadata", pa.binary(), metadata={"variant": "true"}),
    ]
    with pytest.raises(ValueError, match=r"column v is a variant.* to_json"):
        PayloadMaker(pa.schema([("v", pa.struct(parts))]), format_, 2**20)
    named = pa.schema([("v", pa.struct([("value", pa.binary()), ("metadata", pa.binary())]))])
    PayloadMaker(named, format_, 2**20)


def test_decimals_in_json_have_no_exponent():
    """Not all readers of numbers know it."""
    for text in ("0.000000000000000000", "0.000000000000000001"):
        found = payload(pa.decimal128(38, 18), Decimal(text), "json")
        assert json.loads(found) == {"v": text}


def test_columns_of_one_name():
    """A map would lose one of them; Arrow does not."""
    rows = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match="two columns a"):
        PayloadMaker(rows.schema, "json", 2**20)
    [made] = PayloadMaker(rows.schema, "arrow", 2**20).payloads(rows)
    assert count_rows(made) == 1


def test_rows_without_columns():
    """Spark has DataFrames without columns."""
    rows = pa.record_batch([pa.array([1, 2])], names=["a"]).select([])
    assert PayloadMaker(rows.schema, "json", 2**20).payloads(rows) == [b"{}", b"{}"]


@given(
    sizes=st.lists(st.integers(0, 5000), max_size=50),
    limit=st.integers(1024, 100_000),
)
def test_payloads_of_arrow(sizes, limit):
    """They have all rows in order, and about the size that is allowed, also with uneven rows."""
    rows = pa.record_batch([pa.array(["x" * size for size in sizes], pa.string())], names=["v"])
    made = PayloadMaker(rows.schema, "arrow", limit).payloads(rows)
    tables = [pa.ipc.open_stream(data).read_all() for data in made]
    assert [len(value.as_py()) for table in tables for value in table["v"]] == sizes
    for data, table in zip(made, tables, strict=True):
        assert count_rows(data) == table.num_rows > 0
        assert len(data) <= 2 * limit or table.num_rows == 1
