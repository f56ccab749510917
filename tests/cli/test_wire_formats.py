"""The protocols that ``decode`` knows."""

from __future__ import annotations

import pytest

from rsocket_trio.cli import wire_formats
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.cli.wire_formats import WireFormat, frames_with_length, register, summaries
from rsocket_trio.lumberjack.wire import dump


def test_the_order() -> None:
    """The first is the default."""
    assert list(summaries()) == ["rsocket", "reactivesocket", "lumberjack", "ttrpc", "rsio"]
    assert build_parser().parse_args(["decode", "00"]).protocol == "rsocket"


def test_a_protocol_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call is enough for the option and its help text."""
    monkeypatch.setattr(wire_formats, "_FORMATS", {**wire_formats._FORMATS})
    wire = WireFormat(
        name="own",
        summary="words for the help",
        module="rsocket_trio.lumberjack.wire.dump",
        cut=frames_with_length(1),
    )
    register(wire)
    with pytest.raises(ValueError, match="two wire formats with the name 'own'"):
        register(wire)
    parser = build_parser()
    assert parser.parse_args(["decode", "--protocol", "own", "00"]).protocol == "own"
    assert wire_formats.wire_format("own").load() is dump
    assert list(wire.frames(b"\1a\2bc", tcp=True)) == [b"a", b"bc"]
    assert list(wire.frames(b"\1a\2bc", tcp=False)) == [b"\1a\2bc"]


def test_every_protocol_has_its_functions() -> None:
    """A module without them would fail only when it is used."""
    for name in summaries():
        wire = wire_formats.wire_format(name)
        assert callable(wire.load().as_fields)
        assert wire.load().describe(b"").startswith("malformed")
        assert next(wire.frames(bytes.fromhex("324100000001"), tcp=False))
