"""serve and serve_transport: addresses, acceptors, and the graceful stop."""

from __future__ import annotations

import ssl
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ClientResume,
    ClosedByPeer,
    ConnectionConfig,
    ConnectionLost,
    InvalidSetup,
    LocalProtocolError,
    Payload,
    RejectedSetup,
    Responder,
    Router,
    Server,
    ServerStatistics,
    SetupError,
    UnsupportedSetup,
    connect,
    parse_uri,
    serve,
    serve_transport,
)
from rsocket_trio.frames import ErrorFrame, PayloadFrame, RequestResponseFrame
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_server
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import accept_transports, open_transport
from rsocket_trio.transports.memory import memory_transport_pair

LOCAL = "tcp://127.0.0.1:0"


class Gated(Responder):
    """Answers at once, or (data ``wait``) when its gate is opened."""

    def __init__(self):
        self.gate = trio.Event()
        self.log = []

    async def request_response(self, payload):
        if payload.data == b"wait":
            try:
                await self.gate.wait()
            except trio.Cancelled:
                self.log.append("cancelled")
                raise
        return payload


async def test_the_server_reports_its_addresses():
    """task_status gets the server, with the real ports, one address each."""
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL, LOCAL)
        assert isinstance(server, Server)
        assert len(set(server.uris)) == 2
        for uri in server.uris:
            assert not uri.endswith(":0")
            async with connect(uri) as requester:
                assert await requester.request_response(Payload(b"x")) == Payload(b"x")
        await server.aclose(grace=0)


async def test_statistics():
    """Connections that are set up are counted, now and since the start."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL)
        async with connect(server.uris[0]), connect(server.uris[0]):
            assert server.statistics() == ServerStatistics(connections=2, accepted=2)
        await server.aclose(grace=1)
        assert server.statistics() == ServerStatistics(connections=0, accepted=2)


@pytest.mark.parametrize(
    ("uris", "error"),
    [
        ([], ValueError),
        (["nonsense"], ValueError),
        (["gopher://127.0.0.1:0"], ValueError),
        (["tcp://256.1.1.1:0"], OSError),
        ([LOCAL, "tcp://192.0.2.1:1"], OSError),
    ],
)
async def test_bad_addresses(uris, error):
    """A wrong or unavailable address is a bare error; no socket stays open."""
    async with assert_no_leaks():
        with pytest.raises(error) as caught:
            await serve(Gated(), *uris)
        assert not isinstance(caught.value, BaseExceptionGroup)


async def test_an_address_in_use():
    """A second server on the same port is refused with OSError."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL)
        with pytest.raises(OSError):
            await serve(Gated(), server.uris[0])
        nursery.cancel_scope.cancel()


async def test_a_graceful_stop():
    """New connections and requests are refused; open requests finish, then the server ends."""
    gated = Gated()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, gated, LOCAL)
        answers = []

        async def ask(requester):
            answers.append(await requester.request_response(Payload(b"wait")))

        async with connect(server.uris[0]) as requester, connect(server.uris[0]) as idle:
            async with trio.open_nursery() as asking:
                asking.start_soon(ask, requester)
                while requester.statistics().open_streams == 0 or not _begun(server):
                    await trio.lowlevel.checkpoint()
                server.stop(grace=60)
                await idle.wait_closed()
                with pytest.raises(ClosedByPeer) as caught:
                    while True:
                        with trio.move_on_after(0.01):
                            await requester.request_response()
                assert caught.value.code == 0x102
                assert caught.value.message == "the server is being stopped"
                with pytest.raises(OSError):
                    await trio.open_tcp_stream("127.0.0.1", int(server.uris[0].split(":")[-1]))
                assert answers == []
                gated.gate.set()
            assert answers == [Payload(b"wait")]
            await server.aclose()
    assert gated.log == []


def _begun(server):
    return any(connection.workload.active for connection in server._service.registry.connections)


async def test_grace_runs_out():
    """Requests open after the grace are cancelled; a second stop(0) does the same."""
    for graces in ([0.05], [60, 0]):
        gated = Gated()
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, gated, LOCAL)

            async def ask(requester):
                with pytest.raises((ConnectionLost, ClosedByPeer)):
                    await requester.request_response(Payload(b"wait"))

            async with connect(server.uris[0]) as requester, trio.open_nursery() as asking:
                asking.start_soon(ask, requester)
                while not _begun(server):
                    await trio.lowlevel.checkpoint()
                for grace in graces:
                    server.stop(grace=grace)
            await server.aclose()
        assert gated.log == ["cancelled"]


