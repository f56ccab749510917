"""Streams of one connection share it: large ones do not starve small ones."""

from collections import Counter

import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Limits, Payload, Responder, StreamedPayload
from rsocket_trio.frames import (
    KeepaliveFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    decode,
)
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client

LARGE = 16 * 2**20


class Both(Responder):
    """One large answer, as a whole or in chunks, and a stream of small items."""

    async def request_response(self, payload):
        if payload.data == b"chunks":
            return StreamedPayload(self._chunks())
        return Payload(bytes(LARGE))

    async def _chunks(self):
        for _ in range(16):
            yield bytes(2**20)

    async def request_stream(self, payload):
        number = 0
        while True:
            yield Payload(b"%d" % number)
            number += 1
            await trio.lowlevel.checkpoint()


async def test_a_small_stream_beside_a_large_payload():
    """Its items arrive between the fragments of 16 MiB, not behind them."""
    for request in (b"whole", b"chunks"):
        async with connected_pair(Both()) as requester:
            seen = 0

            async def count(items):
                nonlocal seen
                async for _ in items:
                    seen += 1

            async with requester.request_stream(prefetch=4) as items:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(count, items)
                    before = seen
                    response = await requester.request_response(Payload(request))
                    assert len(response.data) == LARGE
                    # 256 fragments of 64 KiB went by; four items may be on the way at a time.
                    assert seen - before >= 16
                    nursery.cancel_scope.cancel()


async def test_the_frames_are_interleaved():
    """On the wire small items stand between the fragments, and KEEPALIVE overtakes them."""
    config = ConnectionConfig()
    async with frame_peer_client(Both(), config=config) as peer:
        await peer.send(RequestResponseFrame(1))
        await peer.send(RequestStreamFrame(3, initial_request_n=1000))
        await peer.send(KeepaliveFrame(respond=True))
        run, longest, kept_alive_after, got, small = 0, 0, None, 0, 0
        while got < LARGE:
            # Not peer.receive: it skips KEEPALIVEs.
            for frame in map(decode, await peer.transport.receive_frames()):
                if isinstance(frame, KeepaliveFrame):
                    kept_alive_after = got
                elif isinstance(frame, PayloadFrame) and frame.stream_id == 1:
                    got += len(frame.data)
                    run += 1
                    longest = max(longest, run)
                else:
                    small += 1
                    run = 0
        # The two producers take turns as trio lets them run, so a run has no exact bound.
        assert longest < LARGE // config.fragment_size // 2
        assert small >= 16
        assert kept_alive_after is not None
        assert kept_alive_after < LARGE // 4


async def test_a_request_beside_streams_that_fill_the_outbox():
    """It begins in its turn, although other streams use all free room."""

    class Answers(Responder):
        async def request_response(self, payload):
            return payload

        async def request_stream(self, payload):
            while True:
                yield Payload(bytes(1000))

    config = ConnectionConfig(limits=Limits(max_outbox_size=2000))
    async with connected_pair(Answers(), config=config) as requester:
        seen = 0

        async def drink(task_status):
            nonlocal seen
            async with requester.request_stream() as items:
                await items.receive()
                task_status.started()
                async for _ in items:
                    seen += 1
                    assert seen < 100_000, "the request did not begin"

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                await nursery.start(drink)
            assert await requester.request_response(Payload(b"small")) == Payload(b"small")
            nursery.cancel_scope.cancel()


async def test_requests_that_never_block_leave_turns_to_others():
    """A few workers share thousands of requests that came at once, a burst each in a turn."""
    began = Counter()
    workers = set()

    class Turns(trio.abc.Instrument):
        count = 0

        def before_io_wait(self, timeout):
            self.count += 1

    class Busy(Responder):
        async def fire_and_forget(self, payload):
            began[turns.count] += 1
            workers.add(trio.lowlevel.current_task())

    turns = Turns()
    trio.lowlevel.add_instrument(turns)
    async with frame_peer_client(Busy()) as peer:
        await peer.send(*[RequestFnfFrame(number) for number in range(1, 14_000, 2)])
        await trio.testing.wait_all_tasks_blocked()
        assert began.total() == 7000
        assert max(began.values()) <= 31 * 16
        assert len(workers) <= 31
    trio.lowlevel.remove_instrument(turns)
