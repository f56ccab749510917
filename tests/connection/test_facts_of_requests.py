"""What the error of a request says of it: `RSocketError.sent`, `RSocketError.unprocessed`."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Caller,
    Canceled,
    ClientResume,
    ClosedByPeer,
    ConnectFailed,
    ConnectionClosed,
    ConnectionConfig,
    ConnectionLost,
    CustomError,
    LeaseOptions,
    Metadata,
    Payload,
    Reconnect,
    Rejected,
    Responder,
    Retry,
    Route,
    Router,
    RSocketError,
    ServerResume,
    StreamedPayload,
    connect,
    request_response,
    request_stream,
    resubscribed,
    send_deadline,
    serve,
)
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    LeaseFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing import connected_pair, frame_peer_server
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports.memory import memory_transport_pair
from tests.connection.resume_network import network
from tests.rules.resume_scripts import Script


class Counting(Responder):
    """Counts how often each request begins, and answers after some time."""

    def __init__(self, seconds=0.0):
        self.begun = {}
        self.seconds = seconds

    async def request_response(self, payload):
        self.begun[payload.data] = self.begun.get(payload.data, 0) + 1
        await trio.sleep(self.seconds)
        return payload


async def test_at_a_graceful_stop(autojump_clock):
    """Whatever fails has not begun, and says so: handlers begun are answers received."""
    handlers = Counting(0.05)
    answers = []
    failures = []

    async def ask(number):
        data = b"%d" % number
        await trio.sleep(number / 1000)
        try:
            answers.append((await requester.request_response(Payload(data))).data)
        except RSocketError as error:
            failures.append((data, error))

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handlers, "tcp://127.0.0.1:0")
        async with connect(server.uris[0]) as requester:
            async with trio.open_nursery() as asking:
                for number in range(200):
                    asking.start_soon(ask, number)
                await trio.sleep(0.1)
                server.stop()
        await server.aclose()
    assert answers
    assert failures
    assert set(answers) == set(handlers.begun)
    for data, error in failures:
        assert error.unprocessed
        assert data not in handlers.begun
        assert error.sent is isinstance(error, Rejected)


async def test_what_waits_in_the_outbox_was_not_sent(autojump_clock):
    """A connection that breaks while it is stuck: only what the transport had may have left."""
    here, there = memory_transport_pair(max_bytes=64)
    peer = FramePeer(there)
    outcomes = {}

    async def ask(requester, data):
        try:
            await requester.request_response(Payload(data))
        except ConnectionClosed as error:
            outcomes[data] = (error.sent, error.unprocessed)

    async def listen(requester):
        async with requester.request_stream(Payload(b"stream")) as items:
            try:
                await items.receive()
            except ConnectionClosed as error:
                outcomes[b"stream"] = (error.sent, error.unprocessed)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.accept)
        async with connect(here, config=ConnectionConfig(keepalive_interval=100)) as requester:
            for each in (b"read" * 99, b"with the transport", b"queued", b"queued too"):
                nursery.start_soon(ask, requester, each)
                await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(listen, requester)
            await trio.testing.wait_all_tasks_blocked()
            await there.aclose()
            await trio.testing.wait_all_tasks_blocked()
    assert outcomes == {
        b"read" * 99: (True, False),
        b"with the transport": (True, False),
        b"queued": (False, True),
        b"queued too": (False, True),
        b"stream": (False, True),
    }


async def test_a_refusal_behind_items_is_no_refusal(autojump_clock):
    """REJECTED says that nothing was processed; a peer that has sent items cannot mean that."""
    for items in (0, 1):
        async with frame_peer_server() as (peer, requester):
            for frame_type in (RequestStreamFrame, RequestChannelFrame):
                if frame_type is RequestStreamFrame:
                    opened = requester.request_stream(Payload(b"?"))
                else:
                    opened = requester.request_channel([Payload(b"?")] * 3)
                async with opened as stream:
                    stream_id = (await peer.receive(frame_type)).stream_id
                    for _ in range(items):
                        await peer.send(PayloadFrame(stream_id, next=True, data=b"item"))
                    await peer.send(ErrorFrame(stream_id, ErrorCode.REJECTED, b"no"))
                    with pytest.raises(Rejected) as caught:
                        while True:
                            await stream.receive()
                    assert caught.value.sent
                    assert caught.value.unprocessed is (not items)


# -- repeats ------------------------------------------------------------------------------------


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_how_often_handlers_run(seed, idempotent, resumable, autojump_clock):
    """Connections are cut, and the server dies, at any moment.

    A handler runs at most once for a request that is not idempotent, and a request that failed as
    unprocessed has not run. With ``idempotent`` it runs at most twice.
    """
    chance = random.Random(seed)
    handlers = Counting(0.02)
    outcomes = {}

    async def ask(number):
        data = b"%d" % number
        await trio.sleep(number / 50)
        try:
            await requester.request_response(Payload(data), idempotent=idempotent)
            outcomes[data] = None
        except RSocketError as error:
            outcomes[data] = error

    async def destroy(net):
        while True:
            await trio.sleep(chance.random())
            if chance.random() < 0.5:
                net.down = ConnectFailed("down")
            await net.cut()
            await trio.sleep(chance.random() / 10)
            net.down = None

    options = {} if not resumable else {"resume": ClientResume(session_lifetime=0.05)}
    async with network(handlers, ServerResume(session_lifetime=0.05)) as net:
        async with connect(net.dial, reconnect=Reconnect(), **options) as requester:
            async with trio.open_nursery() as asking:
                asking.start_soon(destroy, net)
                async with trio.open_nursery() as asked:
                    for number in range(300):
                        asked.start_soon(ask, number)
                asking.cancel_scope.cancel()
    assert net.dialled > 3
    assert len(outcomes) == 300
    for data, error in outcomes.items():
        ran = handlers.begun.get(data, 0)
        assert ran <= 1 + idempotent
        assert ran >= (error is None)
        if error is not None:
            assert not (error.unprocessed and ran)


async def repeated(ending, **options):
    """A request whose session ends by ``ending``: (outcome, requests that the next one got)."""
    script = Script()
    asked = []

    serving = trio.CancelScope()

    async def serve():
        with serving:
            peer = await script.accept_setup()
            asked.append(await peer.receive(RequestResponseFrame))
            await ending(peer)
            peer = await script.accept_setup()
            while True:
                asked.append(await peer.receive(RequestResponseFrame))
                answer = PayloadFrame(asked[-1].stream_id, next=True, complete=True, data=b"pong")
                await peer.send(answer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(script.dial, reconnect=Reconnect()) as requester:
            try:
                outcome = await requester.request_response(Payload(b"ping"), **options)
            except RSocketError as error:
                outcome = error
            serving.cancel()
    return outcome, asked


async def told_and_rejected(peer):
    await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"deploy"))
    await peer.send(ErrorFrame(1, ErrorCode.REJECTED, b"crossed"))


async def only_rejected(peer):
    await peer.send(ErrorFrame(1, ErrorCode.REJECTED, b"busy"))


async def told_and_answered(peer):
    await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"deploy"))
    await peer.send(ErrorFrame(1, ErrorCode.APPLICATION_ERROR, b"failed"))


async def told_and_cut(peer):
    await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"deploy"))
    await peer.aclose()


async def cut(peer):
    await peer.aclose()


@pytest.mark.parametrize(
    ("ending", "idempotent", "times", "outcome"),
    [
        (told_and_rejected, False, 2, Payload),
        (only_rejected, True, 1, Rejected),
        (told_and_answered, True, 1, ApplicationError),
        (told_and_cut, False, 1, ClosedByPeer),
        (told_and_cut, True, 2, Payload),
        (cut, False, 1, ConnectionLost),
        (cut, True, 2, Payload),
    ],
)
async def test_what_is_repeated(ending, idempotent, times, outcome, autojump_clock):
    """What was not processed, or may be twice, goes to the next session, once; no answer does."""
    got, asked = await repeated(ending, idempotent=idempotent)
    assert type(got) is outcome
    assert len(asked) == times


async def test_it_is_repeated_once(autojump_clock):
    """A request that ends each session that it comes to does so twice at most."""
    script = Script()
    asked = []

    async def serve():
        while True:
            peer = await script.accept_setup()
            asked.append(await peer.receive(RequestResponseFrame))
            await peer.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(script.dial, reconnect=Reconnect()) as requester:
            with pytest.raises(ConnectionLost) as caught:
                await requester.request_response(Payload(b"poison"), idempotent=True)
            assert not caught.value.unprocessed
        nursery.cancel_scope.cancel()
    assert len(asked) == 2


async def test_no_session_for_a_repeat(autojump_clock):
    """The request has been sent, so its error is not the one of a request that was not."""
    script = Script()

    async def serve():
        peer = await script.accept_setup()
        await peer.receive(RequestResponseFrame)
        script.down = True
        await peer.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(script.dial, reconnect=Reconnect(wait=5)) as requester:
            with pytest.raises(ConnectionLost) as caught:
                await requester.request_response(Payload(b"ping"), idempotent=True)
            assert caught.value.sent
            assert not caught.value.unprocessed
        nursery.cancel_scope.cancel()


class Chunks:
    """Data that can be taken once, as those of a channel: nothing is left for a second reader."""

    def __init__(self):
        self._left = [b"one", b"two", b"three"]

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self._left:
            raise StopAsyncIteration
        await trio.sleep(0.1)
        return self._left.pop(0)


async def ask_streamed(requester, kind):
    payload = StreamedPayload(Chunks())
    if kind == "forget":
        await requester.fire_and_forget(payload)
    elif kind == "response":
        await requester.request_response(payload, idempotent=True)
    elif kind == "body":
        async with requester.request_response_streamed(payload):
            pass
    else:
        async with requester.request_stream(payload, idempotent=True) as stream:
            await stream.receive()


@pytest.mark.parametrize("middleware", [(), [send_deadline]])
@pytest.mark.parametrize(
    ("kind", "ending", "outcome"),
    [
        ("response", told_and_rejected, Rejected),
        ("response", cut, ConnectionLost),
        ("body", told_and_rejected, Rejected),
        ("stream", told_and_rejected, Rejected),
        ("stream", cut, ConnectionLost),
        *((kind, None, ConnectionLost) for kind in ("response", "body", "stream", "forget")),
    ],
)
async def test_streamed_data_are_sent_once(kind, ending, outcome, middleware, autojump_clock):
    """What its source has given is gone: a repeat would send the rest, as if it were the whole.

    Without an ``ending`` the session ends while the request waits for a lease, with the first chunk
    in its hands.
    """
    script = Script()
    serving = trio.CancelScope()

    async def serve():
        with serving:
            peer = await script.accept_setup()
            if ending is None:
                await trio.sleep(1)
                await peer.aclose()
            else:
                await peer.receive()
                await ending(peer)
            peer = await script.accept_setup()
            if ending is None:
                await peer.receive(LeaseFrame)
                await peer.send(LeaseFrame(100_000, 10))
            await peer.receive()
            raise AssertionError("repeated")

    options = {"reconnect": Reconnect(), "middleware": middleware}
    if ending is None:
        options["lease"] = LeaseOptions()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(
            script.dial, config=ConnectionConfig(fragment_size=64), **options
        ) as requester:
            with pytest.raises(outcome):
                await ask_streamed(requester, kind)
            await trio.sleep(5)
            serving.cancel()


# -- streams ------------------------------------------------------------------------------------


async def stream_repeated(ending, items, **options):
    """A stream whose session ends behind so many items: (what it gave, requests, its error)."""
    script = Script()
    asked = []
    got = []
    serving = trio.CancelScope()

    async def serve():
        with serving:
            peer = await script.accept_setup()
            asked.append(await peer.receive(RequestStreamFrame))
            for number in range(items):
                await peer.send(PayloadFrame(1, next=True, data=b"first %d" % number))
            await ending(peer)
            peer = await script.accept_setup()
            while True:
                asked.append(await peer.receive(RequestStreamFrame))
                answer = PayloadFrame(asked[-1].stream_id, next=True, complete=True, data=b"next")
                await peer.send(answer)

    error = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(script.dial, reconnect=Reconnect()) as requester:
            async with requester.request_stream(Payload(b"?"), **options) as stream:
                try:
                    while True:
                        got += [item.data for item in await stream.receive_many()]
                except trio.EndOfChannel:
                    pass
                except RSocketError as caught:
                    error = caught
                    with pytest.raises(type(error)):
                        await stream.receive()
            serving.cancel()
    return got, asked, error


@pytest.mark.parametrize(
    ("ending", "items", "options", "times", "outcome"),
    [
        (told_and_rejected, 0, {}, 2, None),
        (told_and_rejected, 1, {"idempotent": True}, 1, Rejected),
        (cut, 0, {}, 1, ConnectionLost),
        (cut, 0, {"idempotent": True}, 2, None),
        (cut, 1, {"idempotent": True}, 1, ConnectionLost),
        (cut, 0, {"idempotent": True, "prefetch": 0, "initial_request_n": 3}, 1, ConnectionLost),
        (only_rejected, 0, {"idempotent": True}, 1, Rejected),
    ],
)
async def test_which_streams_are_repeated(ending, items, options, times, outcome, autojump_clock):
    """Before the first item, by the same rules as requests; never behind it."""
    got, asked, error = await stream_repeated(ending, items, **options)
    assert len(asked) == times
    assert (None if error is None else type(error)) is outcome
    assert got == [b"first %d" % number for number in range(items)] + [b"next"] * (times - 1)


@pytest.mark.parametrize("ending", [cut, told_and_rejected])
async def test_a_reader_with_a_timeout(ending, autojump_clock):
    """Who gives up one item does not give up the stream: the next read waits for its repeat."""
    script = Script()
    asked = []

    async def serve():
        peer = await script.accept_setup()
        asked.append(await peer.receive(RequestStreamFrame))
        script.down = True
        await ending(peer)
        await trio.sleep(5)
        script.down = False
        peer = await script.accept_setup()
        asked.append(await peer.receive(RequestStreamFrame))
        await trio.sleep(5)
        stream_id = asked[-1].stream_id
        await peer.send(PayloadFrame(stream_id, next=True, complete=True, data=b"item"))

    timeouts = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(script.dial, reconnect=Reconnect()) as requester:
            async with requester.request_stream(Payload(b"?"), idempotent=True) as stream:
                item = None
                while item is None:
                    with trio.move_on_after(1):
                        item = await stream.receive()
                    timeouts += item is None
                assert item.data == b"item"
    assert timeouts >= 9
    assert len(asked) == 2


async def test_a_channel_is_not_repeated(autojump_clock):
    """What its source has given is gone."""
    script = Script()
    serving = trio.CancelScope()

    async def serve():
        with serving:
            peer = await script.accept_setup()
            await peer.receive(RequestChannelFrame)
            await told_and_rejected(peer)
            peer = await script.accept_setup()
            await peer.receive(RequestChannelFrame)
            raise AssertionError("repeated")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(script.dial, reconnect=Reconnect()) as requester:
            async with requester.request_channel([Payload(b"1")]) as stream:
                with pytest.raises(Rejected) as caught:
                    await stream.receive()
            assert caught.value.unprocessed
            await trio.sleep(5)
            serving.cancel()


class Mirror:
    """Of a caller: what may be handled twice, by argument, declaration and within middleware."""

    @request_response("once")
    async def once(self, number: int) -> int:
        raise AssertionError

    @request_response("twice", idempotent=True)
    async def twice(self, number: int) -> int:
        raise AssertionError

    @request_stream("stream", idempotent=True)
    def stream(self, number: int) -> AsyncIterator[int]:
        raise AssertionError


async def around(_call):
    yield


@pytest.mark.parametrize("middleware", [[], [around]])
async def test_callers_and_declarations(middleware, autojump_clock):
    """Each way to say that a request may be handled twice reaches the requester."""
    router = Router()
    begun = []

    async def cut_the_first(name):
        begun.append(name)
        if begun.count(name) == 1:
            await net.cut()
            await trio.sleep_forever()

    @router.request_response("once")
    @router.request_response("twice")
    async def answer(number: int, route: Route) -> int:
        await cut_the_first(str(route))
        return number

    @router.request_stream("stream")
    async def stream(number: int) -> AsyncIterator[int]:
        await cut_the_first("stream")
        yield number

    async with network(router) as net:
        async with connect(net.dial, reconnect=Reconnect(), middleware=middleware) as requester:
            caller = Caller(requester, middleware=middleware)
            mirror = caller.of(Mirror)
            with pytest.raises(ConnectionLost):
                await mirror.once(1)
            assert await mirror.twice(2) == 2
            async with mirror.stream(3) as items:
                assert [item async for item in items] == [3]
            begun.clear()
            with pytest.raises(ConnectionLost):
                await caller.request_response("twice", 1, returns=int)
            begun.clear()
            again = caller.request_response("twice", 4, returns=int, idempotent=True)
            assert await again == 4
            begun.clear()
            opened = caller.request_stream("stream", 5, returns=int, idempotent=True)
            async with opened as items:
                assert [item async for item in items] == [5]


# -- streams that go on --------------------------------------------------------------------------


async def test_a_stream_goes_on_from_its_position(autojump_clock):
    """Cut at every item: no item is lost, and none comes twice."""
    router = Router()

    @router.request_stream("count")
    async def count(after: int | None) -> AsyncIterator[int]:
        for number in range(0 if after is None else after + 1, 12):
            yield number
            await trio.sleep(0.1)
            if number % 3 == 2:
                await net.cut()

    async with network(router) as net:
        async with connect(net.dial, reconnect=Reconnect()) as requester:
            caller = Caller(requester)

            opened = []

            def behind(after):
                opened.append(after)
                return caller.request_stream("count", after, returns=int)

            async with resubscribed(behind, position=lambda number: number) as numbers:
                assert [number async for number in numbers] == list(range(12))
            assert opened == [None, 2, 5, 8, 11]


class Gone(CustomError):
    default_code = 0x500


async def test_a_stream_that_cannot_go_on(autojump_clock):
    """The error of a server is the caller's."""
    async with ending_with(Gone("no such position", code=0x500)) as (opened, behind):
        async with resubscribed(behind, position=len) as items:
            with pytest.raises(CustomError):
                await anext(items)
        assert [after for after, _ in opened] == [None]


