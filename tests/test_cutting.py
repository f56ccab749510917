"""Frames of every wire out of a stream of bytes, in any pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import cutting
from rsocket_trio.cli.wire_formats import summaries, wire_format
from rsocket_trio.cutting import Incomplete, StreamCutter

TESTS = Path(__file__).parent


def vectors(name: str, key: str | None, hexadecimal: str = "hex") -> list[bytes]:
    found = json.loads((TESTS / name).read_text())
    return [
        bytes.fromhex(each[hexadecimal])
        for each in (found if key is None else found[key])
        if each.get("kind", "frame") in {"frame", "v0-frame"} and hexadecimal in each
    ]


STREAMS = {
    "rsocket": vectors("vectors/rsocket.json", None, "tcp_hex"),
    "reactivesocket": vectors("vectors/reactivesocket.json", None, "tcp_hex"),
    "lumberjack": vectors("vectors/lumberjack.json", "frames"),
    "ttrpc": vectors("ttrpc/vectors/ttrpc.json", "frames"),
    "rsio": [bytes.fromhex(each) for each in ("200204", "21020000002a", "2202")],
}


def cut(name: str, pieces: list[bytes]) -> list[bytes | str]:
    cutter = wire_format(name).stream_cutter()
    found = [each for piece in pieces for each in cutter.feed(piece)] + list(cutter.end())
    return [str(each) if isinstance(each, ValueError) else each for each in found]


def test_every_wire_is_here():
    """A new one needs no code of its own, but says what is incomplete."""
    assert set(STREAMS) == set(summaries())


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 7, 10**9])
def test_pieces_make_no_difference(name: str, size: int):
    """The frames are those of the whole, and an end inside of the last one is an error."""
    data = b"".join(STREAMS[name])
    assert len(STREAMS[name]) > 2
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    found = cut(name, pieces)
    assert found == cut(name, [data])
    assert len(found) >= len(STREAMS[name])
    assert all(isinstance(each, bytes) for each in found)
    *whole, error = cut(name, [*pieces[:-1], pieces[-1][:-1]])
    assert whole == found[:-1]
    assert isinstance(error, str)


@pytest.mark.parametrize("name", STREAMS)
@given(data=st.binary(max_size=40), at=st.integers(0, 40))
def test_any_bytes(name: str, data: bytes, at: int):
    """Two pieces or one: the same frames and the same error, and nothing behind an error."""
    found = cut(name, [data[:at], data[at:]])
    assert found == cut(name, [data])
    assert all(isinstance(each, bytes) for each in found[:-1])


def test_a_long_frame_takes_linear_time():
    """A frame whose size is not known is not read anew for each of its pieces."""
    read = 0

    def one_frame(data: bytes):
        nonlocal read
        read += len(data)
        yield Incomplete("", rest=len(data)) if data[-1:] != b"!" else data

    cutter = StreamCutter(one_frame)
    for _ in range(4000):
        assert list(cutter.feed(bytes(1000))) == []
    assert list(cutter.feed(b"!")) == []
    assert list(cutter.end()) == [bytes(4_000_000) + b"!"]
    assert read < 40_000_000


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """A frame that says it is too long is refused before its bytes are kept."""
    monkeypatch.setattr(cutting, "MAX_HELD", 1000)
    cutter = wire_format("rsocket").stream_cutter()
    (error,) = cutter.feed(b"\x00\x10\x00abc")
    assert "more than 1000 bytes" in str(error)
    assert list(cutter.feed(bytes(5000))) == []
    assert list(cutter.end()) == []
