"""ERROR, METADATA_PUSH and the unexpected, checked from the wire."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import (
    ApplicationError,
    Canceled,
    ClosedByPeer,
    ConnectionClosed,
    CustomError,
    ErrorCode,
    Invalid,
    Rejected,
    StreamError,
)
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.server import serve_transport
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

STREAM_CODES = [
    (ErrorCode.APPLICATION_ERROR, ApplicationError),
    (ErrorCode.REJECTED, Rejected),
    (ErrorCode.CANCELED, Canceled),
    (ErrorCode.INVALID, Invalid),
    (0x301, CustomError),
    (0xFFFFFFFE, CustomError),
]
CONNECTION_CODES = [ErrorCode.CONNECTION_ERROR, ErrorCode.CONNECTION_CLOSE]
SETUP_CODES = [
    ErrorCode.INVALID_SETUP,
    ErrorCode.UNSUPPORTED_SETUP,
    ErrorCode.REJECTED_SETUP,
    ErrorCode.REJECTED_RESUME,
]


class Raising(Responder):
    def __init__(self, error):
        self.error = error

    async def request_response(self, payload):
        raise self.error

    async def request_stream(self, payload):
        raise self.error
        yield


async def outcome_of(requester, log):
    try:
        log.append(await requester.request_response(Payload()))
    except (StreamError, ConnectionClosed) as error:
        log.append(error)


@pytest.mark.parametrize(("code", "kind"), STREAM_CODES)
async def test_errors_of_handlers_keep_code_and_text(code, kind):
    """R-ERR-01, R-ERR-03: a handler's error goes out on its stream: its code, its UTF-8 text."""
    error = kind("grüße", code=code)
    async with frame_peer_client(Raising(error)) as peer:
        await peer.send(RequestResponseFrame(1))
        assert await peer.receive() == ErrorFrame(1, code, "grüße".encode())
        await peer.send(RequestStreamFrame(3, 1))
        assert await peer.receive() == ErrorFrame(3, code, "grüße".encode())


async def test_codes_that_are_not_for_streams_do_not_leave():
    """R-ERR-02: a handler cannot send a code for connections, or a reserved one, on its stream."""
    for code in (*SETUP_CODES, *CONNECTION_CODES, 0, 0x205, 0x300, 0xFFFFFFFF):
        async with frame_peer_client(Raising(StreamError("x", code=code))) as peer:
            await peer.send(RequestResponseFrame(1))
            answer = await peer.receive(ErrorFrame)
            assert answer.code == ErrorCode.APPLICATION_ERROR


async def test_texts_of_unexpected_errors_are_not_sent():
    """R-ERR-01: an unexpected error of a handler is sent as a plain APPLICATION_ERROR."""
    async with frame_peer_client(Raising(RuntimeError("password is 1234"))) as peer:
        await peer.send(RequestResponseFrame(1))
        answer = await peer.receive(ErrorFrame)
        assert answer.code == ErrorCode.APPLICATION_ERROR
        assert b"1234" not in answer.data


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *STREAM_CODES,
        (0, CustomError),
        (ErrorCode.CONNECTION_ERROR, StreamError),
        (0xFFFFFFFF, CustomError),
    ],
)
async def test_any_code_on_a_stream_ends_that_stream(code, kind, nursery):
    """R-ERR-03, R-ERR-05: the request fails with that code, and the connection lives."""
    log = []
    async with frame_peer_server() as (peer, requester):
        nursery.start_soon(outcome_of, requester, log)
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(1, code, b"\xffwhy"))
        await peer.expect_alive()
    (error,) = log
    assert isinstance(error, kind)
    assert (error.code, error.data) == (code, b"\xffwhy")


@pytest.mark.parametrize("code", [ErrorCode.APPLICATION_ERROR, ErrorCode.INVALID, 0x301])
async def test_a_streams_code_on_stream_zero_is_ignored(code):
    """R-ERR-04: in both roles."""
    error = ErrorFrame(0, code, b"x")
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(error)
        await peer.expect_alive()
    async with frame_peer_server() as (peer, _):
        await peer.send(error)
        await peer.expect_alive()


async def test_connection_error_ends_everything_at_once(nursery):
    """R-ERR-06: pending requests fail with the peer's reason, and the connection is closed."""
    log = []
    async with frame_peer_server() as (peer, requester):
        nursery.start_soon(outcome_of, requester, log)
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"why"))
        await peer.expect_closed()
    (error,) = log
    assert isinstance(error, ClosedByPeer)
    assert (error.code, error.message) == (ErrorCode.CONNECTION_ERROR, "why")

    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestResponseFrame(1, data=b"never"))
        await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"why"))
        await peer.expect_closed()


async def test_connection_close_lets_a_clients_streams_finish(nursery):
    """R-ERR-07: open requests may still be answered; new ones fail; then the client closes."""
    log = []
    async with frame_peer_server() as (peer, requester):
        nursery.start_soon(outcome_of, requester, log)
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"bye"))
        await peer.expect_nothing()
        with pytest.raises(ConnectionClosed):
            await requester.request_response(Payload(b"too late"))
        await peer.send(PayloadFrame(1, next=True, complete=True, data=b"answer"))
        await peer.expect_closed()
    assert log == [Payload(b"answer")]


