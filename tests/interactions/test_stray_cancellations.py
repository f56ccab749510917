"""Handlers and sources that misuse cancel scopes end their own stream only."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Lease,
    LeaseOptions,
    Payload,
    Responder,
    StreamedPayload,
)
from rsocket_trio.testing.in_memory import connected_pair


async def numbers(timeout):
    """Give up items that wait too long: the generator has its own timeout, in a loop."""
    number = 0
    while True:
        with trio.move_on_after(timeout):
            yield Payload(b"%d" % number)
        number += 1


class Lossy(Responder):
    async def request_response(self, payload):
        await trio.sleep(3)
        return payload

    def request_stream(self, payload):
        return numbers(1)

    def request_channel(self, payload, payloads):
        return numbers(1)


@asynccontextmanager
async def undisturbed(requester):
    """Check that other requests of the connection are answered while the block runs."""
    async with trio.open_nursery() as nursery:
        answers = []

        async def ask():
            answers.append(await requester.request_response(Payload(b"alive")))

        nursery.start_soon(ask)
        yield
    assert answers == [Payload(b"alive")]


@pytest.mark.parametrize("kind", ["stream", "channel"])
async def test_a_timeout_around_yield_in_a_loop(kind, autojump_clock, caplog):
    """Items that wait too long are given up; the stream goes on."""
    async with connected_pair(Lossy()) as requester, undisturbed(requester):
        opened = (
            requester.request_stream(prefetch=1)
            if kind == "stream"
            else requester.request_channel([Payload()], prefetch=1)
        )
        async with opened as items:
            seen = []
            for _ in range(3):
                seen.append(int((await items.receive()).data))
                await trio.sleep(2.5)
            # One item is on its way while its reader is away for 2.5 s; then two items, of 1 s
            # each, are lost.
            assert seen == [0, 1, 4]
    assert not caplog.records


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # The inner generator is never closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_timeout_around_yield_two_generators_deep(autojump_clock, caplog):
    """The cancellation cannot be thrown into the inner generator: only the stream fails."""

    class Nested(Lossy):
        async def request_stream(self, payload):
            async for item in numbers(1):
                yield item

    async with connected_pair(Nested()) as requester:
        for _ in range(3):
            async with undisturbed(requester):
                with pytest.raises(ApplicationError, match="the handler failed"):
                    async with requester.request_stream(prefetch=1) as items:
                        while True:
                            await items.receive()
                            await trio.sleep(2.5)
    assert "crashed" not in caplog.text


async def test_a_timeout_around_yield_in_a_source(autojump_clock):
    """At the client too: the block reaches its end."""
    seen = []

    class Slow(Lossy):
        async def request_channel(self, payload, payloads):
            async for item in payloads:
                seen.append(int(item.data))
                if len(seen) == 3:
                    return
                await trio.sleep(2.5)
                yield item

    reached = False
    async with connected_pair(Slow()) as requester, undisturbed(requester):
        async with requester.request_channel(numbers(1)) as items:
            async for _ in items:
                pass
            reached = True
    assert reached
    assert len(seen) == 3


class Keeper(Lossy):
    """Keeps a `trio.Cancelled`, and raises it later, outside a cancelled scope."""

    def __init__(self, *, waits):
        self.waits = waits

    async def _raise_kept(self):
        kept = None
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                kept = error
                raise
        if self.waits:
            await trio.sleep(1)
        raise kept

    async def request_response(self, payload):
        if payload.data == b"alive":
            return await super().request_response(payload)
        return await self._raise_kept()

    async def fire_and_forget(self, payload):
        await self._raise_kept()

    async def request_stream(self, payload):
        yield Payload(b"one")
        await self._raise_kept()

    async def request_channel(self, payload, payloads):
        yield Payload(b"one")
        await self._raise_kept()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", ["response", "fnf", "stream", "channel"])
async def test_a_cancellation_without_a_cancelled_scope(kind, waits, autojump_clock, caplog):
    """It is a failure of its handler, which is logged; the requester gets a plain error."""
    async with connected_pair(Keeper(waits=waits)) as requester, undisturbed(requester):
        if kind == "fnf":
            await requester.fire_and_forget()
            await trio.sleep(2)
        else:
            with pytest.raises(ApplicationError, match="the handler failed"):
                if kind == "response":
                    await requester.request_response()
                elif kind == "stream":
                    async with requester.request_stream() as items:
                        async for _ in items:
                            pass
                else:
                    async with requester.request_channel([Payload()]) as items:
                        async for _ in items:
                            pass
    assert "belongs to no scope" in caplog.text


async def test_a_cancellation_without_a_cancelled_scope_in_a_source(autojump_clock):
    """It comes out of the block as an error, and the responder gets an ERROR."""
    ends = []

    class Collects(Lossy):
        async def request_channel(self, payload, payloads):
            try:
                async for _ in payloads:
                    pass
            except Exception as error:
                ends.append(type(error))
                raise
            yield Payload()

    async def source():
        yield Payload(b"one")
        await Keeper(waits=True)._raise_kept()

    async with connected_pair(Collects()) as requester, undisturbed(requester):
        with pytest.raises(RuntimeError, match="belongs to no scope"):
            async with requester.request_channel(source()) as items:
                async for _ in items:
                    pass
    assert ends == [ApplicationError]


@pytest.mark.parametrize("error", [GeneratorExit, type("Odd", (BaseException,), {})])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_base_exception_of_a_handler(error, waits, autojump_clock):
    """Any error of a handler that does not end the program ends its own stream only."""

    class Raises(Lossy):
        async def request_response(self, payload):
            if payload.data == b"alive":
                return await super().request_response(payload)
            if waits:
                await trio.sleep(1)
            raise error

    async with connected_pair(Raises()) as requester, undisturbed(requester):
        with pytest.raises(ApplicationError, match="the handler failed"):
            await requester.request_response()


async def granted_after_5_seconds(_question):
    await trio.sleep(max(0, 5 - trio.current_time()))
    return Lease(100, 100)


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_timeout_around_the_first_yield_of_a_source(goes_on, autojump_clock):
    """The item of the request frame may be given up as all others while it waits to leave."""

    class Answers(Lossy):
        async def request_channel(self, payload, payloads):
            async for each in payloads:
                yield each

    async def source():
        number = 0
        while number < 20:
            with trio.move_on_after(2):
                yield Payload(b"%d" % number)
            if not goes_on:
                return
            number += 1

    async with connected_pair(
        Answers(), lease=granted_after_5_seconds, client_lease=LeaseOptions()
    ) as requester:
        async with requester.request_channel(source()) as items:
            seen = [int(item.data) async for item in items]
        assert seen == (list(range(2, 20)) if goes_on else [])


@pytest.mark.parametrize("goes_on", [True, False])
async def test_half_a_first_item_ends_its_channel(goes_on, autojump_clock):
    """A source that gives up its first item after some of its fragments have left fails."""

    async def chunks():
        yield bytes(200_000)
        await trio.sleep_forever()

    async def source():
        with trio.move_on_after(1):
            yield StreamedPayload(chunks())
        while goes_on:
            yield Payload()

    async with connected_pair(Lossy()) as requester, undisturbed(requester):
        with pytest.raises(ApplicationError, match="dropped an item"):
            async with requester.request_channel(source()) as items:
                async for _ in items:
                    pass


async def test_a_source_that_absorbs_the_cancellation_of_its_first_item(autojump_clock):
    """It does not hold the loop, and the caller is cancelled."""

    async def source():
        while True:
            with suppress(trio.Cancelled):
                yield Payload(b"again")

    async with connected_pair(
        Lossy(), lease=granted_after_5_seconds, client_lease=LeaseOptions()
    ) as requester:
        with trio.move_on_after(1) as scope:
            async with requester.request_channel(source()) as items:
                async for _ in items:
                    pass
        assert scope.cancelled_caught
        assert trio.current_time() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("kind", ["stream", "channel"])
async def test_half_an_item_ends_its_stream(kind, goes_on, autojump_clock):
    """A generator that gives up an item after some of its fragments have left fails.

    If it then ends, COMPLETE would make the requester take the part for a whole item.
    """

    class Halves(Lossy):
        async def request_stream(self, payload):
            async def chunks():
                yield bytes(200_000)
                await trio.sleep_forever()

            while True:
                with trio.move_on_after(1):
                    yield StreamedPayload(chunks())
                if not goes_on:
                    return

        def request_channel(self, payload, payloads):
            return self.request_stream(payload)

    async with connected_pair(Halves()) as requester, undisturbed(requester):
        with pytest.raises(ApplicationError, match="dropped an item"):
            if kind == "stream":
                async with requester.request_stream() as items:
                    await items.receive()
            else:
                async with requester.request_channel([Payload()]) as items:
                    await items.receive()


async def test_credit_of_an_abandoned_item_is_used_again(autojump_clock):
    """The next item uses it: exactly as many items arrive as were granted."""

    class Chunky(Lossy):
        async def request_stream(self, payload):
            async def never():
                await trio.sleep_forever()
                yield b""

            with trio.move_on_after(1):
                yield StreamedPayload(never())
            for number in range(5):
                yield Payload(b"%d" % number)

    async with connected_pair(Chunky()) as requester:
        async with requester.request_stream(prefetch=0, initial_request_n=2) as items:
            assert [(await items.receive()).data for _ in range(2)] == [b"0", b"1"]
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.WouldBlock):
                items.receive_nowait()