async def test_silent_peers_do_not_delay_a_stop():
    """A connection without SETUP is closed at once."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL)
        async with open_transport(server.uris[0], max_frame_size=1000) as silent:
            while trio.lowlevel.current_statistics().tasks_living < 1:
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked(0.05)
            with trio.fail_after(5):
                await server.aclose(grace=60)
            assert await silent.receive_frames() == []


async def test_cancelling_serve():
    """Cancelled, it ends at once, with its handlers; aclose returns then."""
    gated = Gated()
    async with assert_no_leaks(), trio.open_nursery() as outer:
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, gated, LOCAL)
            async with connect(server.uris[0]) as requester:
                outer.start_soon(_lost, requester)
                while not _begun(server):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    await requester.wait_closed()
        with trio.fail_after(1):
            await server.aclose()
    assert gated.log == ["cancelled"]


async def _lost(requester):
    with pytest.raises((ConnectionLost, trio.ClosedResourceError)):
        await requester.request_response(Payload(b"wait"))


@pytest.mark.parametrize(
    "error",
    [
        RejectedSetup("go away"),
        InvalidSetup("malformed"),
        UnsupportedSetup("not that"),
        SetupError("custom", code=0x003),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_acceptor_that_refuses(error):
    """connect raises the acceptor's error, typed, bare, with its reason."""

    async def accept(_setup, _requester):
        raise error

    with pytest.raises(SetupError, match=error.message) as caught:
        async with connected_pair(accept):
            raise AssertionError("there is no connection")
    assert caught.value.code == error.code


@pytest.mark.parametrize("answer", [ValueError("secret"), None])
async def test_an_acceptor_that_fails(answer, caplog):
    """Its connection is rejected without details; these are logged."""

    async def accept(_setup, _requester):
        if answer is not None:
            raise answer

    with pytest.raises(RejectedSetup, match="the acceptor failed"):
        async with connected_pair(accept):
            raise AssertionError("there is no connection")
    assert "the acceptor failed" in caplog.text


async def test_an_acceptor_that_refuses_in_a_nursery():
    """A nursery wraps the refusal in a group; the client still gets the reason."""

    async def accept(_setup, _requester):
        async with trio.open_nursery():
            raise RejectedSetup("not today")

    with pytest.raises(RejectedSetup, match="not today"):
        async with connected_pair(accept):
            raise AssertionError("there is no connection")


async def test_a_reason_longer_than_a_frame():
    """The part of it that fits is sent."""

    async def accept(_setup, _requester):
        raise RejectedSetup(b"x" * 2**24)

    with pytest.raises(RejectedSetup) as caught:
        async with connected_pair(accept):
            raise AssertionError("there is no connection")
    assert caught.value.data == b"x" * (2**24 - 1 - 10)


async def test_an_acceptor_that_hangs(autojump_clock, caplog):
    """After setup_timeout it is cancelled, and its waiting client gets the error."""
    ended = []

    async def accept(_setup, _requester):
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    here, there = memory_transport_pair()
    patient = ConnectionConfig(setup_timeout=60)
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, accept, there)
        with pytest.raises(RejectedSetup, match="in time"):
            async with connect(here, config=patient):
                raise AssertionError("there is no connection")
    assert [round(end - start, 3) for end in ended] == [10]
    assert "the acceptor did not answer within 10 s" in caplog.text


@pytest.mark.parametrize(
    ("responder", "text"),
    [(Responder, r"write Responder\(\)"), (Router, r"write Router\(\)"), (None, "not NoneType")],
)
async def test_a_wrong_responder_is_refused(responder, text):
    """This happens at once, on either side, and not at the first connection."""
    with pytest.raises(TypeError, match=text):
        await serve(responder, LOCAL)
    here, there = memory_transport_pair()
    with pytest.raises(TypeError, match=text):
        await serve_transport(responder, there)
    if responder is not None:
        with pytest.raises(TypeError, match=text):
            async with connect(here, responder=responder):
                raise AssertionError("there is no connection")


async def test_a_wrong_type_of_resumption_is_refused():
    """A True is refused, and the error names the options to use."""
    here, there = memory_transport_pair()
    with pytest.raises(TypeError, match=r"write ServerResume\(\)"):
        await serve(Responder(), LOCAL, resume=True)
    with pytest.raises(TypeError, match=r"write ServerResume\(\)"):
        await serve_transport(Responder(), there, resume=ClientResume())
    with pytest.raises(TypeError, match=r"write ClientResume\(\)"):
        async with connect(lambda: here, resume=True):
            raise AssertionError("there is no connection")


async def test_arguments_of_a_wrong_type_are_named():
    """Both functions do so before they listen."""
    _here, there = memory_transport_pair()
    with pytest.raises(TypeError, match="config must be a ConnectionConfig, not dict"):
        await serve(Responder(), LOCAL, config={})
    with pytest.raises(TypeError, match="config must be a ConnectionConfig, not dict"):
        await serve_transport(Responder(), there, config={})
    with pytest.raises(TypeError, match=r"ssl_context must be an ssl\.SSLContext, not str"):
        await serve(Responder(), "tls://127.0.0.1:0", ssl_context="cert.pem")
    with pytest.raises(TypeError, match=r"ssl_context must be an ssl\.SSLContext, not str"):
        await accept_transports("tls://127.0.0.1:0", trio.sleep, ssl_context="cert.pem")


