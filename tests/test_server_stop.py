"""The graceful stop of a server, its end by cancellation, and what its clients see."""

from __future__ import annotations

import ssl
from functools import partial

import pytest
import trio
import trio.testing
import trustme

from rsocket_trio import ClosedByPeer, ConnectionLost, ErrorCode, Payload, connect, serve
from rsocket_trio.frames import ErrorFrame, PayloadFrame, RequestResponseFrame
from rsocket_trio.testing.in_memory import frame_peer_server
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports import open_transport
from tests.gated import LOCAL, Gated


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
    """Requests open after the grace are cancelled; a second stop(0) does the same.

    Everything at the client names the announced end, and nothing a crash: the request that is cut,
    the next request, and the wait for the end.
    """
    for graces in ([0.05], [60, 0]):
        gated = Gated()
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, gated, LOCAL)

            async def ask(requester):
                with pytest.raises(ClosedByPeer) as caught:
                    await requester.request_response(Payload(b"wait"))
                reason = await requester.wait_closed()
                with pytest.raises(ClosedByPeer) as refused:
                    await requester.request_response(Payload(b"later"))
                for error in (caught.value, refused.value, reason):
                    assert isinstance(error, ClosedByPeer)
                    assert error.code == ErrorCode.CONNECTION_CLOSE

            async with connect(server.uris[0]) as requester, trio.open_nursery() as asking:
                asking.start_soon(ask, requester)
                while not _begun(server):
                    await trio.lowlevel.checkpoint()
                server.stop(grace=60)  # what leaves now arrives before the end
                await trio.testing.wait_all_tasks_blocked(0.01)
                for grace in graces:
                    server.stop(grace=grace)
            await server.aclose()
        assert gated.log == ["cancelled"]


async def test_silent_peers_do_not_delay_a_stop():
    """A connection without SETUP is closed; it is told why, as a SETUP may be on its way."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL)
        async with open_transport(server.uris[0], max_frame_size=1000) as silent:
            while trio.lowlevel.current_statistics().tasks_living < 1:
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked(0.05)
            with trio.fail_after(30):
                await server.aclose(grace=60)
            assert await silent.receive_frames() == [
                ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"the server is being stopped").encode()
            ]
            assert await silent.receive_frames() == []


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n"])
@pytest.mark.parametrize("scheme", ["tls", "ws", "wss"])
@pytest.mark.parametrize("full", [False, True])
async def test_handshakes_do_not_delay_a_stop(scheme, sent, full, caplog):
    """They end at once, also that of a connection past `max_connections`; it is no failure."""
    uri = f"{scheme}://127.0.0.1:0"
    context = None
    if scheme != "ws":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("localhost").configure_cert(context)
    start = partial(serve, Gated(), uri, ssl_context=context, max_connections=1 if full else None)
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(start)
        port = int(server.uris[0].split(":")[-1].strip("/"))
        for _ in range(3):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            nursery.start_soon(drop, stream)
            await stream.send_all(sent)
        await trio.sleep(0.1)
        caplog.clear()
        with trio.fail_after(30):
            await server.aclose(grace=60)
    assert not caplog.records


async def drop(stream):
    """Read to the end of the stream, which a server that is being stopped sends."""
    async with stream:
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass


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
        with trio.fail_after(30):
            await server.aclose()
    assert gated.log == ["cancelled"]


async def _lost(requester):
    with pytest.raises((ConnectionLost, trio.ClosedResourceError)):
        await requester.request_response(Payload(b"wait"))


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
