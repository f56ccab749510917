"""The server's end until the protocol is known, and the transport after it."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsocket_trio import ConnectionConfig, Payload, connect, serve_transport
from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.frames import ErrorFrame as EngineError
from rsocket_trio.frames import KeepaliveFrame as EngineKeepalive
from rsocket_trio.frames import LengthPrefixDecoder
from rsocket_trio.frames import decode as decode_engine
from rsocket_trio.reactivesocket import ReactiveSocketTransport
from rsocket_trio.reactivesocket.frames import (
    KeepaliveFrame,
    LengthDecoder,
    RequestResponseFrame,
    ResponseFrame,
    SetupFrame,
    decode,
    encode_length,
)
from rsocket_trio.reactivesocket.opening import recognise_wire, speak_reactivesocket
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport
from rsocket_trio.transports.memory import memory_transport_pair

BOTH = ["rsocket", "reactivesocket"]
SETUP = SetupFrame(0, 500, 2500)


def with_length(frame):
    encoded = frame.encode()
    return encode_length(encoded) + encoded


def transport_of(stream):
    return ByteStreamTransport(stream, info=TransportInfo(scheme="memory"))


async def read_all(stream, decoder, decode_one):
    frames = []
    while data := await stream.receive_some():
        frames += map(decode_one, decoder.feed(data))
    return frames


@pytest.mark.parametrize("padding", [0, 256 - 12 - 24 - 26])
async def test_a_setup_that_comes_byte_by_byte(nursery, padding):
    """A SETUP cut at any byte is the draft's, also if its length is a multiple of 256."""
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(serve_transport, KnownAnswers(), transport_of(theirs))
    for byte in with_length(SETUP) + with_length(RequestResponseFrame(2, data=b"x" * padding)):
        await ours.send_all(bytes((byte,)))
        await trio.testing.wait_all_tasks_blocked()
    (frame,) = LengthDecoder(1000).feed(await ours.receive_some())
    assert decode(frame) == ResponseFrame(2, complete=True, data=b"x" * padding)
    await ours.aclose()


@pytest.mark.parametrize("said", ["", "000000", "0000000100", "000001000001000000000000"])
async def test_a_client_that_sends_too_little(nursery, autojump_clock, said):
    """After the setup timeout, or at the client's end, the answer is in the form of 1.0."""
    for finish in (True, False):
        ours, theirs = trio.testing.memory_stream_pair()
        config = ConnectionConfig(setup_timeout=5)
        nursery.start_soon(
            partial(serve_transport, KnownAnswers(), transport_of(theirs), config=config)
        )
        await ours.send_all(bytes.fromhex(said))
        started = trio.current_time()
        if finish:
            await ours.send_eof()
        frames = await read_all(ours, LengthPrefixDecoder(1000), decode_engine)
        assert (trio.current_time() - started >= 5) is not finish
        codes = [(type(frame), frame.code) for frame in frames]
        assert codes == ([] if finish and not said else [(EngineError, 0x001)])
        await ours.aclose()


STARTS = st.sampled_from([b"", with_length(SETUP), bytes.fromhex("00000100 0001"), b"GET / HTTP"])


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(start=STARTS, rest=st.binary(max_size=60), cut=st.integers(0, 60))
def test_a_connection_survives_any_bytes(start, rest, cut, caplog):
    """A client may send any bytes, cut anywhere: the connection ends cleanly once it is gone."""

    async def main():
        ours, theirs = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_transport, KnownAnswers(), transport_of(theirs))
            data = start + rest
            try:
                for part in (data[:cut], data[cut:]):
                    await ours.send_all(part)
                    await trio.testing.wait_all_tasks_blocked()
            except trio.BrokenResourceError:
                pass
            await ours.aclose()

    caplog.clear()
    trio.run(main)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_server_of_the_draft_alone_reads_bytes_as_that(nursery):
    """Other bytes are refused in the form of the draft."""
    ours, theirs = trio.testing.memory_stream_pair()
    serving = partial(serve_transport, protocols=["reactivesocket"])
    nursery.start_soon(serving, KnownAnswers(), transport_of(theirs))
    await ours.send_all(with_length(RequestResponseFrame(2)))
    await ours.send_eof()
    (frame,) = await read_all(ours, LengthDecoder(1000), decode)
    assert (frame.stream_id, frame.code) == (0, 0x001)
    await ours.aclose()