async def test_arguments_that_no_address_can_use_are_refused():
    """A server that should be encrypted, or closed to web pages, does not start open."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ValueError, match="use tls:// or wss://"):
        await serve(Responder(), LOCAL, "ws://127.0.0.1:0", ssl_context=context)
    with pytest.raises(ValueError, match="no address is ws:// or wss://"):
        await serve(Responder(), LOCAL, allowed_origins=["https://example.org"])


async def test_an_argument_that_one_address_can_use_is_accepted():
    """Addresses of every kind may share the arguments: encrypted ones use the context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    async with trio.open_nursery() as nursery:
        start = partial(serve, ssl_context=context, allowed_origins=[])
        server = await nursery.start(start, Responder(), LOCAL, "wss://127.0.0.1:0")
        assert [uri[:4] for uri in server.uris] == ["tcp:", "wss:"]
        await server.aclose(grace=0)


@pytest.mark.parametrize("address", [Router(), b"tcp://127.0.0.1:0", 7878])
async def test_a_wrong_type_of_address_is_named(address):
    """Both ends name it."""
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        await serve(Responder(), LOCAL, address)
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        async with connect(address):
            raise AssertionError("there is no connection")
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        await accept_transports(address, trio.sleep)
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        async with open_transport(address):
            raise AssertionError("there is no connection")


@pytest.mark.parametrize("form", [str, parse_uri], ids=["text", "Uri"])
async def test_an_address_is_text_or_a_uri(nursery, form):
    """All functions with an address take both."""
    server = await nursery.start(serve, KnownAnswers(), form(LOCAL))
    address = form(server.uris[0])
    async with connect(address) as requester:
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    async with open_transport(address) as transport:
        assert transport.info.scheme == "tcp"
    bound = await nursery.start(partial(accept_transports, form(LOCAL), lambda _: trio.sleep(0)))
    assert bound[0].port
    await server.aclose()
    nursery.cancel_scope.cancel()


async def test_a_responder_per_connection():
    """accept may return another responder for each connection, chosen by the SETUP."""

    class One(Responder):
        def __init__(self, name):
            self.name = name

        async def request_response(self, _payload):
            return Payload(self.name)

    class Many(Responder):
        async def accept(self, setup, requester):
            return One(setup.data)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Many(), LOCAL)
        for name in (b"a", b"b"):
            async with connect(server.uris[0], setup=Payload(name, b"m")) as requester:
                assert await requester.request_response() == Payload(name)
        nursery.cancel_scope.cancel()


async def test_the_acceptors_requester():
    """It works once the connection is accepted, and not before."""
    seen = []

    class Client(Responder):
        async def request_response(self, payload):
            return Payload(b"from the client")

    async def accept(setup, requester):
        with pytest.raises(LocalProtocolError, match="not accepted yet"):
            await requester.request_response()
        with pytest.raises(LocalProtocolError):
            await requester.metadata_push(b"")
        seen.append(setup.metadata_mime_type)
        nursery.start_soon(ask, requester)
        return Responder()

    async def ask(requester):
        await trio.testing.wait_all_tasks_blocked()
        seen.append((await requester.request_response()).data)
        done.set()

    done = trio.Event()
    async with trio.open_nursery() as nursery:
        async with connected_pair(accept, client_responder=Client()):
            await done.wait()
    assert seen == ["message/x.rsocket.composite-metadata.v0", b"from the client"]


async def test_a_client_that_receives_connection_close(autojump_clock):
    """On CONNECTION_CLOSE open streams finish, new requests raise ClosedByPeer, then it ends."""
    async with frame_peer_server() as (peer, requester), trio.open_nursery() as nursery:
        answers = []

        async def ask():
            answers.append(await requester.request_response())

        nursery.start_soon(ask)
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(0, 0x102, b"going"))
        await trio.testing.wait_all_tasks_blocked()
        assert not requester.closed
        with pytest.raises(ClosedByPeer, match="going"):
            await requester.request_response()
        # The peer may not send requests either.
        await peer.send(RequestResponseFrame(2))
        assert (await peer.receive(ErrorFrame)).code == 0x202
        await peer.send(PayloadFrame(1, next=True, complete=True, data=b"answer"))
        await requester.wait_closed()
        await trio.testing.wait_all_tasks_blocked()
        assert answers == [Payload(b"answer")]


async def test_a_transport_closed_under_a_connection(caplog):
    """Closing the transport of serve_transport ends its connection without an error."""
    here, there = memory_transport_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, Responder(), there)
        async with FramePeer(here) as peer:
            await peer.setup()
            await peer.expect_alive()
            await there.aclose()
            await peer.expect_closed()
    assert "crashed" not in caplog.text


async def test_config_is_used():
    """A server keeps to its own limits."""
    config = ConnectionConfig(fragment_size=64)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            lambda task_status: serve(Gated(), LOCAL, config=config, task_status=task_status)
        )
        async with connect(server.uris[0]) as requester:
            payload = Payload(b"x" * 1000)
            assert await requester.request_response(payload) == payload
        nursery.cancel_scope.cancel()
