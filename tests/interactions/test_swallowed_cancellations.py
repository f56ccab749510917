"""Generators that swallow or shield off their cancellation are not asked without end."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Payload, Responder
from rsocket_trio.frames import RequestResponseFrame
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client

ENOUGH = 1000
"""More calls than this after its cancellation mean that a generator is asked without end."""

FEW = 5
"""So many calls are allowed, until all tasks know of the end."""


class Items(Responder):
    """Streams and channels are answered by the generator ``items``, whose ends are counted."""

    def __init__(self):
        self.ends = 0

    def request_stream(self, payload):
        return self.items()

    def request_channel(self, payload, payloads):
        return self.items()


class Stubborn(Items):
    """Its generators go on after any error at their ``yield``."""

    def __init__(self):
        super().__init__()
        self.swallowed = 0

    async def items(self):
        try:
            while self.swallowed < ENOUGH:
                try:
                    yield Payload(b"item")
                except trio.Cancelled:
                    self.swallowed += 1
        finally:
            self.ends += 1


@pytest.mark.parametrize("kind", ["stream", "channel"])
async def test_a_cancelled_stream_closes_its_generator(kind):
    """CANCEL ends the stream: the generator is closed, though it has swallowed the cancellation."""
    stubborn = Stubborn()
    async with connected_pair(stubborn) as requester:
        opened = (
            requester.request_stream(prefetch=1)
            if kind == "stream"
            else requester.request_channel([Payload()], prefetch=1)
        )
        async with opened:
            # The first item has come, and no later one may come.
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        assert stubborn.swallowed < FEW
        assert stubborn.ends == 1


@pytest.mark.parametrize("end", ["the client leaves", "the server is cancelled"])
async def test_the_end_of_the_connection_closes_its_generators(end):
    """The connection does not wait for the generator."""
    stubborn = Stubborn()
    with trio.CancelScope() as scope:
        async with connected_pair(stubborn) as requester:
            async with requester.request_stream(prefetch=1):
                await trio.testing.wait_all_tasks_blocked()
                if end == "the server is cancelled":
                    scope.cancel()
    assert stubborn.swallowed < FEW
    assert stubborn.ends == 1


class Careless(Items):
    """Its generators yield what is no payload, and go on after the error."""

    def __init__(self):
        super().__init__()
        self.refused = 0

    async def items(self):
        try:
            while self.refused < 100 * ENOUGH:
                try:
                    yield "no payload"
                except TypeError:
                    self.refused += 1
        finally:
            self.ends += 1

    async def request_response(self, payload):
        return payload


@pytest.mark.parametrize("kind", ["stream", "channel"])
async def test_other_tasks_run_while_items_are_refused(kind):
    """A generator that absorbs the error of each item does not block the loop."""
    careless = Careless()
    async with connected_pair(careless) as requester:
        async with (
            requester.request_stream()
            if kind == "stream"
            else requester.request_channel([Payload()])
        ):
            await trio.lowlevel.checkpoint()
            for _ in range(3):
                await requester.request_response(Payload(b"x"))
            assert 0 < careless.refused < 10 * ENOUGH
        await trio.testing.wait_all_tasks_blocked()
        assert careless.ends == 1


class Shielded(Items):
    """Its generators wait for credit in a shielded scope."""

    async def items(self):
        try:
            with trio.CancelScope(shield=True):
                while True:
                    yield Payload(b"item")
        finally:
            self.ends += 1


@pytest.mark.parametrize("end", ["CANCEL", "the client leaves", "the server is cancelled"])
@pytest.mark.parametrize("kind", ["stream", "channel"])
async def test_a_shielded_generator_is_closed(kind, end):
    """It is woken, although the cancellation does not reach it, and the connection can end."""
    shielded = Shielded()
    with trio.CancelScope() as scope:
        async with connected_pair(shielded) as requester:
            async with (
                requester.request_stream(prefetch=1)
                if kind == "stream"
                else requester.request_channel([Payload()], prefetch=1)
            ):
                await trio.testing.wait_all_tasks_blocked()
                if end == "the server is cancelled":
                    scope.cancel()
                elif end == "the client leaves":
                    # Its transport is lost before the block sends CANCEL.
                    await requester._connection.transport.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert shielded.ends == 1
    assert shielded.ends == 1


async def test_a_cancelled_source_is_closed():
    """The responder ends the requester's half, so the scope of the source is cancelled."""
    stubborn = Stubborn()

    class Brief(Responder):
        async def request_channel(self, payload, payloads):
            await payloads.receive()
            await trio.testing.wait_all_tasks_blocked()  # The source waits for credit.
            return
            yield

    config = ConnectionConfig(prefetch=1)
    async with connected_pair(Brief(), config=config) as requester:
        async with requester.request_channel(stubborn.items()) as replies:
            async for _ in replies:
                pass
            await trio.testing.wait_all_tasks_blocked()
            assert stubborn.swallowed < FEW
            assert stubborn.ends == 1


async def test_streams_end_before_slow_handlers(autojump_clock):
    """A connection that is cancelled fails its streams at once, and then waits for handlers."""

    class Slow(Responder):
        async def request_response(self, payload):
            with trio.move_on_after(60, shield=True):
                await trio.sleep_forever()

        async def accept(self, setup, requester):
            nursery.start_soon(ask, requester)
            return self

    async def ask(requester):
        await trio.sleep(1)
        with pytest.raises(trio.ClosedResourceError):
            await requester.request_response()
        assert trio.current_time() - began == 2

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with frame_peer_client(Slow()) as peer:
                await peer.send(RequestResponseFrame(1))
                await trio.sleep(2)
                scope.cancel()
