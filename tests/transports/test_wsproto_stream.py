"""WebSocket over one of our streams: pongs, refusals, and every way it can end."""

from __future__ import annotations

import struct
from functools import partial

import pytest
import trio
import trio.testing
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.transports import TransportInfo, WsprotoTransport


class Peer:
    """A client that uses wsproto alone."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.connection = Connection(ConnectionType.CLIENT)

    async def send(self, *events: Event) -> None:
        await self.stream.send_all(b"".join(map(self.connection.send, events)))

    async def receive(self) -> list[Event]:
        data = bytes(await self.stream.receive_some())
        self.connection.receive_data(data or None)
        return list(self.connection.events())


def make(max_frame_size: int = 1000) -> tuple[WsprotoTransport, Peer]:
    ours, theirs = trio.testing.memory_stream_pair()
    transport = WsprotoTransport(
        ours,
        Connection(ConnectionType.SERVER),
        info=TransportInfo(scheme="ws"),
        max_frame_size=max_frame_size,
    )
    return transport, Peer(theirs)


async def test_a_ping_wakes_the_writer_who_sends_the_pong(nursery: trio.Nursery) -> None:
    """The reader only asks for it; sending no frames sends the pong, once."""
    transport, peer = make()
    woken = trio.Event()
    transport.wake_writer = woken.set
    nursery.start_soon(transport.receive_frames)
    await peer.send(Ping(payload=b"first"), Ping(payload=b"latest"))
    await woken.wait()
    await transport.send_frames([])
    assert await peer.receive() == [Pong(payload=b"latest")]
    await transport.send_frames([b"frame"])
    assert await peer.receive() == [BytesMessage(data=b"frame")]
    nursery.cancel_scope.cancel()


async def test_without_a_writer_the_pong_leaves_with_the_next_frame() -> None:
    """A pong is not forgotten if no writer can be woken."""
    transport, peer = make()
    await peer.send(Ping(payload=b"p"), BytesMessage(data=b"frame"))
    assert await transport.receive_frames() == [b"frame"]
    await transport.send_frames([b"answer"])
    assert await peer.receive() == [Pong(payload=b"p"), BytesMessage(data=b"answer")]


async def test_a_pong_of_the_peer_is_ignored() -> None:
    """Unexpected pongs are skipped."""
    transport, peer = make()
    await peer.send(Pong(payload=b"?"), BytesMessage(data=b"frame"))
    assert await transport.receive_frames() == [b"frame"]


@pytest.mark.parametrize(
    ("event", "why", "code"),
    [
        (TextMessage(data="text"), "text", 1003),
        (BytesMessage(data=bytes(1001)), "1001 bytes", 1009),
    ],
)
async def test_a_malformed_message_is_refused_with_a_code(
    event: Event, why: str, code: int
) -> None:
    """Frames before it are returned first; sending still works; closing sends the code."""
    transport, peer = make()
    await peer.send(BytesMessage(data=b"good"), event)
    assert await transport.receive_frames() == [b"good"]
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=why):
            await transport.receive_frames()
    await transport.send_frames([b"error"])
    assert await peer.receive() == [BytesMessage(data=b"error")]
    await transport.aclose()
    (close,) = await peer.receive()
    assert isinstance(close, CloseConnection)
    assert close.code == code


async def test_a_protocol_violation_is_refused() -> None:
    """A client must mask; wsproto's error becomes ours."""
    transport, peer = make()
    await peer.stream.send_all(b"\x82\x05frame")
    with pytest.raises(RemoteProtocolError, match="unmasked"):
        await transport.receive_frames()
    await transport.aclose()
    (close,) = await peer.receive()
    assert isinstance(close, CloseConnection)
    assert close.code == 1002


