"""Reading many JSON texts gives the same with orjson and without."""

from __future__ import annotations

import importlib.util
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio.lumberjack.wire import json_texts
from rsocket_trio.lumberjack.wire.json_texts import NotJSON, read_all, read_json, slices

needs_orjson = pytest.mark.skipif(
    importlib.util.find_spec("orjson") is None, reason="orjson is not installed"
)
READERS = [
    pytest.param(None, id="json"),
    pytest.param("orjson", id="orjson", marks=needs_orjson),
]


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    """Each test runs without orjson, and with it."""
    loads = importlib.import_module("orjson").loads if request.param else None
    monkeypatch.setattr(json_texts, "_orjson_loads", loads)


def outcome(read, raw):
    """The value with its types, or the kind of the error."""
    try:
        return repr(read(raw))
    except ValueError as error:
        return "invalid constant" if isinstance(error, NotJSON) else "invalid"


NUMBERS = [
    "0", "-0", "-0.0", "1e5", "1E+5", "1.0", "1e400", "-1e400", "1e-400", "01", "1.", ".5",
    "+1", "-",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "123456789012345678901234567890",
    "-123456789012345678901234567890", "12345678901234567890123.5", "0.1234567890123456789012345",
    "1" * 5000,
]  # fmt: skip
OTHERS = [
    "NaN", "Infinity", "-Infinity", "nul", "", " ", "[1,]", "[1 2]", '{"a":1,}', "{'a':1}",
    "{a:1}",
    '{"a":1,"a":2}', '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"\x00"', '"\x1f"', '"\x7f"',
    '"\n"',
    '"\\x"', "\ufeff{}", "{}\ufeff", " {} ", "{}\x0b", "{}\xa0", "{}x", "{}{}", "{},{}",
    "1],[2", "{}//",
    '"18446744073709551616"', '{"18446744073709551616":1}',
]  # fmt: skip


@pytest.mark.parametrize("text", [*NUMBERS, *OTHERS])
@pytest.mark.parametrize("shape", ["%s", '{"a":%s}', '[{"a":"b"},%s]'])
def test_the_same_values_and_errors(reader, text, shape):
    """`json` says what each text means."""
    raw = shape.replace("%s", text).encode("utf-8", "surrogatepass")
    assert outcome(lambda raw: read_all([raw])[0], raw) == outcome(read_json, raw)


@pytest.mark.parametrize("raw", [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc3', b"\xff\xfe{\x00}\x00"])
def test_what_is_not_utf_8(reader, raw):
    """Such a text is not read, alone or among others."""
    for raws in ([raw], [b"{}", raw, b"{}"]):
        with pytest.raises(ValueError):
            read_all(raws)


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
def test_texts_do_not_complete_each_other(reader, raws):
    """Each text must be valid alone."""
    with pytest.raises(ValueError):
        read_all(raws)


def test_long_integers_beside_each_other(reader):
    """The digits of two texts do not count together, and neither is changed."""
    raws = [b"-1234567890123456789", b"9223372036854775808", b"18446744073709551616"]
    assert read_all(raws) == [-1234567890123456789, 2**63, 2**64]
    assert [type(value) for value in read_all(raws)] == [int, int, int]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@needs_orjson
@given(st.lists(JSON_VALUES, max_size=5), st.booleans())
def test_any_values(values, ascii_only):
    """orjson and `json` read the same from what Python writes."""
    raws = [
        json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace") for value in values
    ]
    loads = importlib.import_module("orjson").loads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_texts, "_orjson_loads", None)
        expected = [outcome(lambda raw: read_all([raw])[0], raw) for raw in raws]
        patch.setattr(json_texts, "_orjson_loads", loads)
        assert [outcome(lambda raw: read_all([raw])[0], raw) for raw in raws] == expected


@needs_orjson
@given(st.binary(max_size=12) | st.text('{}[]",:\\ud8019.-+eEtrufalsn \t\n', max_size=12))
@example(b"-")
@example("[-0]")
def test_any_bytes(raw):
    """orjson and `json` agree about any bytes."""
    raw = raw if isinstance(raw, bytes) else raw.encode()
    loads = importlib.import_module("orjson").loads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_texts, "_orjson_loads", loads)
        assert outcome(lambda raw: read_all([raw])[0], raw) == outcome(read_json, raw)


@given(st.lists(st.integers(1, 100_000), max_size=300))
def test_slices(sizes):
    """They have all events in order; none has more than its size, unless it is one event."""
    raws = [bytes(size) for size in sizes]
    found = list(slices(raws))
    assert [raw for part in found for raw in part] == raws
    assert all(0 < len(part) <= 64 for part in found)
    assert all(len(part) == 1 or sum(map(len, part)) <= 2**16 for part in found)