@pytest.mark.parametrize("length", [False, True])
async def test_a_server_of_the_draft_alone_reads_messages_as_that(nursery, length):
    """Other messages are refused in the form of the message, with a length or without."""
    ours, theirs = memory_transport_pair()
    serving = partial(serve_transport, protocols=["reactivesocket"])
    nursery.start_soon(serving, KnownAnswers(), theirs)
    request = RequestResponseFrame(2)
    await ours.send_frames([with_length(request) if length else request.encode()])
    (message,) = await ours.receive_frames()
    if length:
        (message,) = LengthDecoder(1000).feed(message)
    assert decode(message).code == 0x001
    await ours.aclose()


async def test_a_client_that_goes_away():
    """Without any bytes the protocol is unknown, and no frame is sent."""
    ours, theirs = memory_transport_pair()
    await ours.close_sending()
    assert await recognise_wire(theirs, BOTH, 1000) == (theirs, [])
    await theirs.aclose()
    assert await ours.receive_frames() == []


async def test_the_transport_after_recognition():
    """For RSocket 1.0 it is the same transport, with its first messages; else a wrapper."""
    for message, draft in ((EngineKeepalive(False).encode(), False), (SETUP.encode(), True)):
        ours, theirs = memory_transport_pair()
        await ours.send_frames([message])
        chosen, frames = await recognise_wire(theirs, BOTH, 1000)
        assert (chosen is theirs) is not draft
        assert frames == ([] if draft else [message])
    for protocols in (["rsocket"], BOTH):
        already = ReactiveSocketTransport(theirs, client=False)
        assert await recognise_wire(already, protocols, 1000) == (already, [])
    assert await recognise_wire(theirs, ["rsocket"], 1000) == (theirs, [])


async def test_a_given_transport_of_the_draft(nursery):
    """Servers and clients use it unchanged."""
    ours, theirs = memory_transport_pair()
    server_end = ReactiveSocketTransport(theirs, client=False)
    serving = partial(serve_transport, protocols=["reactivesocket"])
    nursery.start_soon(serving, KnownAnswers(), server_end)
    client_end = ReactiveSocketTransport(ours, client=True, with_length=True)
    assert speak_reactivesocket(client_end, client=True, max_frame_size=1000) is client_end
    async with connect(client_end, protocol="reactivesocket") as requester:
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")


async def test_the_form_of_the_answers_to_a_client():
    """A client sends no length, until the server's first message shows that it uses one."""
    ours, theirs = memory_transport_pair()
    transport = ReactiveSocketTransport(ours, client=True)
    keepalive = EngineKeepalive(True, data=b"x").encode()
    await transport.send_frames([keepalive])
    assert await theirs.receive_frames() == [KeepaliveFrame(True, b"x").encode()]
    await theirs.send_frames([with_length(KeepaliveFrame(False, b"x"))])
    # A message without a length is still read.
    await theirs.send_frames([KeepaliveFrame(False, b"y").encode()])
    received = [decode_engine(frame) for frame in await transport.receive_frames()]
    assert [frame.data for frame in received] == [b"x", b"y"]
    await transport.send_frames([keepalive])
    assert await theirs.receive_frames() == [with_length(KeepaliveFrame(True, b"x"))]
    await transport.aclose()


async def test_an_error_comes_after_the_frames_before_it():
    """Each later call raises it again; so does an error of the carrier."""
    ours, theirs = memory_transport_pair()
    transport = ReactiveSocketTransport(ours, client=True)
    await theirs.send_frames([KeepaliveFrame(True).encode(), b"short"])
    assert len(await transport.receive_frames()) == 1
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="5 bytes"):
            await transport.receive_frames()
    one, other = trio.testing.memory_stream_pair()
    transport = speak_reactivesocket(transport_of(one), client=True, max_frame_size=100)
    await other.send_all(with_length(KeepaliveFrame(True)) + b"\0\0\0\0")
    assert len(await transport.receive_frames()) == 1
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="less than the smallest"):
            await transport.receive_frames()
    await transport.aclose()


async def test_ignored_frames_are_not_received():
    """`receive_frames` waits for a frame that is not ignored, or for the end."""
    ours, theirs = memory_transport_pair()
    transport = ReactiveSocketTransport(ours, client=True)
    await theirs.send_frames([ResponseFrame(2).encode()])
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receive():
            (frame,) = await transport.receive_frames()
            assert decode_engine(frame) == EngineKeepalive(True)

        await trio.testing.wait_all_tasks_blocked()
        await theirs.send_frames([KeepaliveFrame(True).encode()])
    await theirs.close_sending()
    assert await transport.receive_frames() == []
    await transport.aclose()
