"""One epoll for the many sockets of a run: sockets that are closed, reused or dropped."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectFailed, serve
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.sockets.readiness import Readiness
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.dial import open_transport
from rsocket_trio.uri import as_uri
from tests.transports.readiness_pairs import needs_epoll, pair, receive_x

pytestmark = needs_epoll


async def test_a_stream_closed_under_a_reader(many: None) -> None:
    """The reader gets a ClosedResourceError at once, and the descriptor is forgotten."""
    async with pair() as (ours, _theirs):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_closed, ours)
            await trio.testing.wait_all_tasks_blocked()
            await ours.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await ours.receive_some()


async def expect_closed(stream: DirectStream) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()


async def test_a_reused_descriptor_is_not_mixed_up(many: None) -> None:
    """A socket that gets the number of a closed one is told of its own bytes only."""
    for number in range(5):
        async with pair() as (ours, theirs):
            data = b"connection %d" % number
            await theirs.send_all(data)
            assert await ours.receive_some() == data


async def test_a_socket_closed_below_the_stream(many: None) -> None:
    """A wait that begins after that says so, as trio does."""
    async with pair() as (ours, _theirs):
        await trio.aclose_forcefully(ours.inner)
        with pytest.raises(trio.ClosedResourceError):
            await ours.receive_some()


async def test_failed_handshakes_are_not_counted(many: None) -> None:
    """Their streams are closed below, and yet the run forgets them."""
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, KnownAnswers(), "ws://127.0.0.1:0")
        uri = as_uri(server.uris[0])
        for _ in range(3):
            async with await trio.open_tcp_stream("127.0.0.1", uri.port) as client:
                await client.send_all(b"nonsense\r\n\r\n")
                with suppress(trio.BrokenResourceError):
                    while await client.receive_some():
                        pass
        with pytest.raises(ConnectFailed):
            async with open_transport(f"ws://127.0.0.1:{uri.port}/nowhere"):
                raise AssertionError("the path exists")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert Readiness.of_this_run().streams == 0
        await server.aclose(grace=1)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_a_dropped_stream_is_closed(many: None) -> None:
    """The garbage collector closes its socket, and its watch goes as well."""
    async with pair() as (_other, _):
        shared = Readiness.of_this_run()
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with listener:
            host, port = listener.socket.getsockname()[:2]
            stream = await trio.open_tcp_stream(host, port)
            async with await listener.accept() as theirs:
                dropped = DirectStream(stream)
                with trio.move_on_after(0.01):
                    await dropped.receive_some()
                assert shared.streams == 1
                del dropped, stream
                gc.collect()
                with trio.fail_after(30):
                    assert await theirs.receive_some() == b""
        async with pair() as (ours, theirs):
            await theirs.send_all(b"x")
            await receive_x(ours)
            assert shared.streams == 1
