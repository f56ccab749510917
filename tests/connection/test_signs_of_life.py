"""A living peer is never treated as dead."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    ConnectionConfig,
    Limits,
    Payload,
    Responder,
    connect,
    serve_transport,
)
from rsocket_trio.connection import crew, first_steps, queued_steps
from rsocket_trio.frames import (
    KeepaliveFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.frames.length import LengthPrefixDecoder, join_frames
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport
from rsocket_trio.transports.memory import memory_transport_pair

LIFETIME = 25


class Server(Responder):
    def __init__(self):
        self.seen = []

    async def request_response(self, payload):
        self.seen.append(len(payload.data))
        return Payload(bytes(2**20))


async def setup(stream):
    """SETUP by hand, over bare bytes."""
    frame = SetupFrame(1, 0, keepalive_interval_ms=5000, max_lifetime_ms=LIFETIME * 1000)
    await stream.send_all(join_frames([frame.encode()]))


async def test_bytes_of_an_unfinished_frame(autojump_clock):
    """A frame that takes longer than the max lifetime to arrive shows that its sender lives."""
    server = Server()
    ours, theirs = trio.testing.memory_stream_pair()
    transport = ByteStreamTransport(ours, info=TransportInfo(scheme="tcp"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, server, transport)
        await setup(theirs)
        frame = join_frames([RequestResponseFrame(1, data=bytes(100)).encode()])
        for index in range(0, len(frame), 10):
            await theirs.send_all(frame[index : index + 10])
            await trio.sleep(10)
        assert server.seen == [100]
        nursery.cancel_scope.cancel()


async def test_progress_within_a_batch(autojump_clock):
    """A peer that reads a large batch slowly is alive, however long the whole takes."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    transport = ByteStreamTransport(ours, info=TransportInfo(scheme="tcp"))
    decoder = LengthPrefixDecoder(2**24 - 1)
    config = ConnectionConfig(fragment_size=2**24 - 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_transport(Server(), transport, config=config))
        await setup(theirs)

        async def stay_alive():
            while True:
                await theirs.send_all(join_frames([KeepaliveFrame(False).encode()]))
                await trio.sleep(5)

        await theirs.send_all(join_frames([RequestResponseFrame(1).encode()]))
        nursery.start_soon(stay_alive)
        frames = []
        while not frames:
            frames = decoder.feed(await theirs.receive_some(2**16))
            await trio.sleep(10)
        assert len(decode(frames[0]).data) == 2**20
        assert trio.current_time() > 5 * LIFETIME
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("attempt", range(5))  # trio runs ready tasks in any order.
async def test_a_loop_that_stood_still(attempt, mock_clock):
    """Bytes that have arrived meanwhile are read before a peer is called dead."""
    async with frame_peer_client(Server(), setup=False) as peer:
        await peer.setup(max_lifetime=LIFETIME)
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked()
            await peer.transport.send_frames([KeepaliveFrame(False).encode()])
            mock_clock.jump(2 * LIFETIME)  # as a handler that computes would do
        await peer.expect_alive()


async def test_a_keepalive_behind_handlers_that_compute(mock_clock):
    """A KEEPALIVE waits for at most a burst of requests, and not for all that are queued."""
    run = []

    class Computes(Responder):
        async def fire_and_forget(self, payload):
            mock_clock.jump(0.002)
            run.append(payload)

    async with frame_peer_client(Computes()) as peer:
        await peer.send(*[RequestFnfFrame(number) for number in range(1, 12_000, 2)])
        await peer.send(KeepaliveFrame(respond=True, data=b"alive?"))
        assert (await peer.receive(KeepaliveFrame)).data == b"alive?"
        assert len(run) < 1000
        await trio.testing.wait_all_tasks_blocked()
        assert len(run) == 6000


async def test_a_keepalive_behind_handlers_that_compute_and_then_wait(monkeypatch):
    """Each keeps a task; the reading goes before the queue after a while, and few begin at once."""
    now = 0.0
    run = []
    answered = trio.Event()

    class Computes(Responder):
        async def request_response(self, payload):
            nonlocal now
            now += 0.005
            run.append(payload)
            await answered.wait()

    monkeypatch.setattr(crew, "perf_counter", lambda: now)
    for module in (first_steps, queued_steps):
        monkeypatch.setattr(module, "perf_counter", lambda: now)
    async with frame_peer_client(Computes()) as peer:
        await peer.send(*[RequestResponseFrame(number) for number in range(1, 1200, 2)])
        while not run:
            await trio.lowlevel.checkpoint()
        await peer.send(KeepaliveFrame(respond=True, data=b"alive?"))
        assert (await peer.receive(KeepaliveFrame)).data == b"alive?"
        assert len(run) < 100
        answered.set()
        await peer.drain()
        assert len(run) == 600


async def test_a_cancel_behind_handlers_that_compute(mock_clock):
    """A CANCEL is not delayed either: a request that has not begun never begins."""
    run = []

    class Computes(Responder):
        async def request_response(self, payload):
            run.append(payload.data)
            return payload

    async with frame_peer_client(Computes()) as peer:
        requests = [RequestResponseFrame(n, data=b"%d" % n) for n in range(1, 4000, 2)]
        await peer.send(*requests)
        await peer.send(bytes.fromhex("00000f9f2400"))  # CANCEL of stream 3999
        answers = [await peer.receive(PayloadFrame) for _ in range(len(requests) - 1)]
    assert {answer.stream_id for answer in answers} == set(range(1, 3998, 2))
    assert b"3999" not in run


@pytest.mark.parametrize("room", [1, 1000, 2**18])
async def test_two_ends_that_send_more_than_they_read(room):
    """Both answer thousands of requests at a time with errors, which never wait for room."""
    total = 3000

    class Refuses(Responder):
        async def request_response(self, payload):
            raise ValueError

    limits = Limits(max_control_size=100, max_outbox_size=room)
    config = ConnectionConfig(limits=limits)
    here, there = memory_transport_pair(max_bytes=1000)
    ends = []

    async def ask(requester):
        refused = 0

        async def one():
            nonlocal refused
            with pytest.raises(ApplicationError):
                await requester.request_response(Payload(bytes(100)))
            refused += 1

        async with trio.open_nursery() as nursery:
            for _ in range(total):
                nursery.start_soon(one)
        ends.append(refused)

    class Asks(Refuses):
        async def accept(self, setup, requester):
            self.requester = requester
            return self

    server = Asks()
    with trio.fail_after(50):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: serve_transport(server, there, config=config))
            async with connect(here, responder=Refuses(), config=config) as requester:
                async with trio.open_nursery() as both:
                    both.start_soon(ask, requester)
                    both.start_soon(ask, server.requester)
    assert ends == [total, total]


async def test_both_ends_stay_alive_for_an_hour(autojump_clock):
    """There are only KEEPALIVEs, in both directions."""
    async with connected_pair(Server()) as requester:
        await trio.sleep(3600)
        assert len((await requester.request_response()).data) == 2**20
