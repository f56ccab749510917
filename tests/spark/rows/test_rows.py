"""Payloads become rows of exactly the types that Spark wants, by format and by mode."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import cbor2
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio import Payload
from rsocket_trio.spark.rows.decoded import MalformedElement
from rsocket_trio.spark.rows.maker import REQUEST_FACTS, RowMaker
from rsocket_trio.spark.rows.settings import RowSettings

MODES = ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("_offset", pa.int64())])


def rows(payload_format, schema, elements, mode="PERMISSIVE", corrupt="_corrupt_record"):
    """The rows of elements of partition 3, from offset 7 on."""
    maker = RowMaker(RowSettings(payload_format, mode, corrupt), schema, REQUEST_FACTS)
    payloads = [each if isinstance(each, Payload) else Payload(each) for each in elements]
    batches = list(maker.rows(payloads, 7, partition=3))
    for batch in batches:
        assert batch.schema == schema
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def ipc(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(("payload_format", "data"), [("binary", b"\xff"), ("utf8", "é".encode())])
def test_plain_formats_have_facts_beside_the_data(payload_format, data):
    """Data and metadata as they came, with partition and offset."""
    kind = pa.binary() if payload_format == "binary" else pa.string()
    schema = pa.schema(
        [
            ("data", kind),
            ("metadata", pa.binary()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
        ]
    )
    text = data if payload_format == "binary" else data.decode()
    assert rows(payload_format, schema, [Payload(data, b"m"), Payload(b"")]) == [
        {"data": text, "metadata": b"m", "partition": 3, "offset": 7},
        {"data": text[:0], "metadata": None, "partition": 3, "offset": 8},
    ]


def test_a_schema_may_have_some_of_the_columns_in_any_order():
    """Only facts, too: then the data are not read."""
    schema = pa.schema([("offset", pa.int64()), ("partition", pa.int32())])
    assert rows("utf8", schema, [b"\xff"]) == [{"offset": 7, "partition": 3}]
    schema = pa.schema([("_offset", pa.int64())])
    assert rows("json", schema, [b"no JSON", b"{}"]) == [{"_offset": 7}, {"_offset": 8}]


def test_text_that_is_no_utf8_is_malformed():
    """The other elements are rows."""
    schema = pa.schema([("data", pa.string()), ("_corrupt_record", pa.binary())])
    assert rows("utf8", schema, [b"a", b"\xff", b"c"]) == [
        {"data": "a", "_corrupt_record": None},
        {"data": None, "_corrupt_record": b"\xff"},
        {"data": "c", "_corrupt_record": None},
    ]


def encoded(payload_format, *elements):
    """Elements of these maps. Arrow has a stream for each."""
    if payload_format == "json":
        return [json.dumps(each).encode() for each in elements]
    if payload_format == "cbor":
        return [cbor2.dumps(each) for each in elements]
    return [ipc(pa.RecordBatch.from_pylist([each])) for each in elements]


@pytest.mark.parametrize("payload_format", ["json", "cbor", "arrow"])
@pytest.mark.parametrize("count", [1, 100])
def test_elements_become_columns(payload_format, count):
    """Columns of the schema, facts about the element; other keys are ignored."""
    elements = encoded(
        payload_format, *({"id": n, "name": str(n), "other": 1.5} for n in range(count))
    )
    assert rows(payload_format, COLUMNS, elements) == [
        {"id": n, "name": str(n), "_offset": 7 + n} for n in range(count)
    ]


@pytest.mark.parametrize("payload_format", ["json", "cbor", "arrow"])
@pytest.mark.parametrize("bad", [b"", b"\xff\x00", b"nothing"])
def test_malformed_elements_by_mode(payload_format, bad):
    """They are rows of nulls, are left out, or are an error that names the element."""
    one, two = encoded(payload_format, {"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    schema = COLUMNS.append(pa.field("_corrupt_record", pa.string()))
    text = bad.hex() if bad == b"\xff\x00" else bad.decode()
    first = {"id": 1, "name": "a", "_offset": 7, "_corrupt_record": None}
    last = {"id": 2, "name": "b", "_offset": 9, "_corrupt_record": None}
    wrong = {"id": None, "name": None, "_offset": 8, "_corrupt_record": text}
    elements = [one, bad, two]
    assert rows(payload_format, schema, elements) == [first, wrong, last]
    assert rows(payload_format, schema, elements, "DROPMALFORMED") == [first, last]
    with pytest.raises(MalformedElement, match="the offset 8 of partition 3"):
        rows(payload_format, schema, elements, "FAILFAST")


@pytest.mark.parametrize("payload_format", ["json", "cbor", "arrow"])
@pytest.mark.parametrize("mode", MODES)
def test_chunks_with_malformed_elements_only(payload_format, mode):
    """No row is good."""
    if mode == "FAILFAST":
        with pytest.raises(MalformedElement):
            rows(payload_format, COLUMNS, [b"!"] * 3, mode)
    else:
        found = rows(payload_format, COLUMNS, [b"!"] * 3, mode)
        assert [row["id"] for row in found] == ([None] * 3 if mode == "PERMISSIVE" else [])


@pytest.mark.parametrize("payload_format", ["json", "cbor"])
def test_a_missing_column_is_null(payload_format):
    """A column that must not be null makes the element malformed."""
    assert rows(payload_format, COLUMNS, encoded(payload_format, {"id": 1})) == [
        {"id": 1, "name": None, "_offset": 7}
    ]
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    elements = encoded(payload_format, {"id": 1}, {"name": "a"}, {"id": 3})
    found = rows(payload_format, strict, elements, "DROPMALFORMED")
    assert found == [{"id": 1}, {"id": 3}]
    with pytest.raises(MalformedElement, match="id is missing"):
        rows(payload_format, strict, elements, "FAILFAST")
    with pytest.raises(ValueError, match="mode=PERMISSIVE"):
        rows(payload_format, strict, elements)


CBOR_VALUES = [
    (pa.int64(), 2**40, 2**40),
    (pa.float64(), 3, 3.0),
    (pa.float64(), 1.5, 1.5),
    (pa.bool_(), True, True),
    (pa.string(), "é", "é"),
    (pa.string(), 5, "5"),
    (pa.string(), {"a": [1]}, '{"a":[1]}'),
    (pa.string(), {"a": [float("nan"), {"b": float("-inf")}]}, '{"a":["NaN",{"b":"-Infinity"}]}'),
    (pa.string(), float("inf"), "Infinity"),
    (pa.float32(), float("inf"), float("inf")),
    (pa.float64(), Decimal("-Infinity"), float("-inf")),
    (pa.list_(pa.float64()), [Decimal("1.5"), 3], [1.5, 3.0]),
    (pa.binary(), b"\xff", b"\xff"),
    (pa.decimal128(10, 2), Decimal("1.25"), Decimal("1.25")),
    (pa.decimal128(10, 2), 1.5, Decimal("1.50")),
    (
        pa.timestamp("us", "UTC"),
        datetime(2026, 1, 2, 3, tzinfo=UTC),
        datetime(2026, 1, 2, 3, tzinfo=UTC),
    ),
    (pa.timestamp("us", "UTC"), "2026-01-02T03:00:00Z", datetime(2026, 1, 2, 3, tzinfo=UTC)),
    (
        pa.timestamp("us", "UTC"),
        "2026-01-02T03:00:00.123456789Z",
        datetime(2026, 1, 2, 3, 0, 0, 123456, tzinfo=UTC),
    ),
    (pa.date32(), "2026-01-02", date(2026, 1, 2)),
    (pa.list_(pa.int32()), [1, None], [1, None]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1}, {"a": 1, "b": None}),
    (pa.map_(pa.string(), pa.int64()), {"k": 1}, [("k", 1)]),
]


@pytest.mark.parametrize(("kind", "value", "expected"), CBOR_VALUES, ids=str)
def test_values_of_cbor(kind, value, expected):
    """Each type of Spark takes the values of CBOR that mean it."""
    schema = pa.schema([("x", kind)])
    assert rows("cbor", schema, [cbor2.dumps({"x": value})], "FAILFAST") == [{"x": expected}]


MISFITS = [
    (pa.int64(), 1.5),
    (pa.int64(), 1.0),
    (pa.int64(), True),
    (pa.int64(), "1"),
    (pa.int32(), 2**31),
    (pa.int64(), 2**63),
    (pa.bool_(), 1),
    (pa.float64(), "1"),
    (pa.float64(), 10**400),
    (pa.float64(), Decimal("1e400")),
    (pa.float32(), 1e39),
    (pa.float32(), -(10**39)),
    (pa.list_(pa.float32()), [1e39]),
    (pa.binary(), "text"),
    (pa.string(), b"\xff"),
    (pa.decimal128(10, 2), Decimal("1.234")),
    (pa.decimal128(4, 2), Decimal(100)),
    (pa.decimal128(4, 2), "much"),
    (pa.timestamp("us", "UTC"), 5),
    (pa.timestamp("us", "UTC"), "yesterday"),
    (pa.date32(), 5),
    (pa.list_(pa.int32()), 1),
    (pa.list_(pa.int32()), [1.5]),
    (pa.list_(pa.field("element", pa.int32(), nullable=False)), [None]),
    (pa.struct([("a", pa.int64())]), {"a": "x"}),
    (pa.struct([("a", pa.int64())]), [1]),
    (pa.map_(pa.string(), pa.int64()), {"k": "x"}),
    (pa.map_(pa.string(), pa.int64()), {None: 1}),
]


@pytest.mark.parametrize(("kind", "value"), MISFITS, ids=str)
def test_values_of_cbor_that_do_not_fit(kind, value):
    """They are malformed. No value is cut, and the elements beside them are not lost."""
    schema = pa.schema([("n", pa.int64()), ("x", kind)])
    elements = [cbor2.dumps({"n": 1}), cbor2.dumps({"n": 2, "x": value}), cbor2.dumps({"n": 3})]
    assert [row["n"] for row in rows("cbor", schema, elements)] == [1, None, 3]
    with pytest.raises(MalformedElement, match="the offset 8 of"):
        rows("cbor", schema, elements, "FAILFAST")


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), values), max_size=8))
@example([{"b": 2**53 + 1}])
def test_any_maps_in_cbor(elements):
    """A value is as it was, or its element is malformed. An element does not depend on others.

    A whole number in a DOUBLE column is the nearest number of this type, as in JSON.
    """
    schema = pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.float64()),
            ("c", pa.string()),
            ("d", pa.binary()),
            ("_offset", pa.int64()),
        ]
    )
    data = [cbor2.dumps(each) for each in elements]
    found = rows("cbor", schema, data, "DROPMALFORMED") if data else []
    alone = [
        row | {"_offset": 7 + index}
        for index, each in enumerate(data)
        for row in rows("cbor", schema, [each], "DROPMALFORMED")
    ]
    assert repr(found) == repr(alone)
    for row in found:
        element = elements[row["_offset"] - 7]
        for name in "abd":
            value = element.get(name)
            if name == "b" and type(value) is int:
                value = float(value)
            assert row[name] == value or row[name] != row[name]  # NaN
        assert not isinstance(element.get("c"), str) or row["c"] == element["c"]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
@pytest.mark.parametrize("payload_format", ["json", "cbor", "arrow"])
def test_any_bytes(payload_format, elements):
    """Each element has a row at least, and there is no other error."""
    found = rows(payload_format, COLUMNS, elements)
    assert {row["_offset"] for row in found} <= set(range(7, 7 + len(elements)))


def test_an_element_of_arrow_has_any_number_of_rows():
    """Rows have the offset of their element. Types are cast where nothing is lost."""
    small = pa.RecordBatch.from_arrays(
        [pa.array([1, 2], pa.int16()), pa.array(["a", "b"])], ["id", "name"]
    )
    none = small.slice(0, 0)
    elements = [ipc(small, small), ipc(none), ipc(none, small)]
    found = rows("arrow", COLUMNS, elements)
    assert [(row["id"], row["_offset"]) for row in found] == [
        (1, 7), (2, 7), (1, 7), (2, 7), (1, 9), (2, 9),
    ]  # fmt: skip
    assert rows("arrow", COLUMNS, [ipc(none)]) == []


def test_arrow_that_would_lose_something_is_malformed():
    """A number that is too large, a fraction, a missing column, nulls where none may be."""
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False)])
    for array in [
        pa.array([2**40]),
        pa.array([1.5]),
        pa.array(["x"]),
        pa.array([None], pa.int32()),
    ]:
        batch = pa.RecordBatch.from_arrays([array], ["id"])
        assert rows("arrow", schema, [ipc(batch)], "DROPMALFORMED") == []
    batch = pa.RecordBatch.from_arrays([pa.array([1])], ["other"])
    with pytest.raises(MalformedElement, match="no column id"):
        rows("arrow", schema, [ipc(batch)], "FAILFAST")


def test_offsets_inside_arrow_are_checked():
    """A text that would lie outside of the data of the element is not followed."""
    batch = pa.RecordBatch.from_arrays([pa.array(["abc", "def"])], ["name"])
    data = ipc(batch)
    offsets = (0).to_bytes(4, "little") + (3).to_bytes(4, "little") + (6).to_bytes(4, "little")
    assert data.count(offsets) == 1
    evil = data.replace(offsets, offsets[:8] + (2**30).to_bytes(4, "little"))
    schema = pa.schema([("name", pa.string())])
    assert rows("arrow", schema, [evil, data]) == [{"name": None}, {"name": "abc"}, {"name": "def"}]


def test_dictionaries_of_arrow_are_texts():
    """Spark has no dictionaries."""
    array = pa.array(["a", "b", "a"]).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([array], ["name"])
    schema = pa.schema([("name", pa.string())])
    assert [row["name"] for row in rows("arrow", schema, [ipc(batch)])] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("payload_format", "schema", "message"),
    [
        ("binary", [("data", pa.string())], "there is no column data"),
        ("utf8", [("id", pa.int64())], "choose payloadFormat json"),
        ("json", [("_offset", pa.int32())], "the column _offset is reserved"),
        ("cbor", [("x", pa.duration("us"))], "the type of the column x"),
        ("cbor", [("x", pa.list_(pa.duration("us")))], r"the type of the column x\[\]"),
        ("json", [("_corrupt_record", pa.int64())], "must be a string"),
        ("json", [("x", pa.binary())], "is not decoded from JSON"),
        ("json", [("x", pa.struct([pa.field("a", pa.int8(), nullable=False)]))], "x.a must be"),
    ],
)
def test_schemas_that_do_not_fit(payload_format, schema, message):
    """They are an error before anything is read."""
    with pytest.raises(ValueError, match=message):
        RowMaker(
            RowSettings(payload_format, "PERMISSIVE", "_corrupt_record"),
            pa.schema(schema),
            REQUEST_FACTS,
        )


def strings(values):
    return pa.record_batch({"id": [1] * len(values), "name": values})


LONG = pa.array(["x" * 2**20])
SHARED = [
    pa.DictionaryArray.from_arrays(pa.array([0] * 2**10, pa.int16()), LONG),
    pa.Array.from_buffers(
        pa.string_view(),
        2**10,
        [None, pa.py_buffer(LONG.cast(pa.string_view()).buffers()[1].to_pybytes()[:16] * 2**10),
         *LONG.cast(pa.string_view()).buffers()[2:]],
    ),
]  # fmt: skip
SHARED_COLUMNS = pa.schema([("name", pa.string()), ("_corrupt_record", pa.binary())])


@pytest.mark.parametrize("values", SHARED, ids=["dictionary", "views"])
def test_arrow_rows_that_share_a_large_text(values):
    """A megabyte would become a gigabyte, as each row gets the text: it is malformed."""
    good = ipc(strings(values.slice(0, 2)))
    before = pa.default_memory_pool().max_memory()
    found = rows("arrow", SHARED_COLUMNS, [ipc(strings(values)), good])
    assert pa.default_memory_pool().max_memory() - before < 2**28
    assert [row["name"] and len(row["name"]) for row in found] == [None, 2**20, 2**20]


@pytest.mark.parametrize(
    "column",
    [
        pa.nulls(2**24 + 1),
        pa.ListArray.from_arrays(pa.array([0, 2**24 + 1], pa.int32()), pa.nulls(2**24 + 1)),
        pa.StructArray.from_arrays([pa.nulls(2**24 + 1)], ["a"]),
        pa.RunEndEncodedArray.from_arrays(pa.array([2**24 + 1]), pa.array([1])),
        pa.ListViewArray.from_arrays(
            pa.array([0] * 100, pa.int32()), pa.array([100] * 100, pa.int32()), pa.array([1] * 100)
        ),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1, 2]])),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_arrow_columns_that_take_no_bytes_in_the_stream(column):
    """They are malformed before they take memory."""
    kind = column.type
    wanted = pa.int64()
    if pa.types.is_struct(kind):
        wanted = pa.struct([("a", pa.int64())])
    elif pa.types.is_list(kind) or pa.types.is_list_view(kind):
        wanted = pa.list_(pa.int64())
    data = ipc(pa.RecordBatch.from_arrays([column], ["a"]))
    [row] = rows("arrow", pa.schema([("a", wanted)]), [data])
    assert row == {"a": None}
    with pytest.raises(MalformedElement, match=r"more than|not read"):
        rows("arrow", pa.schema([("a", wanted)]), [data], mode="FAILFAST")


def test_large_arrow_elements_are_not_joined():
    """Arrow cannot join 2 GiB of texts in one array, and would give two."""
    maker = RowMaker(RowSettings("arrow", "PERMISSIVE", "_corrupt_record"), COLUMNS, REQUEST_FACTS)
    large = ipc(strings([f"{'x' * 2**20}{number}" for number in range(20)]))
    small = ipc(strings(["a", "b"]))
    elements = [small, large, b"no Arrow", large, small, large]
    batches = list(maker.rows([Payload(each) for each in elements], 7, partition=3))
    assert [batch.num_rows for batch in batches] == [23, 22, 20]
    offsets = [offset for batch in batches for offset in batch["_offset"].to_pylist()]
    assert offsets == [7] * 2 + [8] * 20 + [9] + [10] * 20 + [11] * 2 + [12] * 20


MONEY = pa.schema([("d", pa.decimal128(10, 2)), ("n", pa.int64())])


@pytest.mark.parametrize(
    "value",
    [Decimal("1e-100000001"), "1e-100000001", 1e-300, 1e300, "1.005",
     Decimal("1e999999999"), Decimal("sNaN"), Decimal("-Infinity"), 10**8],
    ids=str,
)  # fmt: skip
def test_a_decimal_in_cbor_that_does_not_fit(value):
    """One of them ended each process that read it: pyarrow does not check exponents."""
    elements = [cbor2.dumps({"d": value, "n": 1}), cbor2.dumps({"d": Decimal("1e-2"), "n": 2})]
    assert rows("cbor", MONEY, elements) == [{"d": None, "n": None}, {"d": Decimal("0.01"), "n": 2}]


def test_a_decimal_in_cbor_with_more_digits_than_the_column():
    """It fits if they are zeros."""
    elements = [cbor2.dumps({"d": each}) for each in ("1.5" + "0" * 60, "15e-1", 1.5)]
    assert [row["d"] for row in rows("cbor", MONEY, elements)] == [Decimal("1.50")] * 3


DECIMAL_TEXTS = pa.array(["1e-100000001"])


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (DECIMAL_TEXTS, pa.decimal128(10, 2)),
        (DECIMAL_TEXTS.dictionary_encode(), pa.decimal128(10, 2)),
        (DECIMAL_TEXTS.cast(pa.string_view()), pa.decimal128(10, 2)),
        (pa.array([["1e-100000001"]]), pa.list_(pa.decimal128(10, 2))),
        (
            pa.StructArray.from_arrays([DECIMAL_TEXTS, pa.array([1])], ["b", "a"]),
            pa.struct([("a", pa.int64()), ("b", pa.decimal128(10, 2))]),
        ),
        (
            pa.Array.from_buffers(pa.int32(), 1, pa.array([5], pa.int32()).buffers()),
            pa.decimal128(38, 38),
        ),
    ],
    ids=range(6),
)
def test_decimals_in_arrow_that_cannot_be_cast(column, kind):
    """Arrow would crash with the texts."""
    data = ipc(pa.RecordBatch.from_arrays([column], ["d"]))
    assert rows("arrow", pa.schema([("d", kind)]), [data]) == [{"d": None}]


@pytest.mark.parametrize("wrap", [None, pa.list_, pa.large_list, lambda kind: pa.list_(kind, 1)])
def test_numbers_in_arrow_that_are_too_large(wrap):
    """They do not become infinite; what is infinite stays so."""
    kind = pa.float64() if wrap is None else wrap(pa.float64())
    column = pa.float32() if wrap is None else pa.list_(pa.float32())
    for number, fits in ((1e39, False), (float("inf"), True), (1e38, True)):
        value = number if wrap is None else [number]
        data = ipc(pa.record_batch({"x": pa.array([value], kind)}))
        [row] = rows("arrow", pa.schema([("x", column)]), [data])
        assert (row["x"] is not None) is fits


def test_arrow_decimals_of_an_impossible_scale():
    """The scale is a number in the stream, and Arrow would crash with it."""
    data = ipc(pa.record_batch({"d": pa.array([Decimal("1.234567")], pa.decimal128(20, 6))}))
    place = data.index((20).to_bytes(4, "little") + b"\x06\0\0\0")
    changed = data[: place + 4] + (5_308_418).to_bytes(4, "little") + data[place + 8 :]
    assert pa.ipc.open_stream(changed).schema.field("d").type.scale == 5_308_418
    assert rows("arrow", MONEY.remove(1), [changed]) == [{"d": None}]


def test_keys_of_a_map_in_cbor_that_become_the_same():
    """A map of Spark has each key once."""
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64()))])
    elements = [cbor2.dumps({"m": each}) for each in ({1: 5, "1": 6}, {1: 5, "2": 6})]
    assert rows("cbor", schema, elements) == [{"m": None}, {"m": [("1", 5), ("2", 6)]}]