@asynccontextmanager
async def ending_with(*script):
    """Streams of a server that end so, one after the other; a number is an item."""
    script = list(script)

    class Ends(Responder):
        async def request_stream(self, payload):
            for step in iter(lambda: script.pop(0), None):
                if isinstance(step, Exception):
                    raise step
                yield Payload(b"%d" % step)

    opened = []
    async with network(Ends()) as net:
        async with connect(net.dial, reconnect=Reconnect()) as requester:

            def behind(after):
                opened.append((after, trio.current_time()))
                return requester.request_stream(Payload(b"?"))

            yield opened, behind


async def test_streams_that_end_without_an_item(autojump_clock):
    """Another one follows later and later, until there is an item: then it follows at once."""
    end = Canceled("the server stops")
    script = [end] * 6 + [1, end, 2, end, end, 3, None]
    async with ending_with(*script) as (opened, behind):
        async with resubscribed(
            behind, position=lambda item: item.data, retry=Retry(jitter=0, max_attempts=6)
        ) as items:
            first = None
            while first is None:  # a reader with a timeout does not shorten a wait
                with trio.move_on_after(0.15):
                    first = await anext(items)
            assert first.data == b"1"
            assert [item.data async for item in items] == [b"2", b"3"]
        assert [after for after, _ in opened] == [None] * 7 + [b"1", b"2", b"2"]
        waits = [after - before for (_, before), (_, after) in pairwise(opened)]
        expected = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 0, 0, 0.1]
        assert waits == [pytest.approx(each, abs=0.01) for each in expected]


