"""connect: refusals, and the ways to leave its block."""

from __future__ import annotations

import ssl

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ClosedByPeer,
    ConnectFailed,
    ConnectionClosed,
    ConnectionConfig,
    ConnectionLost,
    InvalidSetup,
    Limits,
    LocalProtocolError,
    Payload,
    RejectedSetup,
    Responder,
    SetupError,
    UnsupportedSetup,
    connect,
)
from rsocket_trio.frames import ErrorFrame, RequestResponseFrame
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_server
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports.memory import memory_transport_pair


async def enter(script, **options):
    """Connect to a script of frames; the block is never entered."""
    here, there = memory_transport_pair()
    async with FramePeer(there) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(script, peer)
        error = None
        try:
            async with connect(here, **options):
                raise AssertionError("there is no connection")
        except Exception as caught:
            error = caught
        nursery.cancel_scope.cancel()
    raise error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0x001, InvalidSetup),
        (0x002, UnsupportedSetup),
        (0x003, RejectedSetup),
        (0x004, SetupError),
        (0x101, ClosedByPeer),
        (0x102, ClosedByPeer),
        (0x301, SetupError),
    ],
)
async def test_a_refusal_is_an_exception_of_connect(code, kind, autojump_clock):
    """Each refusal is an exception of connect: typed, bare, with code and reason."""

    async def refuse(peer):
        await peer.receive()
        await peer.send(ErrorFrame(0, code, b"because"))

    with pytest.raises(kind, match="because") as caught:
        await enter(refuse)
    assert type(caught.value) is kind
    assert caught.value.code == code


async def test_a_peer_that_hangs_up():
    """If the connection ends before an answer, connect raises ConnectionLost and says why."""

    async def hang_up(peer):
        await peer.receive()
        await peer.aclose()

    with pytest.raises(ConnectionLost, match="before it had accepted it: it may use TLS"):
        await enter(hang_up)


async def test_a_peer_that_sends_malformed_frames(autojump_clock):
    """A malformed frame instead of an answer ends the attempt."""

    async def malformed(peer):
        await peer.receive()
        await peer.send(b"HTTP")

    with pytest.raises(ConnectionClosed, match="the peer broke the protocol"):
        await enter(malformed)


async def test_connecting_where_no_server_listens():
    """connect raises ConnectFailed, with the reason as its cause."""
    async with assert_no_leaks():
        with pytest.raises(ConnectFailed) as caught:
            async with connect("tcp://127.0.0.1:1"):
                raise AssertionError("there is no connection")
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("uri", ["malformed", "gopher://x", "tcp://127.0.0.1"])
async def test_invalid_uris_are_refused(uri):
    """A wrong address is a ValueError."""
    with pytest.raises(ValueError):
        async with connect(uri):
            raise AssertionError("there is no connection")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"config": {}}, "config must be a ConnectionConfig, not dict"),
        ({"setup": b"x"}, "setup must be of type Payload, not bytes"),
        ({"ssl_context": True}, "ssl_context must be an ssl.SSLContext, not bool"),
    ],
)
async def test_arguments_of_a_wrong_type_are_named(options, text):
    """This happens before the client dials."""
    with pytest.raises(TypeError, match=text):
        async with connect("tls://127.0.0.1:1", **options):
            raise AssertionError("there is no connection")


CONTEXT = ssl.create_default_context()
HEADER = ("X", "y")


@pytest.mark.parametrize(
    ("uri", "options", "text"),
    [
        ("tcp://127.0.0.1:1", {"ssl_context": CONTEXT}, "tcp://127.0.0.1:1 is not encrypted"),
        ("ws://127.0.0.1:1", {"ssl_context": CONTEXT}, "is not encrypted: use tls:// or wss://"),
        ("unix:///nowhere", {"ssl_context": CONTEXT}, "unix:///nowhere is not encrypted"),
        ("tls://127.0.0.1:1", {"headers": [HEADER]}, "not for tls://127.0.0.1:1"),
    ],
)
async def test_arguments_that_the_address_cannot_use_are_refused(uri, options, text):
    """Otherwise a TLS context on tcp:// would send everything in the clear, silently."""
    with pytest.raises(ValueError, match=text):
        async with connect(uri, **options):
            raise AssertionError("there is no connection")


