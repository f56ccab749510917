"""Frames out of the packets of a capture, a file of libpcap or pcapng: `captured`.

Each direction of a TCP connection is put together from its segments: those that come twice, out of
order or overlapping. What is missing in the capture ends the direction with an error.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, TypeAlias

import attrs

from .conversation import Conversation
from .decode import Found
from .exits import USAGE, Failure
from .output import utc

__all__ = ["captured"]

_MOST_CONNECTIONS: Final = 4096
"""Connections that are open at once. The oldest one is given up for a further one."""
_MOST_WAITING: Final = 16 * 2**20
"""Bytes of a direction that wait for a segment before them."""
_MOST_SEGMENTS: Final = 1024
"""Their segments."""

_End: TypeAlias = tuple[str, int]
"""An address and a port."""


def captured(file: BinaryIO, protocol: str, port: int | None) -> Iterator[Found]:
    """Yield the frames of the TCP connections in a capture, as they are whole.

    Args:
        file: The capture.
        protocol: The protocol of the connections.
        port: Only connections to this port of a server; ``None`` for all.

    Raises:
        Failure: The extra ``pcap`` is not installed.
    """
    try:
        import dpkt
    except ImportError as error:
        text = "captures need another package: pip install 'rsocket-trio[pcap]'"
        raise Failure(text, USAGE) from error
    assembly = _Assembly(protocol, port)
    problem = ""
    try:
        begin = file.peek(4)[:4]  # type: ignore[attr-defined]  # it is buffered
        reader = (dpkt.pcapng if begin == b"\n\r\r\n" else dpkt.pcap).Reader(file)
        link = _LINKS.get(reader.datalink())
        if link is None:
            problem = f"the link type {reader.datalink()} of the capture is not read"
        else:
            for moment, packet in reader:
                segment = _segment(link, packet)
                if segment is not None:
                    yield from assembly.feed(float(moment), *segment)
    except OSError:
        raise
    except Exception as error:  # the package raises what its parts raise, struct.error for example
        problem = f"the capture is damaged: {error}"
    yield from assembly.end()
    if problem:
        yield Found(frame=ValueError(problem), reader=Conversation(protocol).reader)


_LINKS: Final = {
    0: "loopback.Loopback",
    1: "ethernet.Ethernet",
    12: "",
    14: "",
    101: "",
    108: "loopback.Loopback",
    113: "sll.SLL",
    228: "",
    229: "",
    276: "sll2.SLL2",
}
"""The classes of dpkt that read a packet, by the link type; none where packets are bare IP."""


def _segment(link: str, packet: bytes) -> tuple[_End, _End, Any] | None:
    """Return source, destination and segment of a packet of TCP, ``None`` for all others."""
    import dpkt

    try:
        if link:
            module, _, name = link.partition(".")
            carried: Any = getattr(getattr(dpkt, module), name)(packet).data
        else:
            carried = (dpkt.ip6.IP6 if packet[:1] >= b"\x60" else dpkt.ip.IP)(packet)
        segment = carried.data
        if not isinstance(segment, dpkt.tcp.TCP):
            return None
        source, target = (str(ipaddress.ip_address(each)) for each in (carried.src, carried.dst))
    except Exception:  # as in `captured`; a packet of another protocol may be anything
        return None
    return (source, segment.sport), (target, segment.dport), segment


@attrs.define(kw_only=True)
class _Direction:
    """The segments of one direction.

    Attributes:
        next: The number of the next byte; ``None`` until there is a segment.
        waiting: Segments behind a gap, by their number.
        size: How many bytes they are.
        over: Nothing more is read.
    """

    next: int | None = None
    waiting: dict[int, bytes] = attrs.field(factory=dict)
    size: int = 0
    over: bool = False

    def feed(self, number: int, data: bytes) -> Iterator[bytes]:
        """Yield the bytes that are in order now."""
        if self.next is None:
            self.next = number
        if data and len(data) > len(self.waiting.get(number, b"")):
            self.size += len(data) - len(self.waiting.get(number, b""))
            self.waiting[number] = data
        while self.waiting:
            for begin in self.waiting:
                done = (self.next - begin) % 2**32
                if done < 2**31:  # it begins at the next byte, or before it
                    break
            else:
                return
            held = self.waiting.pop(begin)
            self.size -= len(held)
            if done < len(held):
                self.next = (self.next + len(held) - done) % 2**32
                yield held[done:]


class _Connection:
    def __init__(self, protocol: str, client: _End, server: _End) -> None:
        self.conversation = Conversation(protocol)
        self.client = client
        self.server = server
        self.sides = {True: _Direction(), False: _Direction()}


class _Assembly:
    """Puts the connections of a capture together."""

    def __init__(self, protocol: str, port: int | None) -> None:
        self._protocol = protocol
        self._port = port
        self._connections: dict[frozenset[_End], _Connection] = {}

    def feed(self, moment: float, source: _End, target: _End, segment: Any) -> Iterator[Found]:
        flags = int(segment.flags)
        begins, ends, reset = bool(flags & 0x02), bool(flags & 0x01), bool(flags & 0x04)
        if self._port not in (None, source[1], target[1]):
            return
        ends_of = frozenset((source, target))
        known = self._connections.get(ends_of)
        if begins and not flags & 0x10 and known is not None:  # the ports are used again
            yield from self._end(ends_of, moment)
            known = None
        if known is None:
            if reset or (not begins and not segment.data):
                return
            if len(self._connections) >= _MOST_CONNECTIONS:
                yield from self._end(next(iter(self._connections)), moment)
            client, server = self._roles(source, target, begins=begins, flags=flags)
            known = _Connection(self._protocol, client, server)
            self._connections[ends_of] = known
        from_client = source == known.client
        side = known.sides[from_client]
        number = (segment.seq + begins) % 2**32
        for data in side.feed(number, b"" if side.over else bytes(segment.data)):
            found = known.conversation.feed(data, from_client=from_client)
            yield from self._shown(known, found, moment, from_client=from_client)
        if side.size > _MOST_WAITING or len(side.waiting) > _MOST_SEGMENTS:
            side.over = True
        side.over = side.over or (ends and not side.waiting)
        if reset or all(each.over for each in known.sides.values()):
            yield from self._end(ends_of, moment)

    def end(self) -> Iterator[Found]:
        """Yield the errors of what is not whole at the end of the capture."""
        for ends_of in list(self._connections):
            yield from self._end(ends_of, None)

    def _roles(self, source: _End, target: _End, *, begins: bool, flags: int) -> tuple[_End, _End]:
        # Without the beginning of the connection, the server is at the port that was asked for, or
        # at the lower one.
        accepts = begins and flags & 0x10
        if begins:
            return (target, source) if accepts else (source, target)
        if self._port is not None:
            return (target, source) if source[1] == self._port else (source, target)
        return (source, target) if source[1] > target[1] else (target, source)

    def _end(self, ends_of: frozenset[_End], moment: float | None) -> Iterator[Found]:
        known = self._connections.pop(ends_of)
        for from_client, side in known.sides.items():
            if side.waiting:
                text = f"bytes are missing in the capture: {side.size} behind them are not read"
                error = iter([ValueError(text)])
                yield from self._shown(known, error, moment, from_client=from_client)
            found = known.conversation.end(from_client=from_client)
            yield from self._shown(known, found, moment, from_client=from_client)

    def _shown(
        self,
        known: _Connection,
        frames: Iterator[bytes | ValueError],
        moment: float | None,
        *,
        from_client: bool,
    ) -> Iterator[Found]:
        ends = [_name(known.client), _name(known.server)]
        source, target = ends if from_client else reversed(ends)
        facts: dict[str, object] = {} if moment is None else {"time": utc(moment)}
        for frame in frames:
            yield Found(
                frame=frame,
                reader=known.conversation.reader,
                facts={**facts, "from": source, "to": target},
                label=f"{source} > {target}: ",
            )


def _name(end: _End) -> str:
    host, port = end
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
