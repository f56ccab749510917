"""request_channel between two real ends, in both directions."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Canceled,
    ConnectionConfig,
    CustomError,
    Limits,
    MetadataError,
    Payload,
    Responder,
)


class Channels(Responder):
    """Answers with an async iterable that a function makes of the payloads."""

    def __init__(self, make):
        self.make = make

    def request_channel(self, payload, payloads):
        return self.make(payload, payloads)


async def echo(_payload, payloads):
    async for payload in payloads:
        yield payload


def numbers(n):
    return [Payload(b"%d" % number) for number in range(n)]


async def agen(items):
    for item in items:
        yield item


async def exchange(requester, source, **options):
    """Return all the replies."""
    async with requester.request_channel(source, **options) as replies:
        return [reply async for reply in replies]


@pytest.mark.parametrize("n", [1, 2, 3, 500])
@pytest.mark.parametrize("prefetch", [1, 3, None])
@pytest.mark.parametrize("kind", [list, iter, agen], ids=["list", "iterator", "generator"])
async def test_items_keep_their_order_both_ways(link, n, prefetch, kind):
    """All items go to the responder and come back, in order, with any windows."""
    config = ConnectionConfig(prefetch=prefetch or 256)
    async with link(Channels(echo), config) as here:
        source = kind(numbers(n))
        assert await exchange(here.requester, source, prefetch=prefetch) == numbers(n)
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


@pytest.mark.parametrize("config", [ConnectionConfig(), ConnectionConfig(fragment_size=64)])
async def test_items_arrive_as_they_were_sent(link, config):
    """Data and metadata, absent, empty and large, whole and in fragments, both ways."""
    items = [Payload(d, m) for d in (b"d" * 200, b"") for m in (b"m" * 200, b"", None)]
    async with link(Channels(echo), config) as here:
        assert await exchange(here.requester, items) == items
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_large_items_both_ways(link):
    """16 MiB items each way at the same time."""
    items = [Payload(b"x" * 2**24), Payload(b"y" * 2**24)]
    async with link(Channels(echo)) as here:
        assert await exchange(here.requester, items) == items


async def test_the_opening_payload(link):
    """``payload`` opens the channel, before the source is started; the handler gets it twice."""
    seen = []

    async def look(payload, payloads):
        seen.append(payload)
        async for item in payloads:
            seen.append(item)
        yield Payload(b"end")

    async with link(Channels(look)) as here:
        first = Payload(b"first")
        assert await exchange(here.requester, numbers(2), payload=first) == [Payload(b"end")]
        assert seen == [first, first, *numbers(2)]
        seen.clear()
        assert await exchange(here.requester, [], payload=first) == [Payload(b"end")]
        assert seen == [first, first]


@pytest.mark.parametrize("kind", [list, agen])
async def test_an_empty_source_opens_a_channel_without_items(link, kind):
    """The handler runs and answers. It sees no item, also as payloads."""
    seen = []

    async def look(payload, payloads):
        seen.append([payload, [item async for item in payloads]])
        yield Payload(b"nothing came")

    async with link(Channels(look)) as here:
        assert await exchange(here.requester, kind([])) == [Payload(b"nothing came")]
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()
    assert seen == [[Payload(), []]]


async def test_an_item_without_data_is_an_item(link):
    """A source of one empty payload is told from a source without items."""
    async with link(Channels(echo)) as here:
        assert await exchange(here.requester, [Payload()]) == [Payload()]
        assert await exchange(here.requester, [Payload(), Payload()]) == [Payload(), Payload()]


async def test_replies_may_end_first(link):
    """A handler may finish first: the requester's half is stopped, and its source closed."""
    closed = []

    async def endless():
        try:
            while True:
                yield Payload(b"x")
        finally:
            closed.append(trio.current_effective_deadline())

    async def two(_payload, _payloads):
        yield Payload(b"0")
        yield Payload(b"1")

    async with link(Channels(two)) as here:
        assert await exchange(here.requester, endless()) == numbers(2)
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()
    assert len(closed) == 1


