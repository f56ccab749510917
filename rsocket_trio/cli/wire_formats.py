"""The protocols whose frames ``decode`` can print: `register`, `wire_format`.

A protocol is added with one call of `register`. Its name is then a value of ``--protocol``, and its
summary is in the help text. The module that reads its frames is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final, Protocol, cast

import attrs

from rsocket_trio.cutting import Cut, Incomplete, StreamCutter

__all__ = [
    "Dump",
    "WireFormat",
    "frames_with_length",
    "register",
    "summaries",
    "wire_format",
]


class Dump(Protocol):
    """What a module of a protocol has."""

    def as_fields(self, frame: bytes) -> dict[str, object]:
        """Return the fields of a frame, for JSON. Raises `MalformedFrame`."""

    def describe(self, frame: bytes) -> str:
        """Return a frame as text."""


@attrs.frozen(kw_only=True)
class WireFormat:
    """The wire format of a protocol.

    Attributes:
        name: The value of ``--protocol``.
        summary: What the help text says about it.
        module: The module with the functions of `Dump`.
        cut: Cuts the bytes of a byte stream into frames, for ``--tcp``. ``None``: the frames show
            their own length, and the module has a function ``cut_frames``, used also without
            ``--tcp``.
        remembers: Frames can only be read by what earlier ones have said: the module has a function
            ``frame_cutter`` too, which returns what cuts all of the input, and has a method ``cut``
            for the bytes of one direction.
    """

    name: str
    summary: str
    module: str
    cut: Cut | None
    remembers: bool = False

    def load(self) -> Dump:
        """Import the module."""
        return cast("Dump", import_module(self.module))

    def cutter(self, *, tcp: bool) -> Cut:
        """Return what cuts the arguments of one command into frames, in their order.

        Args:
            tcp: Whether the frames are as on a byte stream.
        """
        if self.cut is not None:
            return self.cut if tcp else _whole
        module = import_module(self.module)
        if self.remembers:
            return cast("Cut", module.frame_cutter())
        return cast("Cut", module.cut_frames)

    def stream_cutter(self) -> StreamCutter:
        """Return what cuts one direction of a connection into frames."""
        if self.cut is not None:
            return StreamCutter(self.cut)
        module = import_module(self.module)
        return StreamCutter(module.frame_cutter().cut if self.remembers else module.cut_frames)

    def frames(self, data: bytes, *, tcp: bool) -> Iterator[bytes | ValueError]:
        """Return the frames in the bytes of one argument.

        Args:
            data: One frame; or several, with ``tcp`` or if the frames show their own length.
            tcp: Whether the frames are as on a byte stream.
        """
        return self.cutter(tcp=tcp)(data)


def _whole(data: bytes) -> Iterator[bytes | ValueError]:
    return iter([data])


_FORMATS: Final[dict[str, WireFormat]] = {}


def register(wire: WireFormat) -> None:
    """Add a protocol.

    Raises:
        ValueError: There is one of this name.
    """
    if wire.name in _FORMATS:
        raise ValueError(f"there are two wire formats with the name {wire.name!r}")
    _FORMATS[wire.name] = wire


def wire_format(name: str) -> WireFormat:
    """Return the protocol of this name, which is one of `summaries`."""
    return _FORMATS[name]


def summaries() -> dict[str, str]:
    """Return what the help text says about each protocol, by name."""
    return {name: wire.summary for name, wire in _FORMATS.items()}


def frames_with_length(size: int, *, counted: int = 0) -> Cut:
    """Return a function that cuts frames with a length before each.

    Args:
        size: Size of this length in bytes.
        counted: How many of these bytes the length includes.
    """

    def cut(data: bytes) -> Iterator[bytes | ValueError]:
        at = 0
        while True:
            left = len(data) - at
            if left < size:
                text = f"incomplete length prefix: {left} of {size} bytes"
                yield Incomplete(text, rest=left, whole=size)
                return
            length = int.from_bytes(data[at : at + size])
            frame_size = length - counted
            if frame_size < 0:
                text = (
                    f"the length is {length}, but it includes itself, so {counted} is the minimum"
                )
                yield ValueError(text)
                return
            left -= size
            if left < frame_size:
                text = f"incomplete frame: {left} of {frame_size} bytes"
                yield Incomplete(text, rest=size + left, whole=size + frame_size)
                return
            at += size + frame_size
            yield data[at - frame_size : at]
            if at == len(data):
                return

    return cut


# The first one is the default.
register(
    WireFormat(
        name="rsocket",
        summary="1.0, the default",
        module="rsocket_trio.frames.dump",
        cut=frames_with_length(3),  # Protocol.md, "Framing Protocol Usage": 24 bits on TCP.
    )
)
register(
    WireFormat(
        name="reactivesocket",
        summary="draft of 2015",
        module="rsocket_trio.reactivesocket.frames.dump",
        cut=frames_with_length(4, counted=4),
    )
)
register(
    WireFormat(
        name="lumberjack",
        summary="v1 and v2; several frames may follow one another, also without --tcp",
        module="rsocket_trio.lumberjack.wire.dump",
        cut=None,
    )
)
register(
    WireFormat(
        name="ttrpc",
        summary="several frames may follow one another, also without --tcp",
        module="rsocket_trio.ttrpc.wire.dump",
        cut=None,
    )
)
register(
    WireFormat(
        name="rsio",
        summary="several messages may follow one another, also without --tcp",
        module="rsocket_trio.rsio.wire.dump",
        cut=None,
        remembers=True,
    )
)
