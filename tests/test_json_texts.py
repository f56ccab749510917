"""JSON texts are read and written as `json` does, but for their depth; `json` is called here."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import subprocess
import sys
import uuid
from contextlib import nullcontext
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio.json_texts import (
    MAX_DEPTH,
    NotJSON,
    is_deep,
    is_too_deep,
    read,
    read_all,
    write,
    write_all,
    write_plain,
)


def no_constant(name):
    raise NotJSON(name)


def by_json(raw):
    return json.loads(raw.decode(), parse_constant=no_constant)


def outcome(function, *args):
    """The value with its types, or the kind of the error."""
    try:
        return repr(function(*args))
    except (TypeError, ValueError, RecursionError) as error:
        kind = next(kind for kind in KINDS if isinstance(error, kind))
        return kind.__name__


KINDS = [NotJSON, UnicodeError, ValueError, TypeError, RecursionError]


def read_the_same(raw):
    """Alone, and among others; a BOM is refused in both ways."""
    expected = outcome(by_json, raw)
    assert outcome(read, raw) == expected
    alone = outcome(lambda: read_all([raw])[0])
    among = outcome(lambda: read_all([b"{}", raw, b'"' + b"x" * 999 + b'"'])[1])
    assert alone == among == expected


NUMBERS = [
    "0", "-0", "-0.0", "1e5", "1E+5", "1.0", "1e400", "-1e400", "1e-400", "01", "1.", ".5",
    "+1", "-", "1e", "1e+", "0x1", "1_0", "5e-324", "2.2250738585072011e-308", "1e23",
    "9007199254740993.0", "1" + "0" * 400 + "e-390",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "123456789012345678901234567890",
    "-123456789012345678901234567890", "12345678901234567890123.5", "0.1234567890123456789012345",
    "1" * 400, "1" * 4300, "-" + "1" * 4300, "1" * 4301, "1" * 5000,
]  # fmt: skip
OTHERS = [
    "NaN", "Infinity", "-Infinity", "nul", "", " ", "[1,]", "[1 2]", '{"a":1,}', "{'a':1}",
    "{a:1}", '{"a"}', '{"a":}', "{1:2}", "[", "{", '"', "]", "true", "tru", "/**/1",
    '{"a":1,"a":2}', '{"a":1,"b":2,"a":[NaN]}', '"\\ud800"', '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"', '"\\ud83d\\u0041"', '{"\\ud800":1}', '"\\u0000"', '"\x00"', '"\x1f"',
    '"\x7f"', '"\n"', '"\u2028"', '"\\x"', '"\\u12"', '"\\u 123"', '"\\U00000041"',
    "\ufeff{}", "{}\ufeff", " {} ", "\t\r\n1", "{}\x0b", "{}\x0c", "{}\x00", "{}\xa0", "{}x",
    "{}{}", "{},{}", "1],[2", "{}//", "{}\n{}",
    '"18446744073709551616"', '{"18446744073709551616":1}',
]  # fmt: skip


@pytest.mark.parametrize("text", [*NUMBERS, *OTHERS])
@pytest.mark.parametrize("shape", ["%s", '{"a":%s}', '[{"a":"b"},%s]', '{"%s":1}'])
def test_the_same_is_read(text, shape):
    """`json` says what each text means, and which ones are none."""
    read_the_same(shape.replace("%s", text).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "raw",
    [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc3', b"{}\xff",
     b'{"\xff":1}', b'{"a":1,"\xc3":2}', b"\xff\xfe{\x00}\x00", "[1]".encode("utf-16-le")],
)  # fmt: skip
def test_what_is_not_utf_8(raw):
    """It is refused wherever it stands; `json.loads` alone would guess another encoding."""
    read_the_same(raw)


@pytest.mark.parametrize("limit", [0, 700, 10_000])
def test_another_limit_of_digits(limit):
    """A program may have another one for the digits of integers; it holds."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        for digits in (700, 701, 4300, 4301, 10_000, 10_001):
            read_the_same(b"[%s]" % (b"1" * digits))
            value = {"a": 10 ** (digits - 1)}
            assert (write_all([value]) or [outcome(write, value)])[0] is not None
    finally:
        sys.set_int_max_str_digits(before)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 0, "\t"]))
