"""KEEPALIVE, the lifetime of a silent peer, and the other timers of a connection."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectFailed,
    ConnectionConfig,
    ConnectionLost,
    Limits,
    Payload,
    RejectedSetup,
    Responder,
    connect,
    serve_transport,
)
from rsocket_trio.frames import ErrorFrame, KeepaliveFrame, PayloadFrame, RequestResponseFrame
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server
from rsocket_trio.transports.memory import memory_transport_pair

CONFIG = ConnectionConfig(keepalive_interval=10, max_lifetime=25)


async def test_two_idle_ends_keep_each_other_alive(autojump_clock):
    """An hour without a request: the connection still works."""
    answers = []

    class Echo(Responder):
        async def request_response(self, payload):
            answers.append(payload)
            return payload

    async with connected_pair(Echo(), config=CONFIG) as client:
        await trio.sleep(3600)
        await client.request_response()
    assert answers == [Payload()]


async def test_a_client_sends_keepalive_every_interval(autojump_clock):
    """A client sends KEEPALIVE with R every interval, also beside other traffic."""
    async with frame_peer_server(config=CONFIG) as (peer, _requester):
        peer.timeout = 100
        begin = trio.current_time()
        for number in range(1, 6):
            question = await peer.answer_keepalive()
            assert (question.data, trio.current_time() - begin) == (b"", 10 * number)


async def test_a_dead_server_is_dropped(autojump_clock):
    """A server silent for the max lifetime gets the reason, and so does every waiting call."""
    async with frame_peer_server(config=CONFIG) as (peer, requester):
        begin = trio.current_time()
        with pytest.raises(ConnectionLost, match="silent for 25 s"):
            await requester.request_response()
        assert trio.current_time() - begin == 25
        await peer.receive(RequestResponseFrame)
        assert "silent" in (await peer.expect_closed(0x101)).data.decode()


async def test_a_dead_client_is_dropped(autojump_clock):
    """A server uses the lifetime of the client's SETUP, cancels its handlers and closes."""
    ended = []

    class Waits(Responder):
        async def request_response(self, _payload):
            try:
                await trio.sleep_forever()
            finally:
                ended.append(trio.current_time())

    async with frame_peer_client(Waits(), setup=False) as peer:
        peer.timeout = 100
        begin = trio.current_time()
        await peer.setup(max_lifetime=33)
        await peer.send(RequestResponseFrame(1))
        await peer.expect_closed(0x101)
        assert [when - begin for when in ended] == [33]


@pytest.mark.parametrize("side", ["client", "server"])
async def test_a_peer_that_does_not_read_is_dropped(side, autojump_clock):
    """A peer that sends but does not read is dropped after one to two lifetimes."""
    here, there = memory_transport_pair(max_bytes=100)
    peer = FramePeer(there, timeout=1000)
    config = ConnectionConfig(keepalive_interval=5, max_lifetime=25, close_timeout=1)

    async def talk():
        while True:
            await trio.sleep(5)
            await peer.send(KeepaliveFrame(respond=False))

    class Pours(Responder):
        async def request_stream(self, payload):
            while True:
                yield Payload(b"x" * 50)

    async with trio.open_nursery() as nursery:
        begin = trio.current_time()
        if side == "client":

            async def pour():
                async with connect(here, config=config) as requester:
                    with pytest.raises(ConnectionLost, match="read nothing for 25 s"):
                        while True:
                            await requester.fire_and_forget(Payload(b"x" * 50))
                nursery.cancel_scope.cancel()

            nursery.start_soon(pour)
            await peer.accept()
            await talk()
        else:

            async def serve():
                await serve_transport(Pours(), here, config=config)
                nursery.cancel_scope.cancel()

            nursery.start_soon(serve)
            await peer.setup(max_lifetime=25)
            await peer.send(bytes.fromhex("00000001 1800 7fffffff"))
            await talk()
    assert 25 <= trio.current_time() - begin <= 60