async def test_the_source_keeps_to_the_credit(link):
    """A handler that does not read gets one window; the source is asked for one item more."""
    made = []

    async def endless():
        while True:
            made.append(1)
            yield Payload(b"x")

    async def reader(_payload, payloads):
        await gate.wait()
        async for _ in payloads:
            yield Payload(b"got")

    gate = trio.Event()
    async with link(Channels(reader), ConnectionConfig(prefetch=4)) as here:
        async with here.requester.request_channel(endless(), prefetch=1000) as replies:
            await trio.testing.wait_all_tasks_blocked()
            # One item in the request frame, which costs no credit, four by credit, and one not sent
            # yet.
            assert len(made) == 6
            gate.set()
            for _ in range(100):
                await replies.receive()
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


@pytest.mark.parametrize("error", [Canceled("c"), CustomError("x", code=0x301)])
async def test_an_error_of_the_handler_ends_both_halves(link, error):
    """The replies raise it, typed, and the source is closed."""
    closed = []

    async def endless():
        try:
            while True:
                yield Payload(b"x")
        finally:
            closed.append(1)

    async def failing(_payload, _payloads):
        yield Payload(b"0")
        raise error

    async with link(Channels(failing)) as here:
        async with here.requester.request_channel(endless()) as replies:
            assert await replies.receive() == Payload(b"0")
            with pytest.raises(type(error), match=error.message):
                await replies.receive()
            await trio.testing.wait_all_tasks_blocked()
            assert closed == [1]
        here.assert_idle()


@pytest.mark.parametrize("at", [0, 1, 3])
async def test_an_unexpected_error_of_the_source(link, at):
    """It comes out of the block unchanged; the handler gets an error without its text."""
    seen = []

    async def source():
        for item in numbers(at):
            yield item
        raise KeyError("secret")

    async def watch(_payload, payloads):
        try:
            async for payload in payloads:
                yield payload
        except ApplicationError as error:
            seen.append(error.message)
            raise

    async with link(Channels(watch)) as here:
        with pytest.raises(KeyError, match="secret"):
            async with here.requester.request_channel(source()):
                await trio.sleep_forever()  # The body is cancelled.
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()
    assert "secret" not in "".join(seen)


async def test_a_stream_error_of_the_source(link):
    """A StreamError of the source goes to the handler's stream with code and text."""
    seen = []

    async def source():
        yield Payload(b"0")
        yield Payload(b"1")
        await trio.testing.wait_all_tasks_blocked()
        raise CustomError("mine", code=0x301)

    class Handler(Responder):
        async def request_channel(self, payload, payloads):
            try:
                async for _ in payloads:
                    pass
            except CustomError as error:
                seen.append((error.code, error.message))
            return echo(payload, payloads)

    async with link(Handler()) as here:
        with pytest.raises(CustomError, match="mine"):
            await exchange(here.requester, source())
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


@pytest.mark.parametrize("source", [5, ["text"], [b"bytes"], [Payload("text")]])
async def test_a_wrong_source_is_refused(link, source):
    """A source of a wrong type, or with wrong items, is a TypeError."""
    async with link(Channels(echo)) as here:
        with pytest.raises((TypeError, AttributeError)):
            await exchange(here.requester, source)
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_an_error_of_the_body_comes_out_unchanged(link):
    """It is not grouped, and the channel is cancelled."""
    async with link(Channels(echo)) as here:
        with pytest.raises(LookupError, match="mine"):
            async with here.requester.request_channel(agen(numbers(1000)), prefetch=1):
                raise LookupError("mine")
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_an_error_of_the_body_is_not_lost_to_a_cancellation(link):
    """A block that fails, and is cancelled while its source closes, raises its error."""

    async def stubborn():
        try:
            yield Payload(b"0")
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await gate.wait()

    gate = trio.Event()
    async with link(Channels(echo)) as here:
        with pytest.raises(LookupError, match="mine"), trio.CancelScope() as scope:
            async with here.requester.request_channel(stubborn()) as replies:
                await replies.receive()
                scope.cancel()
                gate.set()
                raise LookupError("mine")


