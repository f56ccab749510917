"""Frames that the loop sends for a sleeping writer: all of a turn at once, in order."""

import random
import signal
import struct
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import ConnectionConfig, ConnectionLost, Payload, Responder, connect, serve
from rsocket_trio.connection.flushing import FlushHook, flushed_by_loop
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.transports import memory_transport_pair
from rsocket_trio.transports.base import FrameTransport


class Immediate(FrameTransport):
    """Accepts a set number of frames, and notes how each was given to it."""

    sends_nowait = True

    def __init__(self, room=10**9):
        self.room = room  # frames that may leave without waiting
        self.sent = []
        self.writes = []
        self.rest = []
        self.broken = False

    def send_frames_nowait(self, frames):
        if self.broken:
            raise ValueError("internal")
        assert not self.rest
        with pytest.raises(RuntimeError):
            trio.lowlevel.current_task()
        self.writes.append(("loop", len(frames)))
        self.sent += frames[: self.room]
        self.rest = frames[self.room :]
        return not self.rest

    async def send_frames(self, frames):
        self.writes.append(("writer", len(frames)))
        if self.broken:
            raise trio.BrokenResourceError("broken")
        await trio.lowlevel.checkpoint()
        self.sent += self.rest + frames
        self.rest = []

    async def receive_frames(self):
        raise NotImplementedError

    async def aclose(self):
        raise NotImplementedError


@asynccontextmanager
async def writer_of(outbox, transport, broken=None):
    async def write():
        with flushed_by_loop(outbox, transport):
            try:
                while True:
                    await transport.send_frames(await outbox.take())
            except trio.BrokenResourceError as error:
                broken.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def test_a_turn_is_one_write():
    """Frames that several tasks queue in one turn leave in one write; stream 0 goes first."""
    outbox, transport = Outbox(1000, 1000, 10**9), Immediate()

    async def put(frame):
        outbox.put(frame)

    async with writer_of(outbox, transport):
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(put, b"%d" % number)
        outbox.put_control(b"control")
        outbox.put_urgent(b"urgent")
        assert (outbox.room.used, outbox.control_size) == (0, 13)
        await trio.testing.wait_all_tasks_blocked()
        assert transport.writes == [("loop", 5), ("loop", 2)]
        assert sorted(transport.sent[:5]) == [b"0", b"1", b"2", b"3", b"4"]
        assert transport.sent[5:] == [b"urgent", b"control"]
        assert (outbox.room.used, outbox.control_size, outbox.batches) == (0, 0, 2)
        assert not outbox.writing
        await outbox.wait_idle()


async def test_the_writer_sends_the_rest_of_a_flush():
    """The writer sends frames that the transport did not take at once, before all later ones."""
    outbox, transport = Outbox(1000, 1000, 10**9), Immediate(room=1)
    async with writer_of(outbox, transport):
        for frame in (b"one", b"two", b"three"):
            outbox.put(frame)
        await trio.lowlevel.checkpoint()
        assert outbox.writing
        outbox.put(b"four")
        await outbox.wait_idle()
        assert transport.sent == [b"one", b"two", b"three", b"four"]
        assert transport.writes[0] == ("loop", 3)
        assert {who for who, _ in transport.writes[1:]} == {"writer"}
        outbox.put(b"five")
        await trio.testing.wait_all_tasks_blocked()
        assert transport.writes[-1] == ("loop", 1)


async def test_errors_of_a_flush_reach_the_writer():
    """An error is not raised in the loop: the writer meets it, with all frames still queued."""
    outbox, transport, broken = Outbox(1000, 1000, 10**9), Immediate(), []
    async with writer_of(outbox, transport, broken):
        transport.broken = True
        outbox.put(b"frame")
        await trio.testing.wait_all_tasks_blocked()
        assert transport.writes == [("writer", 1)]
        assert [str(error) for error in broken] == ["broken"]
        outbox.put(b"late")  # no task is there to send it
        await trio.testing.wait_all_tasks_blocked()
        assert transport.sent == []


