"""Publishers as the answers of handlers, as their parameters, and as the sources of channels."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rsocket_trio import ApplicationError, Caller, Payload, Responder, Router, connect, serve
from rsocket_trio.reactive_streams import (
    Publisher,
    SourceClosed,
    Subscriber,
    collect,
    failed,
    from_async_iterable,
    from_iterable,
    iterate,
    just,
)
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.ttrpc import Method, MethodKind, Service
from tests.reactive_streams.recording import Recorder
from tests.ttrpc.scenes import client_of


class Foreign:
    """A publisher of another library: it has no ``__aiter__``, and notes the requests."""

    def __init__(self, publisher):
        self.publisher = publisher
        self.requested = []
        self.cancelled = 0

    def subscribe(self, subscriber: Subscriber):
        self.publisher.subscribe(_Noting(self, subscriber))


class _Noting:
    def __init__(self, foreign, subscriber):
        self.foreign = foreign
        self.subscriber = subscriber
        self.on_next = subscriber.on_next
        self.on_error = subscriber.on_error
        self.on_complete = subscriber.on_complete

    def on_subscribe(self, subscription):
        self.subscription = subscription
        self.subscriber.on_subscribe(self)

    def request(self, n):
        self.foreign.requested.append(n)
        self.subscription.request(n)

    def cancel(self):
        self.foreign.cancelled += 1
        self.subscription.cancel()


def payloads(n):
    return [Payload(b"%d" % number) for number in range(n)]


class Answering(Responder):
    def __init__(self, publisher):
        self.publisher = publisher

    def request_stream(self, payload):
        return self.publisher

    async def request_channel(self, payload, payloads):
        await payloads.aclose()
        return self.publisher


@pytest.mark.parametrize("foreign", [True, False])
@pytest.mark.parametrize("kind", ["stream", "channel"])
async def test_a_responder_returns_a_publisher(foreign, kind):
    publisher = from_iterable(payloads(300))
    responder = Answering(Foreign(publisher) if foreign else publisher)
    async with connected_pair(responder) as requester:
        opened = (
            requester.request_stream()
            if kind == "stream"
            else requester.request_channel([Payload()])
        )
        async with opened as items:
            assert [item async for item in items] == payloads(300)


async def test_a_publisher_is_asked_for_what_the_peer_grants():
    foreign = Foreign(from_iterable(Payload(b"%d" % number) for number in count()))
    async with connected_pair(Answering(foreign)) as requester:
        async with requester.request_stream(prefetch=0, initial_request_n=3) as items:
            for _ in range(3):
                await items.receive()
            await wait_all_tasks_blocked()
            assert foreign.requested == [1, 2, 1]  # one shows how large they are; and one ahead
            items.request_n(5)
            for _ in range(5):
                await items.receive()
            await wait_all_tasks_blocked()
            assert sum(foreign.requested) == 9
        await wait_all_tasks_blocked()
        assert foreign.cancelled == 1


async def test_the_error_of_a_publisher_goes_to_the_peer():
    async with connected_pair(Answering(failed(ApplicationError("no")))) as requester:
        async with requester.request_stream() as items:
            with pytest.raises(ApplicationError, match="no"):
                await items.receive()


async def test_a_publisher_is_the_source_of_a_channel():
    class Echo(Responder):
        async def request_channel(self, payload, payloads):
            async for each in payloads:
                yield each

    foreign = Foreign(from_iterable(payloads(100)))
    async with connected_pair(Echo()) as requester:
        async with requester.request_channel(foreign, prefetch=4) as items:
            assert foreign.requested == []
            assert [item async for item in items] == payloads(100)
        assert foreign.requested[0] == 1  # the first item opens the channel
        with pytest.raises(OSError, match="mine"):
            async with requester.request_channel(failed(OSError("mine"))) as items:
                await items.receive()


def router(seen):
    made = Router()

    @made.request_stream("ints")
    async def ints(n: int) -> Publisher[int]:
        return Foreign(from_iterable(range(n)))

    @made.request_stream("own")
    async def own() -> Publisher[int]:
        return just(1, 2)

    @made.request_channel("sum")
    async def total(numbers: Publisher[int]) -> AsyncIterator[int]:
        value = 0
        async for number in iterate(numbers):
            value += number
            yield value

    @made.request_channel("mirror")
    async def mirror(words: Publisher[str]) -> Publisher[str]:
        return words

    @made.request_channel("raw")
    async def raw(items: Publisher[Payload]) -> Publisher[Payload]:
        return items

    @made.request_channel("two")
    async def two(words: Publisher[str]) -> AsyncIterator[str]:
        first = await collect(words, limit=1)
        yield first[0]

    @made.request_channel("timeout")
    async def timeout(words: Publisher[str]) -> AsyncIterator[str]:
        with trio.move_on_after(1):
            for _ in range(9):
                yield "word"
        seen.append("after the timeout")

    @made.request_channel("fails")
    async def fails(words: Publisher[str]) -> Publisher[str]:
        words.subscribe(recorder := Recorder(1))
        seen.append(recorder)
        await wait_all_tasks_blocked()
        raise ApplicationError("refused")

    return made


@pytest.fixture
async def served():
    seen = []
    async with connected_pair(router(seen)) as requester:
        caller = Caller(requester)
        caller.seen = seen
        yield caller


async def exchanged(caller, route, values, returns, **settings):
    async with caller.request_channel(route, values, returns=returns, **settings) as items:
        return [item async for item in items]


async def test_routes_convert_the_elements(served):
    async with served.request_stream("ints", 100, returns=int) as items:
        assert [item async for item in items] == list(range(100))
    async with served.request_stream("own", returns=int) as items:
        assert [item async for item in items] == [1, 2]


async def test_a_channel_gives_a_publisher(served):
    values = Foreign(from_iterable(range(200)))
    sums = await exchanged(served, "sum", values, int)
    assert sums[-1] == sum(range(200))
    assert len(sums) == 200
    assert await exchanged(served, "mirror", just("a", "b"), str) == ["a", "b"]
    assert await exchanged(served, "two", just("a", "b"), str) == ["a"]
    assert (await exchanged(served, "mirror", from_iterable(["c"] * 500), str)) == ["c"] * 500


async def test_payloads_go_as_they_are(served):
    async with served._requester.request_channel(payloads(9), route="raw") as items:
        assert [item.data for item in [each async for each in items]] == [
            each.data for each in payloads(9)
        ]


async def test_the_items_of_a_publisher_that_cannot_be_read(served):
    with pytest.raises(Exception, match="int"):
        await exchanged(served, "sum", just("word"), int)


async def test_an_error_of_the_handler_ends_its_publisher(served):
    with pytest.raises(ApplicationError, match="refused"):
        await exchanged(served, "fails", just("a", "b"), str)
    (recorder,) = served.seen
    assert recorder.elements == ["a"]
    assert [type(each) for each in recorder.terminals] == [SourceClosed]


async def test_a_scope_around_the_yield_works(served, autojump_clock):
    async with served.request_channel("timeout", just("a"), returns=str, prefetch=2) as items:
        await wait_all_tasks_blocked()
        await trio.sleep(2)
        assert [item async for item in items] == ["word", "word"]
    assert served.seen == ["after the timeout"]


async def test_the_same_over_the_draft(nursery):
    server = await nursery.start(serve, router([]), "tcp://127.0.0.1:0")
    async with connect(server.uris[0], protocol="reactivesocket") as requester:
        caller = Caller(requester)
        async with caller.request_stream("ints", 100, returns=int) as items:
            assert [item async for item in items] == list(range(100))
        assert (await exchanged(caller, "sum", from_iterable(range(50)), int))[-1] == 1225


async def test_the_same_over_ttrpc():
    made = Router()

    @made.request_stream("test.Things/Count")
    async def ints(data: bytes) -> Publisher[bytes]:
        return Foreign(from_iterable(b"%d" % number for number in range(int(data))))

    @made.request_channel("test.Things/Chat")
    async def chat(lines: Publisher[bytes]) -> Publisher[bytes]:
        return lines

    service = Service("test.Own")

    @service.method("Count")
    async def own(request: bytes) -> Publisher[bytes]:
        return just(b"1", b"2")

    async with client_of(made) as client:
        method = Method.raw("test.Things", "Count", MethodKind.SERVER_STREAM)
        async with client.server_stream(method, b"200") as replies:
            assert [each async for each in replies] == [b"%d" % n for n in range(200)]
        method = Method.raw("test.Things", "Chat", MethodKind.BIDI_STREAM)
        async with client.bidi_stream(method) as call:
            for line in (b"a", b"b"):
                await call.send(line)
            await call.end()
            assert [each async for each in call] == [b"a", b"b"]
    async with client_of(service) as client:
        method = Method.raw("test.Own", "Count", MethodKind.SERVER_STREAM)
        async with client.server_stream(method, b"") as replies:
            assert [each async for each in replies] == [b"1", b"2"]


async def test_cancelled_everywhere():
    opened = []

    async def numbers():
        opened.append(1)
        try:
            for number in range(8):
                await trio.lowlevel.checkpoint()
                yield number
        finally:
            opened.pop()

    async with (
        connected_pair(router([])) as requester,
        trio.open_nursery() as nursery,
    ):

        async def operation():
            source = from_async_iterable(numbers, nursery)
            assert len(await exchanged(Caller(requester), "sum", source, int, prefetch=2)) == 8

        async def check():
            await wait_all_tasks_blocked()
            assert opened == []
            assert requester.statistics().open_streams == 0

        assert await cancel_everywhere(operation, check) > 3


def test_only_a_channel_gives_a_publisher():
    with pytest.raises(TypeError, match="only request_channel has"):

        @Router().request_stream("wrong")
        async def wrong(items: Publisher[int]) -> AsyncIterator[int]:
            yield 1
