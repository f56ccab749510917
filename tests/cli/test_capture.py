"""``decode`` of captures: packets put together to the frames of connections."""

from __future__ import annotations

import io
import json
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from rsocket_trio.cli import capture
from rsocket_trio.cli.capture import captured
from rsocket_trio.cli.main import main
from rsocket_trio.frames.length import join_frames

dpkt = pytest.importorskip("dpkt")

CLIENT, SERVER = ("10.0.0.1", 50000), ("10.0.0.2", 7878)
SYN, ACK, FIN, RST = 2, 16, 1, 4
PING, PONG = (bytes.fromhex(each) for each in ("00000001100070696e67", "000000012860706f6e67"))


def packet(source: Any, target: Any, seq: int, data: bytes = b"", flags: int = ACK, link: int = 1):
    segment = dpkt.tcp.TCP(
        sport=source[1], dport=target[1], seq=seq % 2**32, flags=flags, data=data
    )
    four = ":" not in source[0]
    family = socket.AF_INET if four else socket.AF_INET6
    ends = {"src": socket.inet_pton(family, source[0]), "dst": socket.inet_pton(family, target[0])}
    if four:
        carried = dpkt.ip.IP(p=6, data=segment, **ends)
        carried.len = len(carried)
    else:
        carried = dpkt.ip6.IP6(nxt=6, plen=len(segment), data=segment, **ends)
    if link == 101:
        return bytes(carried)
    if link == 113:
        return bytes(dpkt.sll.SLL(ethtype=0x0800 if four else 0x86DD, data=carried))
    if link == 0:
        return b"\x02\0\0\0" + bytes(carried)
    kind = 0x0800 if four else 0x86DD
    padded = bytes(dpkt.ethernet.Ethernet(type=kind, data=carried))
    return padded + bytes(max(0, 60 - len(padded)))  # Ethernet fills small packets up


def written(packets: list[bytes], link: int = 1, form: Any = None) -> bytes:
    file = io.BytesIO()
    if form is None:
        writer = dpkt.pcap.Writer(file, linktype=link)
    else:
        block = dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=link)
        writer = form.Writer(file, idb=block)
    for number, each in enumerate(packets):
        writer.writepkt(each, ts=1700000000 + number)
    return file.getvalue()


def shown(data: bytes, **options: Any) -> list[tuple[str, object]]:
    arguments = {"protocol": "rsocket", "port": None, **options}
    return [
        (
            str(each.facts.get("from")),
            str(each.frame) if isinstance(each.frame, ValueError) else each.frame,
        )
        for each in captured(io.BufferedReader(io.BytesIO(data)), **arguments)
    ]


def conversation(link: int = 1, first: int = 100) -> list[bytes]:
    """A request in two segments, and its answer."""
    asked, answered = join_frames([PING]), join_frames([PONG])
    here, there = (CLIENT, SERVER), (SERVER, CLIENT)
    return [
        packet(*here, first - 1, flags=SYN, link=link),
        packet(*there, 499, flags=SYN | ACK, link=link),
        packet(*here, first, asked[:5], link=link),
        packet(*here, first + 5, asked[5:], link=link),
        packet(*there, 500, answered, link=link),
        packet(*here, first + len(asked), flags=FIN | ACK, link=link),
        packet(*there, 500 + len(answered), flags=FIN | ACK, link=link),
    ]


BOTH = [("10.0.0.1:50000", PING), ("10.0.0.2:7878", PONG)]


@pytest.mark.parametrize("link", [0, 1, 101, 113])
def test_both_directions(link: int):
    """In pcap and pcapng, over each kind of link."""
    packets = conversation(link)
    assert shown(written(packets, link)) == BOTH
    assert shown(written(packets, link, dpkt.pcapng)) == BOTH