async def test_streams_without_an_item_are_limited(autojump_clock):
    """By their number in a row, if the caller says so, however long each lasts."""
    async with ending_with(*[Canceled("over")] * 9) as (opened, behind):
        retry = Retry(max_attempts=3)
        async with resubscribed(behind, position=len, retry=retry) as items:
            with pytest.raises(Canceled, match="over"):
                await anext(items)
        assert len(opened) == 4


async def test_streams_of_a_server_that_stops_go_on():
    """Its grace is over, so it cancels them: they go on at the next server."""

    class Endless(Responder):
        async def request_stream(self, payload):
            number = int(payload.data)
            while True:
                number += 1
                yield Payload(b"%d" % number)
                await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Endless(), "tcp://127.0.0.1:0")
        uri = server.uris[0]
        async with connect(uri, reconnect=Reconnect()) as requester:

            def behind(after):
                return requester.request_stream(Payload(after or b"0"))

            got = []
            async with resubscribed(behind, position=lambda item: item.data) as items:
                async for item in items:
                    got.append(int(item.data))
                    if len(got) == 3:
                        server.stop(grace=0.1)
                        await server.aclose()
                        server = await nursery.start(serve, Endless(), uri)
                    if len(got) == 20:
                        break
        await server.aclose()
    assert got == list(range(1, 21))