@pytest.mark.parametrize("options", [{"ssl_context": CONTEXT}, {"headers": [HEADER]}])
async def test_arguments_that_a_transport_cannot_use_are_refused(options):
    """A given transport, or one from a dialler, has its own TLS and headers."""
    here, _there = memory_transport_pair()
    for target in (here, lambda: here):
        with pytest.raises(ValueError, match="your own transport or function has to set"):
            async with connect(target, **options):
                raise AssertionError("there is no connection")


@pytest.mark.parametrize(
    "options",
    [
        {"data_mime_type": "\u00e9"},
        {"metadata_mime_type": "x" * 256},
        {"data_mime_type": "a\0b"},
        {"setup": Payload(b"x" * 2**24)},
        {
            "setup": Payload(b"x" * 100),
            "config": ConnectionConfig(limits=Limits(max_frame_size=64)),
        },
    ],
)
async def test_arguments_of_an_invalid_setup(options):
    """They are a LocalProtocolError, and the transport is closed."""
    here, there = memory_transport_pair()
    with pytest.raises(LocalProtocolError):
        async with connect(here, **options):
            raise AssertionError("there is no connection")
    assert await there.receive_frames() == []


async def test_cancelled_while_connecting():
    """A deadline around connect leaves nothing behind."""
    here, there = memory_transport_pair()
    async with assert_no_leaks():
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def enter_it():
                    async with connect(here):
                        raise AssertionError("there is no connection")

                nursery.start_soon(enter_it)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
    assert await there.receive_frames()


async def test_a_clients_own_acceptor_may_refuse(autojump_clock):
    """It refuses before a frame is sent; a falsy responder is used like any other."""

    async def refuse(_setup, _requester):
        raise RejectedSetup("not even asked")

    here, there = memory_transport_pair()
    with pytest.raises(RejectedSetup, match="not even asked"):
        async with connect(here, responder=refuse):
            raise AssertionError("there is no connection")
    assert await there.receive_frames() == []

    class Empty(Responder):
        def __len__(self):
            return 0

        async def request_response(self, payload):
            return payload

    async with frame_peer_server(Empty()) as (peer, _requester):
        await peer.send(RequestResponseFrame(2, data=b"x"))
        assert (await peer.receive()).data == b"x"


async def test_a_requester_is_closed_after_its_block():
    """A requester used after its block says that it is closed."""
    async with connected_pair(Responder()) as requester:
        assert not requester.closed
        assert repr(requester) == "<Requester to memory open>"
    assert requester.closed
    assert repr(requester) == "<Requester to memory closed>"
    await requester.wait_closed()
    with pytest.raises(trio.ClosedResourceError):
        await requester.request_response()
    with pytest.raises(trio.ClosedResourceError):
        async with requester.request_stream():
            pass


async def test_requests_open_at_the_end_of_the_block():
    """Callers that still wait when the block is left get ClosedResourceError."""
    outcomes = []

    class Waits(Responder):
        async def request_response(self, _payload):
            await trio.sleep_forever()

    async def ask(requester):
        try:
            await requester.request_response()
        except trio.ClosedResourceError:
            outcomes.append("closed")

    async with trio.open_nursery() as nursery:
        async with connected_pair(Waits()) as requester:
            nursery.start_soon(ask, requester)
            await trio.testing.wait_all_tasks_blocked()
    assert outcomes == ["closed"]


async def test_a_transport_closed_by_its_owner(autojump_clock):
    """Closing the transport inside the block is a lost connection, not a crash."""
    here, there = memory_transport_pair()
    async with FramePeer(there) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(peer.accept)
        async with connect(here) as requester:
            await here.aclose()
            with pytest.raises(ConnectionLost):
                await requester.request_response()


async def test_the_last_message_arrives():
    """Leaving the block right after fire_and_forget loses no message."""
    got = []

    class Inbox(Responder):
        async def fire_and_forget(self, payload):
            got.append(payload.data)

    async with connected_pair(Inbox()) as requester:
        for number in range(500):
            await requester.fire_and_forget(Payload(b"%d" % number))
    assert got == [b"%d" % number for number in range(500)]
