"""Lines that are JSON objects become the fields of events, whatever they contain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio import json_texts
from rsocket_trio.cli import json_lines
from rsocket_trio.cli.json_lines import JsonPairWriter, JsonWriter
from rsocket_trio.logfiles import EXPANSION, Entry
from rsocket_trio.lumberjack import decode_json, decode_pairs, split_pairs

OWN = {"host": {"name": "h"}, "log": {"file": {"id": "5a", "path": "/a"}, "offset": 7}}
PAIRS = {"file": "/a", "file_id": "5a", "host": "h", "offset": "7"}


def events(*lines: bytes, **options: Any) -> list[dict[str, Any]]:
    """The events of version 2, without the time."""
    made = JsonWriter("/a", "5a", **({"host": "h", "fields": {}} | options))
    entries = [Entry(7, 9, line) for line in lines]
    found: list[Any] = [decode_json(raw) for raw in made.write(entries)]
    for event in found:
        assert event.pop("@timestamp").endswith("Z")
    return found


def event(line: bytes, **options: Any) -> dict[str, Any]:
    [found] = events(line, **options)
    return found


def pairs(line: bytes, **options: Any) -> dict[str, str]:
    """The event of version 1."""
    made = JsonPairWriter("/a", "5a", **({"host": "h", "fields": {}} | options))
    [raw] = made.write([Entry(7, 9, line)])
    assert len({name for name, _ in split_pairs(raw)}) == len(split_pairs(raw))
    return decode_pairs(raw)


def refused(line: str, reason: str) -> dict[str, Any]:
    return OWN | {"message": line, "error": {"message": f"the line {reason}", "type": "json"}}


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b'{"level":"info","message":"m","n":1}', {"level": "info", "message": "m", "n": 1}),
        (b' { "a" : [ 1 , {"b":null} ] }\t', {"a": [1, {"b": None}]}),
        (b"{}", {}),
        (b'{"message":{"a":1},"error":"e"}', {"message": {"a": 1}, "error": "e"}),
        (b'{"n":%s,"m":1.0,"k":-0.0}' % (b"9" * 400), {"n": int("9" * 400), "m": 1.0, "k": -0.0}),
        (b'{"n":18446744073709551616}', {"n": 2**64}),
        (b'{"a":1,"b":{"c":1,"c":2},"a":3}', {"a": 3, "b": {"c": 2}}),
        (b'{"a":"\\ud800","b":"\\ud83d\\ude00"}', {"a": "?", "b": "\U0001f600"}),
        (b'{"a":"\\u0000\\n"}', {"a": "\x00\n"}),
        (b'{"a\\u0000":1,"":2}', {"a\x00": 1, "": 2}),
        ('{"é":"é"}'.encode(), {"é": "é"}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
    ],
)
def test_a_json_object_becomes_fields(line: bytes, fields: dict[str, Any]) -> None:
    """Beside our own; below one name, if the user wants it."""
    assert repr(event(line)) == repr(OWN | fields)
    assert repr(event(line, key="app")) == repr(OWN | {"app": fields})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "is not JSON at character 0"),
        (b"text", "is not JSON at character 0"),
        (b'{"a":1', "is not JSON at character 6"),
        (b'{"a":1}{"b":2}', "is not JSON at character 7"),
        (b"[1]", "is JSON, but no object"),
        (b'"a"', "is JSON, but no object"),
        (b"null", "is JSON, but no object"),
        (b'{"a":NaN}', "is not JSON: it contains NaN or Infinity"),
        (b'{"a":-Infinity}', "is not JSON: it contains NaN or Infinity"),
        (b'{"a":1e400}', "contains a number that is too large"),
        (b'{"a":%s}' % (b"9" * 5000), "contains an integer that is too long"),
        (b'{"a":' * 201 + b"1" + b"}" * 201, "is nested too deeply"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is nested too deeply"),
        (b'{"a":\xff}', "is not JSON at character 5"),
    ],
)
def test_a_line_that_is_no_object_is_the_message(line: bytes, reason: str) -> None:
    """With the reason beside it, and at no cost of the lines around it; also below a name."""
    text = line.decode(errors="replace")
    good = b'{"a":1}'
    for options, wanted in (({}, {"a": 1}), ({"key": "app"}, {"app": {"a": 1}})):
        assert events(good, line, good, **options) == [
            OWN | wanted,
            refused(text, reason),
            OWN | wanted,
        ]
    error = {"message": f"the line {reason}", "type": "json"}
    found = pairs(line)
    assert json.loads(found.pop("error")) == error
    assert found == PAIRS | {"line": text}


@pytest.mark.parametrize(
    "name",
    [
        "@timestamp", "@metadata", "@version", "host", "host.name", "log", "log.file",
        "log.file.id", "log.file.path", "log.offset", "log.flags", "json", "fields", "fields.env",
    ],
)  # fmt: skip
def test_our_own_names_are_put_aside(name: str) -> None:
    """No line can change which line an event is; and no value of a line is lost."""
    escaped = "".join(f"\\u{ord(character):04x}" for character in name)
    line = b'{"x":1,"%s":{"offset":5},"y":2}' % escaped.encode()
    own = OWN | {"fields": {"env": "prod"}}
    found = event(line, fields={"env": "prod"})
    assert found == own | {"x": 1, "y": 2, "json": {name: {"offset": 5}}}
    if name.startswith("fields"):
        assert event(line) == OWN | {"x": 1, "y": 2, name: {"offset": 5}}
    below = event(line, key="app")
    assert below == OWN | {"app": {"x": 1, name: {"offset": 5}, "y": 2}}


def test_version_1() -> None:
    """Values that are no text are JSON, our own names are put aside, and one name has all."""
    line = b'{"level":"info","n":1.50,"ok":true,"no":null,"o":{"a":["\\u00e9"]},"offset":9,"env":1}'
    options = {"fields": {"env": "prod"}}
    assert pairs(line, **options) == PAIRS | {
        "level": "info", "n": "1.5", "ok": "true", "no": "null", "o": '{"a":["é"]}',
        "env": "prod", "json": '{"offset":9,"env":1}',
    }  # fmt: skip
    assert pairs(b'{"a":1,"offset":2}', key="app") == PAIRS | {"app": '{"a":1,"offset":2}'}
    assert pairs(b'{"@metadata":1,"@timestamp":"t"}') == PAIRS | {
        "@timestamp": "t",
        "json": '{"@metadata":1}',
    }
    for name in ("file", "file_id", "flags", "host", "json"):
        assert pairs(b'{"%s":"x"}' % name.encode()) == PAIRS | {"json": f'{{"{name}":"x"}}'}


def test_version_1_has_a_bounded_number_of_pairs() -> None:
    """Receivers refuse an event with too many for ever, so no line may make one."""
    many = json.dumps({str(n): n for n in range(600)}).encode()
    found = pairs(many)
    assert found.pop("line") == many.decode()
    assert "more than 512 fields" in found.pop("error")
    assert found == PAIRS
    assert len(pairs(json.dumps({str(n): n for n in range(512)}).encode())) == 512 + len(PAIRS)
    assert set(pairs(many, key="app")) == {*PAIRS, "app"}


def test_fields_that_are_no_utf_8() -> None:
    """Arguments of a command may have any bytes, as paths may."""
    assert event(b"{}", fields={"a": "\udcff"}, host="\udcfe") == OWN | {
        "host": {"name": "?"},
        "fields": {"a": "?"},
    }


def test_encodings() -> None:
    """A line is read in the encoding of its file."""
    assert event('{"a":"é"}'.encode("latin-1"), encoding="latin-1") == OWN | {"a": "é"}
    assert event(b"caf\xe9", encoding="latin-1")["message"] == "café"
    mark = b"\xef\xbb\xbf"
    made = JsonWriter("/a", "5a", host="h", fields={})
    [raw] = made.write([Entry(0, 9, mark + b'{"a":1}')])
    assert json.loads(raw)["a"] == 1


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_bytes_that_the_encoding_does_not_allow(encoding: str) -> None:
    """In an object as elsewhere; an escape stands in a string, so it is one of JSON."""
    options = {"encoding": encoding, "invalid": "backslashreplace"}
    assert event(b'{"a":"\xff\\\\x"}', **options) == OWN | {"a": "\\xff\\x"}
    assert event(b"\xff", **options)["message"] == "\\xff"
    assert event(b'{"a":"\xff"}', encoding=encoding) == OWN | {"a": "\ufffd"}


def test_flags_of_joined_and_cut_lines() -> None:
    """An object over several lines is one; a cut one is a message."""
    made = JsonWriter("/a", "5a", host="h", fields={})
    joined, cut = map(
        json.loads,
        made.write([Entry(0, 9, b'{\n"a":1\n}', lines=3), Entry(9, 20, b'{"a":"x', cut=True)]),
    )
    assert (joined["a"], joined["log"]["flags"]) == (1, ["multiline"])
    assert (cut["message"], cut["log"]["flags"]) == ('{"a":"x', ["truncated"])
    version_1 = JsonPairWriter("/a", "5a", host="h", fields={})
    [raw] = version_1.write([Entry(0, 9, b'{"flags":1,\n"a":2}', lines=2)])
    assert decode_pairs(raw) == PAIRS | {
        "a": "2",
        "flags": "multiline",
        "json": '{"flags":1}',
        "offset": "0",
    }


TEXTS = st.text(max_size=4) | st.sampled_from(["host", "log", "json", "a", "\ud800", "\x00"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
LINES = st.lists(
    st.dictionaries(TEXTS, VALUES, max_size=4).map(json.dumps).map(str.encode)
    | VALUES.map(json.dumps).map(str.encode)
    | st.binary(max_size=8)
    | st.text('{}[]",:\\ud8019.-+eEtrufalsn \t', max_size=12).map(str.encode)
    | st.integers(195, 203).map(lambda n: b'{"a":%s1%s}' % (b"[" * n, b"]" * n))
    | st.integers(195, 203).map(lambda n: b'{"a":%s%s}' % (b"[" * n, b"]" * n)),
    max_size=5,
)  # fmt: skip


def no_text(raw: bytes) -> object:
    raise ValueError


@given(LINES, st.sampled_from([None, "app"]))
@example([b'{"a":1e400}', b'{"a":1}'], None)
@example([b'{"a":' + b"[" * n + b"]" * n + b"}" for n in range(197, 202)], None)
@example([b'{"a":' + b"[" * n + b"1" + b"]" * n + b"}" for n in range(197, 202)], "app")
def test_the_same_as_of_json(lines: list[bytes], key: str | None) -> None:
    """Any lines become valid events, in both versions, and those that `json` alone makes."""
    found = events(*lines, key=key)
    versions = [pairs(line, key=key) for line in lines]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_texts, "_read", no_text)
        patch.setattr(json_lines, "write_all", lambda fields: None)
        assert repr(events(*lines, key=key)) == repr(found)
        assert [pairs(line, key=key) for line in lines] == versions
    for each in found:
        assert each | OWN == each  # nothing of ours has another value


@given(LINES, st.sampled_from(["utf-8", "latin-1", "gbk", "utf-7"]))
def test_the_size_is_bounded(lines: list[bytes], encoding: str) -> None:
    """As for other lines: servers refuse events above 16 MiB for ever."""
    made = JsonWriter("/a", "5a", host="h", fields={}, encoding=encoding)
    empty = len(made.write([Entry(7, 9, b"{}")])[0])
    for line in lines:
        [raw] = made.write([Entry(7, 9, line)])
        assert len(raw) - empty <= EXPANSION * len(line) + 150