def test_any_values_are_read(value, ascii_only, indent):
    """What Python writes, with surrogates and constants, too."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    read_the_same(text.encode("utf-8", "surrogatepass"))


@given(JSON_VALUES, st.data())
def test_damaged_texts(value, data):
    """A text with a part that is lost, doubled, or replaced by any bytes."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    part = data.draw(st.binary(max_size=3) | st.sampled_from([b"", 2 * text[start:end], b"\\"]))
    read_the_same(text[:start] + part + text[end:])


@given(st.binary(max_size=12) | st.text('{}[]",:\\ud8019.-+eEtrufalsn \t\n', max_size=12))
@example(b"-")
@example("[-0]")
def test_any_bytes(raw):
    """Most are refused, and always by a ValueError."""
    read_the_same(raw if isinstance(raw, bytes) else raw.encode())


@pytest.mark.parametrize(
    "raws",
    [
        (b"1,2",),
        (b"{},{}", b"{}"),
        (b"[1", b"2]"),
        (b'{"a":[{}', b"{}]}", b"{},{}"),
        (b'{"a":"', b'"}', b"{},{}"),
        (b"1],[2", b"3"),
        (b'"\xc3', b'\xa9"'),
        (b"", b"{}"),
    ],
)
def test_texts_do_not_complete_each_other(raws):
    """Each text must be valid alone."""
    with pytest.raises(ValueError):
        read_all(raws)


def depth(value):
    parts = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, list | tuple)
        else None
    )
    return 0 if parts is None else 1 + max(map(depth, parts), default=0)


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize(
    "around", [lambda v: [v], lambda v: {"a": v}, lambda v: (v, "[[["), lambda v: [1, [], {"": v}]]
)
def test_the_limit_of_levels(around, extra):
    """200 levels are read and written, and 201 are not, whatever stands in between."""
    value = 1
    while depth(around(value)) < MAX_DEPTH:
        value = around(value)
    value = {"": value}
    for _ in range(MAX_DEPTH + extra - depth(value)):
        value = {"": value}
    data = json.dumps(value).encode()
    assert (write_all([{}, value]) is None) is bool(extra)
    for function in (lambda: read_all([b"{}", data]), lambda: read(data), lambda: write(value)):
        with pytest.raises(RecursionError) if extra else nullcontext():
            function()