async def test_a_server_that_never_answers_setup(autojump_clock):
    """`connect` gives up after setup_timeout, and the error says what to do."""
    config = ConnectionConfig(setup_timeout=7)
    here, there = memory_transport_pair()
    begin = trio.current_time()
    async with FramePeer(there) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(peer.receive)
        with pytest.raises(ConnectFailed, match=r"within 7 s.*confirm_setup=False"):
            async with connect(here, config=config):
                raise AssertionError("there is no connection")
    assert 7 <= trio.current_time() - begin <= 8


async def test_a_client_that_sends_nothing_is_refused(autojump_clock):
    """A server refuses it after setup_timeout, with a reason, and closes."""
    config = ConnectionConfig(setup_timeout=7)
    async with frame_peer_client(Responder(), setup=False, config=config) as peer:
        begin = trio.current_time()
        error = await peer.expect_closed(0x001)
        assert trio.current_time() - begin == 7
        assert error.data == b"no SETUP within 7 s"


async def test_connect_without_confirmation(autojump_clock):
    """With confirm_setup=False connect enters at once, and a refusal comes later."""
    config = ConnectionConfig(confirm_setup=False)
    async with frame_peer_server(config=config) as (peer, requester):
        await peer.send(ErrorFrame(0, 0x003, b"no"))
        await requester.wait_closed()
        with pytest.raises(RejectedSetup, match="REJECTED_SETUP: no"):
            await requester.request_response()


async def test_a_peer_that_reads_nothing_delays_a_close_by_close_timeout(autojump_clock):
    """Frames that cannot leave do not keep the block from ending."""
    here, there = memory_transport_pair(max_bytes=100)
    async with FramePeer(there) as peer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.accept)
            async with connect(here, config=ConnectionConfig(close_timeout=3)) as requester:
                for _ in range(10):
                    await requester.fire_and_forget(Payload(b"x" * 100))
                await trio.testing.wait_all_tasks_blocked()
                begin = trio.current_time()
        assert trio.current_time() - begin == 3


async def test_a_peer_that_needs_answers_but_does_not_read_is_dropped():
    """Past max_unsent_control_size the connection ends with a reason; old requests are answered."""
    config = ConnectionConfig(limits=Limits(max_control_size=1000, max_unsent_control_size=5000))
    here, there = memory_transport_pair(max_bytes=1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_transport(Responder(), here, config=config))
        async with FramePeer(there) as peer:
            await peer.setup()
            for _ in range(62):
                await peer.send(KeepaliveFrame(respond=True, data=b"x" * 100))
                await trio.testing.wait_all_tasks_blocked()
            answered = 0
            while not isinstance(
                frame := await peer._next("a frame", skip_keepalive=False), ErrorFrame
            ):
                assert frame == KeepaliveFrame(respond=False, data=b"x" * 100)
                answered += 1
            assert 40 < answered < 80
            assert (frame.code, frame.data[-20:]) == (0x101, b"nswers were not read")


async def test_a_peer_that_reads_late():
    """Past max_control_size its requests wait, and are answered once it has read; none is lost."""
    config = ConnectionConfig(limits=Limits(max_control_size=1000))
    began = []

    class Echo(Responder):
        async def request_response(self, payload):
            began.append(payload.data)
            return payload

    here, there = memory_transport_pair(max_bytes=1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_transport(Echo(), here, config=config))
        async with FramePeer(there) as peer:
            await peer.setup()
            for _ in range(30):
                await peer.send(KeepaliveFrame(respond=True, data=b"x" * 100))
            await trio.testing.wait_all_tasks_blocked()
            await peer.send(RequestResponseFrame(1, data=b"late"))
            await trio.testing.wait_all_tasks_blocked()
            assert began == []
            for _ in range(30):
                await peer.receive(KeepaliveFrame)
            assert (await peer.receive(PayloadFrame)).data == b"late"