async def test_a_source_that_fails_while_the_body_is_cancelled(link, caplog):
    """Its failure is logged; the cancellation alone goes on, also of a source with tasks."""

    async def source():
        yield Payload(b"0")
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails)
                nursery.start_soon(trio.sleep_forever)
        finally:
            ended.append(True)

    async def fails():
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in the cleanup")

    ended = []
    async with link(Channels(echo)) as here:
        with trio.CancelScope() as scope:
            async with here.requester.request_channel(source()) as replies:
                await replies.receive()
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert ended
    assert "the source of a channel failed as well" in caplog.text


async def test_a_cancelled_body(link):
    """Cancelling a block with a running source raises no other error, and closes the source."""
    closed = []

    async def endless():
        try:
            while True:
                yield Payload(b"x")
        finally:
            closed.append(1)

    async with link(Channels(echo)) as here:
        with trio.CancelScope() as scope:
            async with here.requester.request_channel(endless()) as replies:
                await replies.receive()
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert closed == [1]
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_channels_of_a_peer_keep_to_max_prefetch(link):
    """A handler never gets more unread items than Limits.max_prefetch allows."""
    peaks = []

    async def look(_payload, payloads):
        await trio.testing.wait_all_tasks_blocked()
        peaks.append(payloads.statistics().peak_unread)
        async for _ in payloads:
            pass
        yield Payload(b"end")

    config = ConnectionConfig(limits=Limits(max_prefetch=3))
    async with link(Channels(look), config) as here:
        replies = await exchange(here.requester, numbers(100), prefetch=1)
        assert replies == [Payload(b"end")]
    assert peaks == [4]  # This includes the item of the request frame, which costs no credit.


async def test_a_request_that_cannot_be_made(link):
    """If the route cannot be encoded, the replies raise that, and the source is closed."""
    closed = []

    async def source():
        try:
            yield Payload(b"", b"\xff")
        finally:
            closed.append(1)

    async with link(Channels(echo)) as here:
        with pytest.raises(MetadataError):
            await exchange(here.requester, source(), route="r" * 300)
        assert closed == [1]
        here.assert_idle()


@pytest.mark.parametrize("size", [10, 1000])
@pytest.mark.parametrize("fails", [False, True])
async def test_leaving_in_the_turn_in_which_room_comes(link, size, fails):
    """The request waited for room: the part of it that leaves is cancelled, or none leaves."""
    begun = []

    async def handle(payload, _payloads):
        begun.append(payload)
        await trio.sleep_forever()
        yield payload

    config = ConnectionConfig(fragment_size=64)
    async with link(Channels(handle), config) as here:
        outbox = here.requester._connection.outbox
        limit = outbox.room.limit
        for room in (1, 100, limit):
            with pytest.raises(OSError) if fails else nullcontext():
                outbox.room.set_limit(0)
                async with here.requester.request_channel([Payload(b"x" * size)]):
                    await trio.testing.wait_all_tasks_blocked()
                    outbox.room.set_limit(room)
                    if fails:
                        raise OSError
            outbox.room.set_limit(limit)
            await trio.testing.wait_all_tasks_blocked()
            here.assert_idle()
            assert not here.requester._connection.table._unopened
        assert begun == []
        async with here.requester.request_channel([]):
            await trio.testing.wait_all_tasks_blocked()
            assert begun == [Payload()]


async def waits_without_end():
    await trio.sleep_forever()
    yield Payload()


async def raises():
    raise OSError
    yield Payload()


@pytest.mark.parametrize(
    "source", [lambda: numbers(3), list, raises, waits_without_end], ids=lambda each: each.__name__
)
async def test_a_pending_channel_is_forgotten(link, source, autojump_clock):
    """Once it is open, or cannot open any more, the connection does not wait for it."""
    async with link(Channels(echo)) as here:
        table = here.requester._connection.table
        for _ in range(3):
            failing = pytest.raises(OSError) if source is raises else nullcontext()
            with failing, trio.move_on_after(1):
                async with here.requester.request_channel(source()) as replies:
                    await trio.testing.wait_all_tasks_blocked()
                    assert len(table._unopened) == (source is waits_without_end)
                    async for _ in replies:
                        pass
            assert not table._unopened
            await trio.testing.wait_all_tasks_blocked()
            here.assert_idle()