async def test_an_idle_stream_goes_on_whenever_its_server_stops(autojump_clock):
    """Nothing has changed for days, and the server was replaced more than once."""
    router, served = Router(), []

    @router.request_stream("changes")
    async def changes(after: int) -> AsyncIterator[int]:
        served.append(after)
        await trio.sleep(1000)
        if len(served) < 4:
            raise Canceled("the server stops")
        yield after + 1

    async with network(router) as net:
        async with connect(net.dial, reconnect=Reconnect()) as requester:
            caller = Caller(requester)

            def behind(after):
                return caller.request_stream("changes", after or 7, returns=int)

            async with resubscribed(behind, position=lambda number: number) as numbers:
                assert [number async for number in numbers] == [8]
    assert served == [7] * 4


# -- cancellation --------------------------------------------------------------------------------


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("step", range(40))
async def test_cancelled_at_every_step(step, resumable, autojump_clock):
    """Connecting, using, losing and leaving: at each moment a cancellation ends all of it."""
    handlers = Counting(0.01)
    options = {"resume": ClientResume()} if resumable else {}

    async def login(_attempt):
        await trio.sleep(0.02)
        return Payload(b"token")

    async def use(net):
        async with connect(net.dial, setup=login, reconnect=Reconnect(), **options) as requester:
            for number in range(4):
                await requester.request_response(Payload(b"%d" % number), idempotent=True)
                net.down = OSError("down")
                await net.cut()
                await trio.sleep(0.3)
                net.down = None

    async with network(handlers, ServerResume(session_lifetime=0.1)) as net:
        with trio.move_on_after(step * 0.05):
            await use(net)
        before = net.dialled
        await trio.sleep(100)
        assert net.dialled == before


async def test_metadata_that_do_not_fit_were_not_sent():
    """The caller's mistake leaves nothing behind that a peer could have processed."""
    async with connected_pair(Responder(), metadata_mime_type="application/x-none") as requester:
        for options in {"route": "a"}, {"route": "a", "metadata": Metadata(route="b")}:
            with pytest.raises(RSocketError) as refused:
                await requester.request_response(Payload(b""), **options)
            assert (refused.value.sent, refused.value.unprocessed) == (False, True)