async def test_waiting_tasks_are_woken():
    """Tasks that wait for room, or for an idle outbox, are woken by the writer."""
    outbox, transport = Outbox(10, 1000, 10**9), Immediate()
    served = []

    async def produce(name):
        await outbox.reserve(10)
        served.append(name)
        outbox.put_reserved(name * 10)

    async with writer_of(outbox, transport):
        outbox.put(b"x" * 10)
        async with trio.open_nursery() as nursery:
            for name in (b"a", b"b", b"c"):
                nursery.start_soon(produce, name)
        await outbox.wait_idle()
        assert sorted(transport.sent) == sorted([b"x" * 10, *(name * 10 for name in served)])
        assert outbox.room.used == 0
        # Reserved room becomes free when its frames have left.
        await outbox.reserve(10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, b"e")
            await trio.testing.wait_all_tasks_blocked()
            outbox.put_reserved(b"f" * 10)
        await outbox.wait_idle()
        assert transport.sent[-2:] == [b"f" * 10, b"e" * 10]
        # There is no room at all, as without a lease: frames that need no room leave all the same.
        outbox.room.set_limit(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, b"d")
            await trio.testing.wait_all_tasks_blocked()
            outbox.put_control(b"control")
            await trio.testing.wait_all_tasks_blocked()
            assert transport.sent[-1] == b"control"
            outbox.room.set_limit(10)
        await outbox.wait_idle()
        assert transport.sent[-1] == b"d" * 10


@given(
    plan=st.lists(st.tuples(st.sampled_from("pcrwi"), st.integers(1, 30)), max_size=40),
    rooms=st.lists(st.integers(0, 3), min_size=1),
)
def test_no_frame_is_lost_or_reordered(plan, rooms):
    """All frames arrive in order, however much the transport takes and whichever tasks wait."""

    async def run():
        outbox, transport = Outbox(40, 10**6, 10**9), Immediate()
        expected = []

        async def produce(number, size):
            await outbox.reserve(size)
            frame = b"%d:" % number + bytes(size)
            expected.append(frame)
            outbox.put_reserved(frame)

        async with writer_of(outbox, transport):
            async with trio.open_nursery() as nursery:
                for number, (step, size) in enumerate(plan):
                    transport.room = rooms[number % len(rooms)]
                    frame = b"%d:" % number + bytes(size)
                    if step == "p" and outbox.room.used < outbox.room.limit:
                        outbox.put(frame)
                        expected.append(frame)
                    elif step == "c":
                        outbox.put_control(frame)
                        expected.append(frame)
                    elif step == "r":
                        nursery.start_soon(produce, number, size)
                    elif step == "w":
                        await trio.lowlevel.checkpoint()
                    elif step == "i":
                        nursery.start_soon(outbox.wait_idle)
            await outbox.wait_idle()
            assert transport.sent == expected
            assert outbox.room.used == 0

    trio.run(run)


async def test_a_cancelled_writer_sends_no_frame():
    """The loop sends no frame for a writer that was cancelled after frames were marked."""
    outbox, transport = Outbox(1000, 1000, 10**9), Immediate()
    async with writer_of(outbox, transport):
        outbox.put(b"frame")
    assert transport.sent == []
    assert await outbox.take() == [b"frame"]


async def test_one_hook_while_it_is_needed(monkeypatch):
    """A run has one hook for all its connections, and none after the last of them."""
    hooks = []
    before = FlushHook.__init__

    def noted(self):
        before(self)
        hooks.append(self)

    monkeypatch.setattr(FlushHook, "__init__", noted)
    one, two = Immediate(), Immediate()
    for _ in range(2):
        async with writer_of(Outbox(1, 1, 10**9), one), writer_of(Outbox(1, 1, 10**9), two):
            assert hooks[-1].connections == 2
        assert hooks[-1].connections == 0
        with pytest.raises(KeyError):
            trio.lowlevel.remove_instrument(hooks[-1])
    assert len(hooks) == 2
    async with writer_of(Outbox(1, 1, 10**9), memory_transport_pair()[0]):
        assert len(hooks) == 2  # This transport cannot send without waiting.