def test_segments_in_any_order():
    """Doubled, overlapping and late segments change nothing, also where numbers begin anew."""
    random.seed(3)
    data = join_frames([PING] * 20)
    for first in (7, 2**32 - 20):
        parts = [(at, data[at : at + random.randrange(1, 30)]) for at in range(0, len(data), 5)]
        parts += [(at, data[at : at + 5]) for at in range(0, len(data), 5)]
        random.shuffle(parts)
        packets = [packet(CLIENT, SERVER, first - 1, flags=SYN)]
        packets += [packet(CLIENT, SERVER, first + at, part) for at, part in parts]
        assert shown(written(packets)) == [("10.0.0.1:50000", PING)] * 20


def test_a_gap_is_an_error():
    """The frames before it are shown, and how much is behind it."""
    packets = conversation()
    found = shown(written(packets[:2] + packets[3:]))
    assert found[0] == BOTH[1]
    assert "bytes are missing in the capture: 8 behind them" in str(found[1][1])


def test_ports_and_connections_that_come_again():
    """--port leaves out others; the same ports again are another connection."""
    others = [packet(("10.0.0.1", 1), ("10.0.0.2", 2), 5, b"other protocol")]
    both = written([*others, *conversation(), *conversation(first=7000)])
    assert shown(both, port=7878) == BOTH * 2
    assert len(shown(both)) == 5
    assert shown(both, port=9) == []


def test_a_capture_that_begins_late():
    """Without the beginning, the server is at the port that was asked for, or at the lower one."""
    packets = conversation()[2:]
    assert shown(written(packets)) == BOTH
    assert shown(written(packets), port=7878) == BOTH


def test_ipv6():
    """Its addresses are in brackets."""
    data = join_frames([PING])
    packets = [packet(("::1", 50000), ("::1", 7878), 5, data)]
    assert shown(written(packets)) == [("[::1]:50000", PING)]


def test_websocket():
    """It is recognised by its handshake."""
    head = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
    frame = bytes([0x82, 0x80 | len(PING)]) + bytes(4) + PING
    answer = b"HTTP/1.1 101 Switching\r\n\r\n" + bytes([0x82, len(PONG)]) + PONG
    packets = [packet(CLIENT, SERVER, 5, head + frame), packet(SERVER, CLIENT, 5, answer)]
    assert shown(written(packets)) == BOTH


@pytest.mark.parametrize("size", [23, 24, 30, 60, 100, 137, 200, -1])
def test_damaged_captures(size: int):
    """A file that is cut off, or overwritten at any place, ends in frames or errors in words."""
    whole = written(conversation())
    shown(whole[:size])
    random.seed(size)
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(random.randrange(1, 8)):
            damaged[random.randrange(4, len(damaged))] = random.randrange(256)
        shown(bytes(damaged))
        shown(whole[:4] + random.randbytes(100))
        shown(b"\n\r\r\n" + random.randbytes(100))


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """A file, as text and as JSON; damage is status 1."""
    file = tmp_path / "a.pcap"
    file.write_bytes(written(conversation()))
    assert main(["decode", f"@{file}", "--port", "7878"]) == 0
    assert capfd.readouterr().out.startswith(
        "10.0.0.1:50000 > 10.0.0.2:7878: REQUEST_RESPONSE stream_id=1 data=4 bytes b'ping'\n"
    )
    assert main(["decode", f"@{file}", "--json"]) == 0
    first, _ = map(json.loads, capfd.readouterr().out.splitlines())
    assert first["from"] == "10.0.0.1:50000"
    assert first["time"].endswith("Z")
    assert first["type"] == "REQUEST_RESPONSE"
    file.write_bytes(written(conversation()[:5])[:-8])
    assert main(["decode", f"@{file}"]) == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Behind a gap only so much waits, and only so many connections are open."""
    monkeypatch.setattr(capture, "_MOST_WAITING", 1000)
    monkeypatch.setattr(capture, "_MOST_CONNECTIONS", 2)
    packets = [packet(CLIENT, SERVER, 0, flags=SYN)]
    packets += [packet(CLIENT, SERVER, 100 + at * 500, bytes(500)) for at in range(20)]
    (found,) = shown(written(packets))
    assert "1500 behind them" in str(found[1])
    many = [packet(("10.0.0.1", 60000 + n), SERVER, 5, b"\0") for n in range(5)]
    assert len(shown(written(many))) == 5