@pytest.mark.parametrize("code", [1000, 1001, None])
async def test_a_clean_close(code: int | None) -> None:
    """Codes "normal", "going away" and no code are the end; the answer echoes the code."""
    transport, peer = make()
    await peer.send(BytesMessage(data=b"last"), CloseConnection(code=code))  # type: ignore[arg-type] # wsproto takes None
    assert await transport.receive_frames() == [b"last"]
    with trio.testing.assert_checkpoints():
        assert await transport.receive_frames() == []
    with pytest.raises(trio.BrokenResourceError, match="closed"):
        await transport.send_frames([b"late"])
    await transport.aclose()
    (close,) = await peer.receive()
    assert isinstance(close, CloseConnection)
    assert close.code == (code or 1005)


@pytest.mark.parametrize(
    ("code", "text"), [(1011, "1011 INTERNAL_ERROR: why"), (1008, "1008"), (4999, "4999: why")]
)
async def test_an_unclean_close(code: int, text: str) -> None:
    """Any other code is an error that names code and reason, every time."""
    transport, peer = make()
    await peer.send(CloseConnection(code=code, reason="why"))
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError, match=text):
            await transport.receive_frames()


async def test_the_reason_of_a_close_is_escaped() -> None:
    """The peer writes it: it must forge no line of a log, and not control a terminal."""
    transport, peer = make()
    await peer.send(CloseConnection(code=1008, reason="\x1b[31mred\nforged"))
    for use in (transport.receive_frames, partial(transport.send_frames, [b"late"])):
        with pytest.raises(trio.BrokenResourceError) as caught:
            await use()
        assert str(caught.value).isprintable()
        assert str(caught.value).endswith(r"POLICY_VIOLATION: \x1b[31mred\nforged")


async def test_an_end_without_a_close_frame_is_an_error() -> None:
    """The stream ends without one: 1006, between messages and inside of one."""
    transport, peer = make()
    await peer.stream.aclose()
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError, match="1006 ABNORMAL_CLOSURE"):
            await transport.receive_frames()
    await transport.aclose()


async def test_closing_sends_a_close_frame_once() -> None:
    """A close frame with 1000, then the end of the stream; closing again sends nothing."""
    transport, peer = make()
    await transport.aclose()
    await transport.aclose()
    assert await peer.receive() == [CloseConnection(code=1000, reason="")]
    assert await peer.stream.receive_some() == b""


async def test_no_close_frame_follows_part_of_a_frame(nursery: trio.Nursery) -> None:
    """After a cancelled send a close frame would be read as part of the frame."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    transport = WsprotoTransport(
        ours, Connection(ConnectionType.SERVER), info=TransportInfo(scheme="ws")
    )
    scope = trio.CancelScope()

    async def send() -> None:
        with scope:
            await transport.send_frames([b"frame"])

    nursery.start_soon(send)
    await trio.testing.wait_all_tasks_blocked()
    assert await theirs.receive_some(3) == b"\x82\x05f"
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    await transport.aclose()
    assert await theirs.receive_some() == b"rame"
    assert await theirs.receive_some() == b""


async def test_a_peer_that_does_not_read_delays_closing_briefly(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The close frame is given half a second."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    transport = WsprotoTransport(
        ours, Connection(ConnectionType.SERVER), info=TransportInfo(scheme="ws")
    )
    await transport.aclose()
    assert trio.current_time() == 0.5
    await theirs.aclose()


async def test_a_peer_that_is_gone_does_not_disturb_closing() -> None:
    """If the close frame cannot be sent, closing raises no error."""
    transport, peer = make()
    await peer.stream.aclose()
    await transport.aclose()


async def test_messages_behind_the_handshake_are_received() -> None:
    """Messages read together with the handshake are not lost."""
    ours, theirs = trio.testing.memory_stream_pair()
    transport = WsprotoTransport(
        ours,
        Connection(ConnectionType.CLIENT),
        info=TransportInfo(scheme="ws"),
        trailing_data=b"\x82\x03one\x82\x03two\x82" + struct.pack("B", 5),
    )
    await theirs.send_all(b"three")
    with trio.testing.assert_checkpoints():
        assert await transport.receive_frames() == [b"one", b"two"]
    assert await transport.receive_frames() == [b"three"]
