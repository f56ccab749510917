"""JSON texts to columns: exact, in order, and a malformed event costs only itself."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rsocket_trio.spark.columns import json_events
from rsocket_trio.spark.columns.json_events import decode_events, decode_lines
from rsocket_trio.spark.columns.schemas import layout_for

INNER = StructType().add("d", DateType()).add("l", ArrayType(DateType())).add("n", LongType())
PLAIN = (
    StructType()
    .add("a", LongType())
    .add("s", StringType())
    .add("f", DoubleType())
    .add("b", BooleanType())
    .add("i", IntegerType())
    .add("t", TimestampType())
    .add("m", DecimalType(9, 2))
    .add("o", INNER)
    .add("l", ArrayType(LongType()))
)
MAPS = (
    StructType()
    .add("a", LongType())
    .add("p", MapType(StringType(), LongType()))
    .add("q", ArrayType(StructType().add("p", MapType(StringType(), DateType()))))
)
ONLY_MAPS = StructType().add("p", MapType(StringType(), LongType()))


def schema_of(fields):
    return layout_for(fields, mode="PERMISSIVE", corrupt_column="_corrupt").decoded


def decode(texts, fields):
    """The rows by index; malformed ones have None."""
    decoded = decode_events(pa.array(texts, pa.binary()), schema_of(fields))
    table = pa.Table.from_arrays(decoded.columns, schema=schema_of(fields))
    table.validate(full=True)
    rows = iter(table.to_pylist())
    missing = set(decoded.malformed)
    found = [None if n in missing else next(rows) for n in range(len(texts))]
    assert next(rows, None) is None
    return found


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["2026-11-22", "2026-11-22T10:00:00.123Z", "1.25", "x"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["d", "l", "n", "p", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)
objects = st.dictionaries(
    st.sampled_from(["a", "s", "f", "b", "i", "t", "m", "o", "l", "p", "q", "x"]), values,
    max_size=5,
).map(lambda value: json.dumps(value).encode())  # fmt: skip
fits = st.integers(0, 99).map(lambda n: b'{"a":%d,"s":"x"}' % n)
hostile = st.sampled_from([
    b"", b" ", b"null", b"1", b"[]", b"{}", b"{}{}", b'{"a":1}null', b'{"a":1} null {"a":2}',
    b'{"a":1},{"a":2}', b'{"a":1}}', b'{"a":[1}', b'{"a":', b"1}", b'"', b'{"s":"}', b'{"}', b'"}',
    b'{"a":1}\n{"a":2}', b'{"a":\n1}', b'{"s":"a\nb"}', b' {"a":3}\r', b'{"a":1,"a":2}',
    b'{"s":"\xff"}', b'{"x":"\xff"}', b'{"s":"\\ud800"}', b'{"a":1}\x00', b'\x00{"a":1}',
    b'\xef\xbb\xbf{"a":1}', b'{"a":1.0}', b'{"a":"1"}', b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"x":' + b"[" * 5000 + b"}", b'{"\x00":5}', b'{"\\u0000":5,"a":7}', b"{\xc3\xa9}",
    b'{"s":"\xc3\xa9"}', b'{"x":1e999}', b'{"f":NaN}', b'{"f":Inf}', b"{'a':1}", b'{"a":1,}',
    b'{"x":NaN}', b'{"x":[-Infinity]}', b'{"s":": NaN, \\"Inf, "}', b'{"t":"2026-01-01t00:00:00z"}',
    b'{"t":"2026-01-01T00:00:00.123456789Z"}', b'{"t":"2026-01-01T00:00:00,5"}',
    b'{"t":"2026-01-01T00:00:00\\u002e123456789Z"}', b'{"t":"2026-01-01\\u00740:00:00z"}',
    b'{"t":"2026-01-01 00z"}', b'{"t":"2026-01-01T00:00Z"}', b'{"x":%s}' % (b"9" * 5000),
    b'{"f":%s}' % (b"9" * 400), b'{"f":1e400}', b'{"p":{"x":%s}}' % (b"9" * 400),
])  # fmt: skip
texts = st.lists(st.one_of(fits, fits, objects, hostile), min_size=1, max_size=12)


@given(texts, st.sampled_from([PLAIN, MAPS, ONLY_MAPS]))
@example([b'{"a":1}null', b""], PLAIN)
@example([b"null"], PLAIN)
@example([b'{"a":1}{"a":2}', b" "], PLAIN)
def test_an_event_does_not_depend_on_its_neighbours(events, fields):
    """All together give what each of them gives alone, malformed ones included."""
    alone = [decode([event], fields)[0] for event in events]
    together = decode(events, fields)
    assert repr(together) == repr(alone)  # NaN is not equal to itself.


CONSTANTS = ["NaN", "-NaN", "Inf", "-Inf", "Infinity", "-Infinity"]
KINDS = [
    BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType(), DateType(),
    TimestampType(), TimestampNTZType(), DecimalType(9, 2),
]  # fmt: skip


@pytest.mark.parametrize("shape", ["%s", "[1, %s]", '{"b":%s}', '{"b": {"c":[\t%s ]}}'])
@pytest.mark.parametrize("constant", CONSTANTS)
def test_nan_and_infinity_are_no_json(constant, shape):
    """In a member of each type, within maps, and in one that is not read."""
    good = b'{"a":null,"x":1}'
    value = shape % constant
    for kind in KINDS:
        inner = StructType().add("b", kind)
        types = [kind, ArrayType(kind), inner, StructType().add("b", StructType().add("c", kind))]
        if not isinstance(kind, DecimalType):
            types.append(MapType(StringType(), kind))
        for each in types:
            fields = StructType().add("a", each).add("x", LongType())
            rows = decode([good, b'{"a":%s,"x":2}' % value.encode(), good], fields)
            assert [row and row["x"] for row in rows] == [1, None, 1]
    unread = b'{"other":%s,"x":2}' % value.encode()
    for fields in (
        StructType().add("x", LongType()),
        ONLY_MAPS,
        StructType().add("f", FloatType()),
    ):
        assert decode([unread], fields) == [None]
        assert decode_lines(unread + b"\n", 1, schema_of(fields)) is None


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize(
    "text", ["%s", ": %s, ", "[%s]", '\\",%s,\\"', "\\\\", 'x","y":" %s }', "\\u0022:%s,"]
)
def test_the_words_in_a_string_mean_nothing(constant, text):
    """Strings end where JSON says, also behind backslashes."""
    event = b'{"s":"%s","x":1}' % text.replace("%s", constant).encode()
    assert decode([event, event], StructType().add("x", LongType())) == [{"x": 1}, {"x": 1}]


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 5000, "9" * 10**6, "1e400", "-1e309"])
def test_a_number_too_large_is_not_infinite(number):
    """It is JSON, but fits no column. A long integer that is not read costs nothing."""
    event, unread = b'{"a":%s}' % number.encode(), b'{"other":%s}' % number.encode()
    rest = None if "e" in number else {"a": None}  # pyarrow refuses it anywhere
    for kind in (LongType(), FloatType(), DoubleType(), DecimalType(38, 2), StringType()):
        rows = decode([b"{}", event, unread], StructType().add("a", kind))
        assert rows[1:] == [None, rest]
    nested = b'{"a":{"b":%s}}' % number.encode()
    for kind in (StructType().add("b", DoubleType()), MapType(StringType(), DoubleType())):
        rows = decode([b"{}", nested, unread], StructType().add("a", kind))
        assert rows[1:] == [None, rest]


def test_a_number_too_large_for_a_float():
    """A double of the same size is a value."""
    fields = StructType().add("f", FloatType()).add("d", DoubleType())
    rows = decode([b'{"f":1e39}', b'{"d":1e39}', b'{"f":3.4e38,"d":1e308}'], fields)
    assert [row and row["d"] for row in rows] == [None, 1e39, 1e308]


@given(st.lists(st.one_of(fits, objects, hostile), min_size=1, max_size=8))
def test_lines_without_malformed_ones_are_decoded_at_once(events):
    """The result is the same, or there is none."""
    schema = schema_of(PLAIN)
    if any(b"\n" in event for event in events):
        return
    columns = decode_lines(b"".join(event + b"\n" for event in events), len(events), schema)
    rows = decode(events, PLAIN)
    if columns is not None:
        at_once = pa.Table.from_arrays(columns, schema=schema).to_pylist()
        assert repr(at_once) == repr(rows)
    elif not any(event != event.strip() for event in events):
        assert None in rows


@given(st.lists(st.dictionaries(
    st.sampled_from(["a", "x"]), st.integers(-(2**63), 2**63 - 1)), min_size=1))  # fmt: skip
def test_values_are_those_of_python(events):
    found = decode([json.dumps(event).encode() for event in events], PLAIN)
    assert [row["a"] for row in found] == [event.get("a") for event in events]


def test_values_of_all_types():
    event = {
        "a": -1, "s": "caf\u00e9", "f": 1, "b": True, "i": 7,
        "t": "2026-11-22T10:00:00.123456+01:00",
        "m": "1.25", "o": {"d": "2026-11-22", "l": ["2020-02-29", None], "n": None},
        "l": [1, None], "more": {},
    }  # fmt: skip
    [row] = decode([json.dumps(event).encode()], PLAIN)
    assert row["t"] == dt.datetime(2026, 11, 22, 9, 0, 0, 123456, tzinfo=dt.UTC)
    assert row["m"] == Decimal("1.25")
    assert row["o"] == {"d": dt.date(2026, 11, 22), "l": [dt.date(2020, 2, 29), None], "n": None}
    assert (row["a"], row["s"], row["f"], row["b"], row["i"], row["l"]) == (
        -1, "caf\u00e9", 1.0, True, 7, [1, None],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-11-22T10:00:00.123456789Z", (10, 123456)),
        ("2026-11-22T10:00:00.1234567+02:00", (8, 123456)),
        ("2026-11-22T10:00:00.999999999999", (10, 999999)),
        ("2026-11-22 10:00:00,123", (10, 123000)),
        ("2026-11-22t10:00:00.5z", (10, 500000)),
        ("2026-11-22T10:00z", (10, 0)),
        ("2026-11-22T10:00:00.123456789-0130", (11, 123456)),
        ("2026-11-22T10:00:00\\u002e1234567Z", (10, 123456)),
        ("2026-11-22T10:00:00.123456+0100", (9, 123456)),
        ("2026-11-22T10:00:00+01", (9, 0)),
        ("2026-11-22T10:00:60Z", None),
        ("2026-11-22T10:00:00.1234567x", None),
        ("2026-11-22T10:00:00,", None),
        ("2026-11-22T10:00:00.\\u0022,Z", None),
        ("2026-11-22T10:00:00.1234567\u00e9", None),
        ("20261122T100000Z", None),
    ],
)
def test_times(text, wanted):
    """As RFC 3339 writes them, to the microsecond; alone, nested, in maps, and beside others."""
    inner = StructType().add("t", TimestampNTZType())
    fields = (
        StructType()
        .add("t", TimestampType())
        .add("l", ArrayType(inner))
        .add("m", MapType(StringType(), TimestampType()))
    )
    usual = b'{"t":"0001-01-01T00:00:00Z","l":[null,{}]}'
    event = f'{{"t":"{text}","l":[{{"t":"{text}"}},null],"m":{{"k":"{text}"}}}}'.encode()
    for position in range(2):
        events = [usual]
        events.insert(position, event)
        rows = decode(events, fields)
        row = rows.pop(position)
        assert rows == [
            {"t": dt.datetime(1, 1, 1, tzinfo=dt.UTC), "l": [None, {"t": None}], "m": None}
        ]
        if wanted is None:
            assert row is None
            continue
        hour, microsecond = wanted
        minute = 30 if "-0130" in text else 0
        moment = dt.datetime(2026, 11, 22, hour, minute, 0, microsecond)
        zoned = moment.replace(tzinfo=dt.UTC)
        assert row == {"t": zoned, "l": [{"t": moment}, None], "m": [("k", zoned)]}


def test_times_far_from_the_first_ones():
    """How the first events write them does not matter for the others; texts stay as they are."""
    fields = StructType().add("t", TimestampType()).add("s", StringType())
    usual, nine = b'{"t":"2026-01-01T00:00:00Z"}', "2026-01-01T00:00:00.123456789z"
    events = [usual] * 300 + [f'{{"t":"{nine}","s":"{nine}"}}'.encode()] + [usual]
    rows = decode(events, fields)
    assert None not in rows
    assert rows[300] == {"t": dt.datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC), "s": nine}


def test_a_malformed_event_behind_times_far_from_the_first_ones():
    """The second attempt, which such times get, finds it too; it fails no task."""
    fields = StructType().add("t", TimestampType())
    usual, nine = b'{"t":"2026-01-01T00:00:00Z"}', b'{"t":"2026-01-01T00:00:00.1234567Z"}'
    bad = b'{"t":"2026-01-01T00:00:61.1234567Z"}'
    rows = decode([usual] * 300 + [nine, bad, usual], fields)
    assert [n for n, row in enumerate(rows) if row is None] == [301]
    lines = b"\n".join([usual] * 300 + [bad, b""])
    assert decode_lines(lines, 301, schema_of(fields)) is None


def test_missing_and_null_members():
    rows = decode([b"{}", b'{"o":null,"l":null}', b'{"o":{}}', b'{"o":{"d":null,"l":[]}}'], PLAIN)
    assert [row["o"] for row in rows] == [
        None,
        None,
        {"d": None, "l": None, "n": None},
        {"d": None, "l": [], "n": None},
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1.5}, {"a": 1.0}, {"a": "1"}, {"a": True}, {"a": 2**63}, {"i": 2**31}, {"s": 1},
        {"f": "1"}, {"b": 1}, {"t": 1}, {"t": "x"}, {"t": "2026-02-30T00:00:00Z"}, {"m": "1.234"},
        {"m": 12345678.0}, {"o": []}, {"o": {"d": "x"}}, {"o": {"d": 1}}, {"o": {"l": "x"}},
        {"o": {"l": ["x"]}}, {"l": {}}, {"l": ["1"]},
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_malformed(value):
    """It costs its event, and no other one."""
    good = b'{"a":1}'
    first, bad, last = decode([good, json.dumps(value).encode(), good], PLAIN)
    assert bad is None
    assert first == last
    assert first["a"] == 1


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"p": {"x": 1, "y": None}}, {"a": None, "p": [("x", 1), ("y", None)], "q": None}),
        ({"a": 1, "p": {}, "q": []}, {"a": 1, "p": [], "q": []}),
        (
            {"q": [None, {}, {"p": None}, {"p": {"": "2026-11-22"}}]},
            {
                "a": None,
                "p": None,
                "q": [None, {"p": None}, {"p": None}, {"p": [("", dt.date(2026, 11, 22))]}],
            },
        ),
        ({"p": []}, None),
        ({"p": {"x": "1"}}, None),
        ({"p": {"x": 1.0}}, None),
        ({"q": {}}, None),
        ({"q": [1]}, None),
        ({"q": [{"p": {"x": 1}}]}, None),
        ({"p": {"x": 1}, "a": "x"}, None),
    ],
)
def test_maps(value, wanted):
    text = json.dumps(value).encode()
    assert decode([b"{}", text, b"{}"], MAPS)[1] == wanted


@pytest.mark.parametrize(
    "text",
    [
        b'{"p":{"x":1},"p":{"y":2}}',
        b'{"p":{"x":1,"x":2}}',
        b'{"q":[{"p":{}},{"p":{},"p":{}}]}',
        b'{"p":{"x":1},"a":1,"a":1}',
    ],
)
def test_a_member_that_is_there_twice(text):
    """As without maps: the event does not fit, and no value is chosen in silence."""
    assert decode([b"{}", text, b'{"b":1,"b":2,"p":{"x":1}}'], MAPS)[1:] == [
        None,
        {"a": None, "p": [("x", 1)], "q": None},
    ]


@given(st.lists(objects, min_size=1, max_size=6))
def test_columns_beside_maps_are_the_same(events):
    """A schema with maps takes another path; an event that fits to both gives the same values."""
    both = StructType([*PLAIN.fields, *ONLY_MAPS.fields])
    for plain, row in zip(decode(events, PLAIN), decode(events, both), strict=True):
        if row is not None:
            row.pop("p")
            assert row == plain


def test_one_malformed_event_among_many_is_found_quickly(monkeypatch):
    """By halving: some dozens of attempts, not thousands."""
    calls = 0
    decode_all = json_events._decode_all

    def counting(*args):
        nonlocal calls
        calls += 1
        return decode_all(*args)

    monkeypatch.setattr(json_events, "_decode_all", counting)
    events = [b'{"a":%d}' % n for n in range(2048)]
    events[1234] = b'{"a":"x"}'
    events[7] = b"not JSON costs no attempt"
    rows = decode(events, PLAIN)
    assert [n for n, row in enumerate(rows) if row is None] == [7, 1234]
    assert calls < 30


def test_events_that_are_all_malformed_cost_few_attempts(monkeypatch):
    """An attempt takes as long as a hundred good events, so a sender could stop a query."""
    calls = 0
    decode_all = json_events._decode_all

    def counting(*args):
        nonlocal calls
        calls += 1
        return decode_all(*args)

    monkeypatch.setattr(json_events, "_decode_all", counting)
    bad = [b'{"a":"x"}', b'{"a":1', b'{"a":1.5}', b'{"a":{}}', b"{}{}", b'{"a":%d}' % 2**63]
    assert decode(bad * 100, PLAIN) == [None] * 600
    rows = decode([*bad, b'{"a":1}'] * 100, PLAIN)
    assert [row and row["a"] for row in rows] == [*[None] * 6, 1] * 100
    assert calls <= 4


values = st.recursive(
    st.sampled_from(
        ["1", "-1", "1.0", "1e2", "300", "9" * 20, "9" * 40, "1e400", "-0", "null", "true", '"x"',
         '"1"', '"2026-11-22"', '"2026-11-22T10:00:00Z"', '"\\ud800"', '"\\u0000"', "NaN", "01",
         "Inf", "-Inf", "Infinity", "9" * 400, "1e39", '"2026-11-22t10:00:00,5z"', '"\\u0032,"',
         '"2026-11-22T10:00:00.123456789"', '": NaN, "',
         '""', '"1e-50"', "1e-50"]
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
    | st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3).map(
        lambda pairs: "{%s}" % ",".join(f'"{name}":{value}' for name, value in pairs)  # noqa: UP031 - braces
    ),
    max_leaves=6,
)  # fmt: skip
kinds = st.recursive(
    st.sampled_from([
        pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.date32(),
        pa.decimal128(10, 2), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    ]),
    lambda inner: inner.map(pa.list_)
    | st.lists(st.tuples(st.sampled_from("abc"), inner), min_size=1, max_size=2,
               unique_by=lambda field: field[0]).map(pa.struct)
    | st.sampled_from([pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.string())]),
    max_leaves=3,
)  # fmt: skip


@example(pa.float64(), ["Inf", "[]"])
@given(kinds, st.lists(values, min_size=2, max_size=6))
def test_python_and_pyarrow_agree(kind, texts):
    """One event alone is decided by pyarrow; among others, Python may have decided."""
    schema = pa.schema([("a", kind)])
    events = [f'{{"a":{text}}}'.encode() for text in texts]
    together = decode_events(pa.array(events), schema)
    alone = [decode_events(pa.array([event]), schema) for event in events]
    assert list(together.malformed) == [n for n, each in enumerate(alone) if each.malformed]
    assert str(together.columns[0]) == str(pa.concat_arrays([each.columns[0] for each in alone]))


def test_text_that_is_not_json_costs_nothing(monkeypatch):
    """Plain lines are recognised without an attempt."""
    monkeypatch.setattr(json_events, "_decode_all", None)
    assert decode([b"plain text"] * 1000, PLAIN) == [None] * 1000


DECIMALS = (
    StructType()
    .add("d", DecimalType(10, 2))
    .add("f", DoubleType())
    .add("l", ArrayType(StructType().add("d", DecimalType(38, 18))))
)


@pytest.mark.parametrize("number", ["1e-100000001", "0E-2147483647", "1e-41", "1E-77", "1e-0099"])
@pytest.mark.parametrize(
    "text",
    [
        '{"d":%s}',
        '{"d":"%s"}',
        '{"f":1,"l":[{"d":1},{"d":%s}]}',
        '{"l":[{"x":5,"d":"%s"}]}',
        '{"d":%s,"d":1}',
        '{ "\\u0064" : %s}',
        '{"d":"\\u0031%s"}',
    ],
)
def test_a_decimal_that_would_crash_pyarrow(text, number):
    """It takes the exponent as an index of a table. One such event ended each task that read it."""
    assert decode([b"{}", (text % number).encode(), b"{}"], DECIMALS)[1] is None


@pytest.mark.parametrize("dash", ["-", "\\u002d"])
@pytest.mark.parametrize("letter", ["e", "E", "\\u0065", "\\u0045"])
def test_a_decimal_whose_exponent_is_hidden_by_escapes(letter, dash):
    text = f'{{"d":"1{letter}{dash}100000001"}}'
    assert decode([b"{}", text.encode()], DECIMALS)[1] is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b'{"d":150E-2}', {"d": Decimal("1.50")}),
        (b'{"d":"1500e-3"}', {"d": Decimal("1.50")}),
        (b'{"d":1.5,"f":1e-300}', {"d": Decimal("1.50"), "f": 1e-300}),
        (b'{"d":1.5,"x":1e-100000001}', {"d": Decimal("1.50")}),
        (b'{"l":[{"d":1.25e-10}]}', {"l": [{"d": Decimal("1.25E-10")}]}),
        (b'{"d":1.5,"x":"0e-12"}', {"d": Decimal("1.50")}),
    ],
)
def test_small_exponents_that_fit(text, wanted):
    assert decode([b"{}", text], DECIMALS)[1] == {"d": None, "f": None, "l": None} | wanted


def test_a_decimal_beside_a_map():
    """Python decodes the column, and would round the number."""
    inner = StructType().add("m", MapType(StringType(), StringType())).add("d", DecimalType(38, 9))
    with pytest.raises(ValueError, match=r"column s\.d .* in a column with a map"):
        schema_of(StructType().add("s", inner))