class Echo(Responder):
    async def request_response(self, payload):
        return payload

    async def request_stream(self, payload):
        while True:
            yield Payload(bytes(1000))


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_requests_of_all_sizes_over_sockets(scheme):
    """Requests of every size, at once, over sockets that take them in parts."""
    sizes = [random.Random(size).randrange(200_000) for size in range(60)]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Echo(), f"{scheme}://127.0.0.1:0")
        async with connect(server.uris[0]) as requester:

            async def ask(size):
                response = await requester.request_response(Payload(bytes(size)))
                assert response.data == bytes(size)

            async with trio.open_nursery() as asking:
                for size in sizes:
                    asking.start_soon(ask, size)
        nursery.cancel_scope.cancel()


async def test_a_peer_that_does_not_read():
    """Its queue stays within the outbox's bound, and every caller learns of the end."""
    lost = []
    with trio.socket.socket() as listener:
        await listener.bind(("127.0.0.1", 0))
        listener.listen()
        uri = "tcp://{}:{}".format(*listener.getsockname())
        async with connect(uri, config=ConnectionConfig(confirm_setup=False)) as requester:
            accepted, _ = await listener.accept()

            async def ask():
                with pytest.raises(ConnectionLost) as caught:
                    await requester.request_response(Payload(bytes(10_000)))
                lost.append(caught.value)

            async with trio.open_nursery() as nursery:
                for _ in range(2000):
                    nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked(0.05)
                limit = ConnectionConfig().limits.max_outbox_size
                assert 10_000 < requester.statistics().queued_size < limit + 20_000
                accepted.close()
    assert len(lost) == 2000


async def test_a_peer_that_resets_at_a_flush():
    """A write error in the loop is the error that callers get, not a clean end."""
    with trio.socket.socket() as listener:
        await listener.bind(("127.0.0.1", 0))
        listener.listen()
        uri = "tcp://{}:{}".format(*listener.getsockname())
        async with connect(uri, config=ConnectionConfig(confirm_setup=False)) as requester:
            accepted, _ = await listener.accept()
            await accepted.recv(65536)
            await trio.testing.wait_all_tasks_blocked()
            reset = struct.pack("ii", 1, 0)
            accepted.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, reset)
            accepted.close()
            with pytest.raises(ConnectionLost) as caught:
                await requester.request_response(Payload())
            assert isinstance(caught.value.__cause__, trio.BrokenResourceError)


async def use_a_connection():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Echo(), "tcp://127.0.0.1:0")
        async with connect(server.uris[0]) as requester:
            for _ in range(10):
                assert await requester.request_response(Payload(b"ping")) == Payload(b"ping")
        nursery.cancel_scope.cancel()


async def test_each_run_has_its_own_hook():
    """Each run has its own hook, both after and beside another run."""

    def run_twice():
        for _ in range(2):
            trio.run(use_a_connection)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trio.to_thread.run_sync, run_twice)
            nursery.start_soon(use_a_connection)


def test_an_interrupt_at_a_flush(monkeypatch, caplog):
    """Ctrl-C while the loop sends reaches the main task, and the frame still leaves."""
    before = DirectStream.send_nowait

    def interrupted(stream, data):
        monkeypatch.setattr(DirectStream, "send_nowait", before)
        signal.raise_signal(signal.SIGINT)
        return before(stream, data)

    answered = []

    async def main():
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, Echo(), "tcp://127.0.0.1:0")
            async with connect(server.uris[0]) as requester:

                async def ask():
                    answered.append(await requester.request_response(Payload(b"ping")))

                async with trio.open_nursery() as asking:
                    await trio.testing.wait_all_tasks_blocked()
                    monkeypatch.setattr(DirectStream, "send_nowait", interrupted)
                    asking.start_soon(ask)
                    try:
                        await trio.sleep_forever()
                    except KeyboardInterrupt:
                        with trio.fail_after(20):
                            while not answered:
                                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert answered == [Payload(b"ping")]
    assert not caplog.records  # An instrument that raises is switched off, and logged.
