from __future__ import annotations

import pytest
import trio

from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestResponseFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports.memory import memory_transport_pair

REQUEST = RequestResponseFrame(1, data=b"question")
ANSWER = PayloadFrame(1, next=True, complete=True, data=b"answer")


@pytest.fixture
async def ends():
    mine, theirs = memory_transport_pair()
    async with FramePeer(mine) as peer, FramePeer(theirs) as other:
        yield peer, other


async def test_frames_and_bytes_are_sent_in_order(ends):
    """A script may send frame objects and raw bytes side by side."""
    peer, other = ends
    await peer.send(REQUEST, ANSWER.encode())
    await peer.send(CancelFrame(1))

    assert await other.receive(RequestResponseFrame) == REQUEST
    assert await other.receive() == ANSWER
    assert await other.receive(CancelFrame) == CancelFrame(1)


async def test_received_frames_are_kept_decoded_and_raw(ends):
    """The log has every frame, also skipped KEEPALIVEs."""
    peer, other = ends
    beat = KeepaliveFrame(respond=True)
    await peer.send(beat, ANSWER)
    await other.receive(PayloadFrame)

    assert other.received == [beat, ANSWER]
    assert other.received_bytes == [beat.encode(), ANSWER.encode()]


async def test_keepalives_are_received_by_name_only(ends):
    """A KEEPALIVE is skipped on the way to another frame, and received when expected."""
    peer, other = ends
    await peer.send(KeepaliveFrame(respond=True, data=b"1"), KeepaliveFrame(respond=False))
    assert (await other.receive(KeepaliveFrame)).data == b"1"
    await other.expect_nothing()

    await peer.send(KeepaliveFrame(respond=True))
    await other.expect_nothing()


async def test_an_unexpected_frame_fails_with_a_trace(ends):
    """The failure shows the expected frame, the received one, and the trace before it."""
    peer, other = ends
    await peer.send(REQUEST)
    await other.receive()
    await other.send(ErrorFrame(1, 0x202, b"busy"))

    with pytest.raises(AssertionError) as caught:
        await peer.receive(PayloadFrame)
    text = str(caught.value)
    assert "expected PayloadFrame, but received ERROR stream_id=1 code=REJECTED" in text
    assert "b'busy'" in text
    assert "-> REQUEST_RESPONSE stream_id=1" in text


async def test_malformed_bytes_fail_with_a_dump(ends):
    """Malformed bytes of the tested side are shown in full."""
    peer, other = ends
    await peer.send(b"\0\0\0")

    with pytest.raises(AssertionError, match=r"malformed frame \(.*\): 00 00 00"):
        await other.receive()


async def test_the_end_of_the_connection_is_told_apart_from_silence(ends):
    """The failure says that the connection ended before the frame came."""
    peer, other = ends
    await peer.aclose()

    for _ in range(2):  # Later calls get the end too.
        with pytest.raises(AssertionError, match="expected a frame, but the connection was closed"):
            await other.receive()
    with pytest.raises(AssertionError, match="expected nothing, but the connection was closed"):
        await other.expect_nothing()


async def test_a_broken_connection_is_an_end():
    """A transport that breaks ends the script in the same way as a closed one."""

    class Broken:
        async def receive_frames(self):
            raise trio.BrokenResourceError

    peer = FramePeer(Broken())
    assert await peer.expect_closed() is None
    with pytest.raises(AssertionError, match="the connection broke"):
        await peer.receive()


async def test_silence_fails_after_patience(ends, autojump_clock):
    """An expectation waits for a limited time."""
    _, other = ends
    start = trio.current_time()
    with pytest.raises(AssertionError, match=r"expected CancelFrame, but nothing arrived for 10"):
        await other.receive(CancelFrame)
    assert trio.current_time() - start == 10


async def test_an_unexpected_frame_is_shown(ends):
    """A frame where silence was expected is shown, also behind a KEEPALIVE."""
    peer, other = ends
    await other.expect_nothing()
    await peer.send(KeepaliveFrame(respond=False), ANSWER)
    with pytest.raises(AssertionError, match="expected nothing, but received PAYLOAD"):
        await other.expect_nothing()


async def test_frames_after_a_silence_are_received(ends):
    peer, other = ends
    await other.expect_nothing()
    await peer.send(ANSWER)
    assert await other.receive() == ANSWER


async def test_drain_takes_all_frames(ends):
    """It gives every frame that came, KEEPALIVEs too, and no frame after the end."""
    peer, other = ends
    beat = KeepaliveFrame(respond=False)
    assert await other.drain() == []
    await peer.send(beat, ANSWER)
    await peer.send(REQUEST)
    await peer.aclose()
    assert await other.drain() == [beat, ANSWER, REQUEST]
    assert await other.drain() == []