async def test_connection_close_lets_a_servers_streams_finish():
    """R-ERR-07: a server answers open requests, and closes then."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"2"))
        await peer.receive(PayloadFrame)
        await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"bye"))
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 1))
        assert (await peer.receive(PayloadFrame)).data == b"1"
        assert (await peer.receive(PayloadFrame)).complete
        await peer.expect_closed()


async def test_metadata_push_is_taken_on_stream_zero_only():
    """R-PUSH-01, R-PUSH-03, R-UNX-12: one on another stream is ignored; there are no answers."""
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(MetadataPushFrame(b"no", stream_id=1))
        await peer.expect_alive()
        assert responder.last_metadata_push == b""
        await peer.send(MetadataPushFrame(b"yes"), MetadataPushFrame(b""), MetadataPushFrame(b"y"))
        await peer.expect_alive()
        assert responder.last_metadata_push == b"y"


UNEXPECTED = [
    RequestNFrame(99, 5),
    RequestNFrame(0, 5),
    CancelFrame(99),
    CancelFrame(0),
    ErrorFrame(99, ErrorCode.APPLICATION_ERROR, b"x"),
    PayloadFrame(99, next=True, data=b"x"),
    PayloadFrame(99, next=True, follows=True, data=b"x"),
    PayloadFrame(0, next=True, data=b"x"),
    MetadataPushFrame(b"x", stream_id=99),
    LeaseFrame(1000, 1),
    LeaseFrame(0, 0),
    LeaseFrame(1000, 1, stream_id=99),
    ResumeOkFrame(0),
    SetupFrame(1, 0, 1000, 2000),
    SetupFrame(9, 9, 0, 0, lease=True),
    KeepaliveFrame(respond=False, position=2**63 - 1),
    *(ErrorFrame(0, code, b"x") for code in SETUP_CODES),
]


@pytest.mark.parametrize("frame", UNEXPECTED, ids=repr)
async def test_a_server_ignores_frames_that_make_no_sense(frame):
    """R-UNX-01, -08, -09, -10, -11, -12, -13, -14, R-LEASE-10: its streams are not affected."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"2"))
        await peer.receive(PayloadFrame)
        await peer.send(frame)
        await peer.expect_alive()
        await peer.send(RequestNFrame(1, 1))
        assert (await peer.receive(PayloadFrame)).data == b"1"


@pytest.mark.parametrize("frame", UNEXPECTED, ids=repr)
async def test_a_client_ignores_frames_that_make_no_sense(frame, nursery):
    """R-UNX-01, -08, -09, -10, -11, -12, -15, -16, R-LEASE-10: so does a client, once set up."""
    log = []
    async with frame_peer_server() as (peer, requester):
        nursery.start_soon(outcome_of, requester, log)
        await peer.receive(RequestResponseFrame)
        await peer.send(frame)
        await peer.expect_alive()
        await peer.send(PayloadFrame(1, next=True, complete=True, data=b"answer"))
        await trio.testing.wait_all_tasks_blocked()
    assert log == [Payload(b"answer")]


async def test_resume_after_setup_is_an_error():
    """R-RESUME-17: RESUME on an established connection ends it with CONNECTION_ERROR."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(ResumeFrame(1, 0, b"token", 0, 0))
        await peer.expect_closed(ErrorCode.CONNECTION_ERROR)


@pytest.mark.parametrize(
    "again",
    [
        RequestResponseFrame(1, data=b"again"),
        RequestStreamFrame(1, 5, data=b"5"),
        RequestChannelFrame(1, 5),
        RequestFnfFrame(1, data=b"again"),
    ],
    ids=lambda frame: frame.frame_type.name,
)
async def test_a_request_on_a_stream_in_use_is_ignored(again):
    """R-UNX-08a: the running stream goes on, and the other request does not run."""
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"3"))
        await peer.receive(PayloadFrame)
        await peer.send(again)
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 2))
        assert [frame.data for frame in await peer.drain() if frame.next] == [b"1", b"2"]
    assert responder.last_fire_and_forget == b""


async def test_connection_frames_go_first():
    """R-QOS-01: a KEEPALIVE is answered before the rest of a flood, which stays in order."""
    # So that at most 450 items are ahead: in the transport, in the writer's hands, in the outbox.
    config = ConnectionConfig(limits=Limits(max_outbox_size=1024))
    total = 2000
    client_end, server_end = memory_transport_pair(max_bytes=1024)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_transport, KnownAnswers(), server_end, config=config))
        async with FramePeer(client_end) as peer:
            await peer.setup()
            await peer.send(RequestStreamFrame(1, total, data=b"%d" % total))
            await peer.receive(PayloadFrame)
            await peer.send(KeepaliveFrame(respond=True, data=b"now"))
            while not (await peer.receive(PayloadFrame)).complete:
                pass
    items = [f.data for f in peer.received if isinstance(f, PayloadFrame) and f.next]
    assert items == [b"%d" % number for number in range(total)]
    # Frames that left before the KEEPALIVE came are ahead of the answer; waiting ones are not.
    answer = peer.received.index(KeepaliveFrame(respond=False, data=b"now"))
    assert answer < total / 4
