"""Events as lines: one printable line each, with the same meaning."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.cli.event_lines import event_line, invalid_line
from rsocket_trio.lumberjack import InvalidEvent, decode_json, encode_pairs

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t", "\r\n"]))
def test_any_event(value: object, ascii_only: bool, indent: int | str | None) -> None:
    """The line is printable, and is the JSON text of the same value."""
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(errors="surrogatepass")
    try:
        line = event_line(raw, is_json=True)
    except InvalidEvent:  # half of a surrogate pair is no UTF-8
        assert not ascii_only
        return
    text = line.decode().removesuffix("\n")
    assert text.isprintable()
    assert decode_json(text.encode()) == decode_json(raw)
    # Printing a line again does not change it.
    assert event_line(text.encode(), is_json=True) == line


@given(st.dictionaries(st.text(), st.text()))
def test_any_pairs(pairs: dict[str, str]) -> None:
    """Key-value pairs become an object."""
    raw = encode_pairs([(key.encode(), value.encode()) for key, value in pairs.items()])
    line = event_line(raw, is_json=False).decode().removesuffix("\n")
    assert line.isprintable()
    assert json.loads(line) == pairs


@given(st.binary(), st.booleans())
def test_any_invalid_event(raw: bytes, as_json: bool) -> None:
    """All of its bytes are in one printable line."""
    line = invalid_line(raw, InvalidEvent("is wrong"), "a\x1b", as_json=as_json).decode()
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    if as_json:
        fields = json.loads(line)
        found = fields.get("invalid_event")
        assert (found.encode() if found is not None else
                bytes.fromhex(fields["invalid_event_hex"])) == raw  # fmt: skip
        assert (fields["reason"], fields["from"]) == ("is wrong", "a\x1b")
    else:
        assert line.startswith("rsocket-trio: an event from a\\x1b is wrong: ")


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"NaN", b"[" * 100_000])
def test_no_event(raw: bytes) -> None:
    """Bytes that are not JSON are refused."""
    with pytest.raises(InvalidEvent):
        event_line(raw, is_json=True)


@pytest.mark.parametrize("kind", ["event", "pairs", "invalid"])
@pytest.mark.parametrize("character", ["\x7f", "\u2028", "\U000e0001"])
def test_the_memory_for_an_event_of_characters_that_cannot_be_printed(
    kind: str, character: str
) -> None:
    """It is a small multiple of the event and of its line, also if no character is printable."""
    text = (character * (500_000 // len(character.encode()))).encode()
    pairs = encode_pairs([(b"key", text)])
    tracemalloc.start()
    try:
        if kind == "event":
            line = event_line(b'"%s"' % text, is_json=True)
        elif kind == "pairs":
            line = event_line(pairs, is_json=False)
        else:
            line = invalid_line(text, InvalidEvent("is wrong"), "a", as_json=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * (len(text) + len(line))


def test_all_characters() -> None:
    """More than a table of escapes remembers."""
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    for _ in range(2):
        line = event_line(json.dumps(text, ensure_ascii=False).encode(), is_json=True).decode()
        assert line[:-1].isprintable()
        assert json.loads(line) == text