async def test_a_close_with_its_error(ends):
    """ERROR on stream 0 and then the end is a close; the ERROR is returned."""
    peer, other = ends
    last_words = ErrorFrame(0, 0x101, b"enough")
    await peer.send(KeepaliveFrame(respond=False), last_words)
    await peer.aclose()

    assert await other.expect_closed(0x101) == last_words


async def test_a_close_without_an_error(ends):
    """If no code is expected, an end without ERROR is a close too."""
    peer, other = ends
    await peer.aclose()
    assert await other.expect_closed() is None
    with pytest.raises(AssertionError, match=r"expected ERROR\[CONNECTION_ERROR\] and the end"):
        await other.expect_closed(0x101)


@pytest.mark.parametrize(
    "frames",
    [
        [ErrorFrame(0, 0x102)],
        [ErrorFrame(1, 0x101)],
        [ANSWER],
        [ErrorFrame(0, 0x101), ErrorFrame(0, 0x101)],
        [ErrorFrame(0, 0x101), ANSWER],
    ],
    ids=["another code", "on a stream", "no error", "said twice", "a word after the last"],
)
async def test_an_unexpected_close_fails(ends, frames):
    """Another code, another stream or another frame is not the expected close."""
    peer, other = ends
    await peer.send(*frames)
    await peer.aclose()
    with pytest.raises(AssertionError, match="but received"):
        await other.expect_closed(0x101)


async def test_an_error_that_does_not_close(ends, autojump_clock):
    """ERROR on stream 0 without the end is not a close."""
    peer, other = ends
    await peer.send(ErrorFrame(0, 0x101))
    with pytest.raises(AssertionError, match="nothing arrived for 10"):
        await other.expect_closed(0x101)


async def test_client_and_server_scripts_meet(ends, nursery):
    """A scripted client and a scripted server set up a connection and probe it."""
    client, server = ends

    async def accept():
        accepted.append(await server.accept())
        await server.answer_keepalive()

    accepted: list[SetupFrame] = []
    nursery.start_soon(accept)
    await client.setup(keepalive_interval=0.5, max_lifetime=2, metadata=b"m", data=b"d")
    await client.expect_alive()
    await client.expect_alive()

    (setup,) = accepted
    assert (setup.major, setup.minor, setup.lease, setup.resume_token) == (1, 0, False, None)
    assert (setup.keepalive_interval_ms, setup.max_lifetime_ms) == (500, 2000)
    assert (setup.metadata, setup.data) == (b"m", b"d")


async def test_a_setup_without_keepalive_can_be_accepted(ends):
    """A client that does not confirm its SETUP is accepted by reading it."""
    client, server = ends
    await client.setup()
    assert (await server.accept(keepalive=False)).data_mime_type == "application/octet-stream"


async def test_a_keepalive_without_respond_is_not_answered(ends):
    """A script that answers a KEEPALIVE without R would break the rules."""
    peer, other = ends
    await peer.send(KeepaliveFrame(respond=False))
    with pytest.raises(AssertionError, match="asks for no answer"):
        await other.answer_keepalive()


async def test_expect_alive_waits_for_an_echo(ends, nursery):
    """The probe is answered with its data, after KEEPALIVEs of the peer at most."""
    peer, other = ends

    async def echo():
        probe = await other.receive(KeepaliveFrame)
        await other.send(KeepaliveFrame(respond=True, data=b"mine"))
        await other.send(KeepaliveFrame(respond=False, data=probe.data))

    nursery.start_soon(echo)
    await peer.expect_alive()

    await other.send(KeepaliveFrame(respond=False, data=b"stray"))
    with pytest.raises(AssertionError, match="not with b'stray'"):
        await peer.expect_alive()

    await other.send(CancelFrame(1))
    with pytest.raises(AssertionError, match="received CANCEL"):
        await peer.expect_alive()


async def test_the_trace_has_a_line_per_frame(ends):
    """It has both directions, and the end."""
    peer, other = ends
    await peer.send(REQUEST)
    await other.receive()
    await other.send(ANSWER)
    await other.aclose()
    await peer.receive()
    await peer.expect_closed()

    lines = peer.trace.splitlines()
    assert [line.split(" stream")[0] for line in lines] == [
        "-> REQUEST_RESPONSE",
        "<- PAYLOAD",
        "<- the connection was closed",
    ]
    assert decode(peer.received_bytes[0]) == ANSWER