@pytest.mark.parametrize("data", [b"[" * 10**6, b'{"":' * 10**6, b'[{"":' * 10**6])
def test_hostile_depth(data):
    """Without the bound, a program with a raised recursion limit would crash."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**7)
    try:
        with pytest.raises(RecursionError):
            read_all([b"{}", data])
    finally:
        sys.setrecursionlimit(before)


@given(
    st.recursive(
        st.text('[]{}"\\a', max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\'), inner),
        max_leaves=30,
    ),
    st.integers(0, 3),
)
def test_the_depth_is_exact(value, more):
    """Brackets, quotes and backslashes in text do not count."""
    levels = MAX_DEPTH - depth(value) + more
    text = '["[]", ' * levels + json.dumps(value) + "]" * levels
    assert is_deep(text.encode()) is bool(more)


class Color(enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    YES = "yes"


class Text(str):
    __slots__ = ()


class Real(float):
    pass


class Many(list):
    pass


class FirstOnly(dict):
    """As dicts of query parameters: its items are not all that it has."""

    def items(self):
        return [(key, values[0]) for key, values in super().items()]


@dataclasses.dataclass
class Point:
    x: int = 1


class Struct(msgspec.Struct):
    x: int = 1


class Lazy:
    """A data class whose fields cannot be read."""

    __dataclass_fields__ = Point.__dataclass_fields__

    @property
    def x(self):
        raise KeyError("x")


class Pair(NamedTuple):
    a: int
    b: int


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def cyclic():
    found = []
    found += [found, found]
    return found


def mixed():
    """A dict with a table for keys of any type, but with text only."""
    found = {1: 1, "a": [1.5], "b": None}
    del found[1]
    return found


SHARED = [1, {"a": None}]
PLAIN = [
    None, True, 1, 1.5, "text", [], {}, (), (1, [2.5, None]), -0.0, 1e16, 1e-7, 5e-324, 1e300,
    2**63, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 10**400,
    "\u2028\x7f\x00\x1f\r\n\x85\"\\/\U0001f980", "null", "\n", {"\n": "\r"}, mixed(),
    [SHARED] * 3, nested(100), {1: 1}, {2**63: 1}, {2**70: 1}, {"1": 1, 1: 2},
]  # fmt: skip
OTHER = [
    -math.inf, math.nan, 1e400, [None, math.nan], (math.nan,), {"a": math.inf}, 10**5000,
    "\ud800", {"\ud800": 1},
    uuid.UUID(int=1), Color.RED, Number.ONE, Word.YES, Text("a"), Real(1.5), Real("nan"), Many([1]),
    Point(), Point, Struct(), Lazy(), Pair(1, 2), dt.datetime(2026, 1, 2), dt.date(2026, 1, 2),
    dt.time(1), dt.timedelta(1), decimal.Decimal(1), collections.OrderedDict(a=1),
    collections.defaultdict(int, a=1), FirstOnly(a=[1, 2]),
    msgspec.Raw(b'1}\n{"a":2'), msgspec.UNSET, msgspec.msgpack.Ext(1, b"a"),
    b"a", bytearray(b"a"), memoryview(b"a"), {1}, frozenset(), [b""], ("", b""), {"": b""},
    1j, ..., object(), range(2), {}.keys(), iter(()),
    {None: 1}, {True: 1}, {1.5: 1}, {1e16: 1}, {1e16: 1.5}, {math.nan: 1}, {(1,): 1},
    {b"a": 1}, {"a": 1, b"a": 1}, {Text("a"): 1}, {Color.RED: 1}, {Number.ONE: 1}, {Word.YES: 1},
    {uuid.UUID(int=1): 1}, {dt.date(2026, 1, 2): 1}, {decimal.Decimal(1): 1},
    nested(300), cyclic(),
]  # fmt: skip


def written_the_same(values):
    """Return whether msgspec has written them; then the texts mean the same as those of `json`."""
    texts = write_all(values)
    if texts is not None:
        assert [repr(json.loads(text)) for text in texts] == [
            repr(json.loads(write(value))) for value in values
        ]
        assert not any(b"\n" in text for text in texts)
    return texts is not None


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}")
def test_plain_values(value):
    """msgspec writes them, alone and among others; otherwise this module would be of no use."""
    assert written_the_same([{"a": value}])
    assert written_the_same([{}, {"a": {"b": [value]}}, {"a": None}])
    assert json.loads(write_plain(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("value", OTHER, ids=lambda value: f"{type(value).__name__}")
def test_other_values(value):
    """`json` writes or refuses them, wherever they stand."""
    for place in (value, {"b": [value]}, {"c": 1, "b": {"a": value}}, [[], (value,)], {1: value}):
        assert write_all([{}, {"a": place}]) is None
    assert outcome(write, {"a": value}) == outcome(
        lambda: json.dumps(
            {"a": value}, ensure_ascii=False, allow_nan=False, separators=(",", ":"),
            check_circular=False,
        ).encode()
    ) or value == nested(300)  # fmt: skip


def test_values_that_contain_others_many_times():
    """`json` refuses them at the first NaN; to write or to visit all of them would never end."""
    value = math.nan
    for _ in range(8):
        value = [value] * 1000
    assert write_all([{"a": value}]) is None
    assert outcome(write, {"a": value}) == "ValueError"
    many = [list(range(100))] * 1000
    assert write_all([{"a": many}]) is None  # a few too many, with those around
    assert write_all([{"a": many[:900]}]) == [write({"a": many[:900]})]


texts = st.text() | st.sampled_from(["null", "\n", "1"])
any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | texts
    | st.sampled_from([Color.RED, Number.ONE, uuid.UUID(int=1), b"a", Text("a"), Point()])
    | st.builds(FirstOnly, a=st.just([1])),
    lambda inner: st.lists(inner, max_size=4)
    | st.tuples(inner, inner)
    | st.dictionaries(
        texts | st.integers() | st.floats() | st.none() | st.booleans() | st.binary(max_size=1),
        inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(st.dictionaries(texts, any_values, max_size=4), min_size=1, max_size=5))
@example([{"a": [math.nan, None]}])
@example([{"a": {1: 1.0, 10**16: 1}}, {"a": {1e16: 1}}])
def test_any_values_are_written(values):
    """The same texts in meaning, or they are left to `json`."""
    written_the_same(values)


@given(st.lists(st.dictionaries(st.text(), JSON_VALUES, max_size=4), min_size=1, max_size=70))
def test_what_is_written_can_be_read(values):
    """All values come back that JSON has."""
    for value, text in zip(values, write_all(values) or (), strict=False):
        assert repr(read(text)) == repr(value)


RAISED_LIMIT = """
import sys
from typing import Any
from rsocket_trio import json_texts
from rsocket_trio.codecs import CborCodec, CodecError, JsonCodec
from rsocket_trio.codecs.mismatch import Mismatch
from rsocket_trio.lumberjack.log_handler import json_text

sys.setrecursionlimit(10**6)
of_itself = {}
of_itself["again"] = [of_itself, of_itself]
deep = []
for _ in range(90_000):
    deep = {"deep": deep}
"""


@pytest.mark.parametrize(
    ("written", "outcome"),
    [
        ("json_texts.write(deep)", "RecursionError"),
        ("json_texts.write(of_itself)", "RecursionError"),
        ("JsonCodec().encode(deep, Any)", "Mismatch"),
        ("CborCodec().encode(deep, Any)", "Mismatch"),
        ("json_text.encode_event(deep, 1000) or 1 / 0", "None"),
    ],
)
def test_a_raised_limit_of_recursion_is_no_crash(written, outcome):
    """The encoders in C went on until the stack of the process ended."""
    program = f"{RAISED_LIMIT}\ntry:\n    {written}\nexcept Exception as error:\n    "
    program += "print(type(error).__name__)\nelse:\n    print(None)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, outcome), done.stderr


@pytest.mark.parametrize("kind", [list, tuple, dict, set, frozenset])
def test_levels_are_counted_exactly(kind, monkeypatch):
    monkeypatch.setattr("rsocket_trio.json_texts.getrecursionlimit", lambda: 2000)
    inner = frozenset() if kind in (set, frozenset) else kind()
    for _ in range(9):
        inner = {1: inner} if kind is dict else frozenset([inner]) if kind is set else kind([inner])
    assert not is_too_deep(inner, 10)
    assert is_too_deep(inner, 9)


def test_parts_that_come_many_times_are_looked_at_once(monkeypatch):
    monkeypatch.setattr("rsocket_trio.json_texts.getrecursionlimit", lambda: 2000)
    many = []
    for _ in range(100):
        many = [many, many]
    assert not is_too_deep(many, 101)
    many.append(many)
    assert is_too_deep(many, 101)


def test_values_are_not_looked_at_under_the_usual_limit(monkeypatch):
    """The encoders raise an error then, and looking takes time."""
    monkeypatch.setattr("rsocket_trio.json_texts.getrecursionlimit", lambda: 1000)
    assert not is_too_deep([[[]]], 1)
