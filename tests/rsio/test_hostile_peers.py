"""Peers that break rules or ask for too much: the bounds, each with a raw peer."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
import trio
import trio.testing
from wsproto import ConnectionType, WSConnection
from wsproto.events import Request as HttpRequest

from rsocket_trio import ConnectFailed, ConnectionClosed, ConnectionLost, rsio
from rsocket_trio.reactive_streams import MAX_DEMAND, from_iterable, never
from rsocket_trio.rsio.wire.messages import (
    Cancel,
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextLastPart,
    OnNextPart,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)
from tests.rsio.engine_scenes import (
    Recorder,
    numbers,
    stranger_to_client,
    stranger_to_server,
)
from tests.waiting import until


class Endless:
    """An endless publisher that knows how many elements it has made."""

    def __init__(self, element: bytes) -> None:
        self.element = element
        self.made = 0

    def __iter__(self):
        while True:
            self.made += 1
            yield self.element


async def settle() -> None:
    for _ in range(20):
        await trio.testing.wait_all_tasks_blocked()


async def test_a_huge_demand_and_an_unread_socket_cost_little():
    """The peer's demand is never handed on: 256 elements are made ahead of the socket."""
    source = Endless(b"x" * 100)
    async with stranger_to_server({"forever": from_iterable(source)}, lockstep=True) as stranger:
        await stranger.send(Subscribe("forever", 0, MAX_DEMAND))
        await settle()
        assert source.made <= 65536 // 100 + 256
        before = source.made
        await settle()
        assert source.made == before
        assert await stranger.next() == Subscribed(0, 0)
        assert await stranger.next() == OnNext(0, source.element)


async def test_large_elements_are_made_one_by_one():
    source = Endless(b"x" * 1_000_000)
    async with stranger_to_server({"forever": from_iterable(source)}, lockstep=True) as stranger:
        await stranger.send(Subscribe("forever", 0, MAX_DEMAND))
        await settle()
        assert source.made <= 3


@pytest.mark.limits_row("rsio: demand")
async def test_many_streams_of_large_elements_share_a_bound():
    source = Endless(b"x" * 10_000)
    async with stranger_to_server({"forever": from_iterable(source)}, lockstep=True) as stranger:
        for number in range(1000):
            await stranger.send(Subscribe("forever", number, MAX_DEMAND))
        await settle()
        assert source.made <= 1000 + 110 + 20


async def test_many_streams_of_small_elements_share_a_bound():
    """Each begins with little, as none has an element yet when the others request, too."""
    source = Endless(b"x" * 8)
    target = {"fixed": rsio.fixed_size(from_iterable(source), 8)}
    async with stranger_to_server(target, lockstep=True) as stranger:
        await stranger.send(*[Subscribe("fixed", number, MAX_DEMAND) for number in range(1000)])
        await until(lambda: source.made >= 1000)
        await settle()
        before = source.made
        await settle()
        assert 1000 <= before == source.made <= 2 * 2**20 // 8


@pytest.mark.limits_row("rsio: subscriptions")
async def test_open_subscriptions_cost_what_the_page_says():
    """With the longest names, and sources that wait."""

    async def source():
        await trio.sleep_forever()
        yield b""

    async def find(_name, _connection):
        return source()

    async with stranger_to_server(find) as stranger:
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(1024):
                await stranger.send(Subscribe("x" * 1000, number, 1))
            await settle()
            gc.collect()
            now, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (now - before) / 1024 < 18 * 1024 + 1000


@pytest.mark.parametrize("waits", ["resolver", "source"])
async def test_cancelled_subscriptions_that_take_long_to_end_are_bounded(waits, autojump_clock):
    """Subscribing and cancelling again and again keeps few tasks; later ones are served."""
    running = 0

    async def source():
        nonlocal running
        running += 1
        try:
            await trio.sleep_forever()
            yield b""
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
            running -= 1

    async def find(name, _connection):
        if name == "count":
            return from_iterable(numbers(1))
        if waits == "resolver":
            await anext(source())
        return source()

    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_subscriptions=3))
    async with stranger_to_server(find, config=config) as stranger:
        for number in range(20):
            await stranger.send(Subscribe("slow", number, 1))
            await settle()
            await stranger.send(Cancel(number))
            await settle()
            assert running <= 6
        assert running == 6
        await trio.sleep(11)
        await stranger.send(Subscribe("count", 100, 1))
        while (message := await stranger.next()) != OnComplete(100):
            assert message != OnError(100, "more than 3 subscriptions are open")


async def test_more_subscriptions_than_allowed_are_refused_one_by_one():
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_subscriptions=3))
    async with stranger_to_server({"never": never()}, config=config) as stranger:
        for number in range(4):
            await stranger.send(Subscribe("never", number))
        for number in range(4):
            assert await stranger.next() == Subscribed(number, 0)
        assert await stranger.next() == OnError(3, "more than 3 subscriptions are open")
        await stranger.send(Cancel(0))
        assert await stranger.next() == OnComplete(0)
        await stranger.send(Subscribe("never", 3))
        assert await stranger.next() == Subscribed(3, 0)


async def test_a_cancel_is_confirmed_and_its_id_may_be_used_again_at_once():
    source = Endless(b"old")
    target = {"forever": from_iterable(source), "count": from_iterable(numbers(2))}
    async with stranger_to_server(target) as stranger:
        await stranger.send(Subscribe("forever", 5, MAX_DEMAND))
        assert await stranger.next(Subscribed)
        await stranger.send(Cancel(5), Subscribe("count", 5, 9))
        while (message := await stranger.next()) != OnComplete(5):
            assert message == OnNext(5, b"old")
        assert await stranger.next() == Subscribed(5, 0)
        assert await stranger.next() == OnNext(5, b"0")
        assert await stranger.next() == OnNext(5, b"1")
        assert await stranger.next() == OnComplete(5)


async def test_a_request_of_nothing_ends_its_stream_only():
    target = {"never": never(), "count": from_iterable(numbers(3))}
    async with stranger_to_server(target) as stranger:
        await stranger.send(Subscribe("never", 0), Subscribe("count", 1), Request(0, 0))
        assert await stranger.next() == Subscribed(0, 0)
        assert await stranger.next() == Subscribed(1, 0)
        failed = await stranger.next()
        assert isinstance(failed, OnError)
        assert failed.subscriber == 0
        assert "3.9" in failed.error
        await stranger.send(Request(1, 1))
        assert await stranger.next() == OnNext(1, b"0")


async def test_a_violation_gets_a_goodbye_with_its_code_and_the_connection_ends():
    async with stranger_to_server() as stranger:
        await stranger.send(b"\x04")
        assert (await stranger.next(Goodbye)).reason.startswith("protocol error: unknown-type")
        assert await stranger.next() is None


async def test_another_version_is_answered_with_hello_and_goodbye():
    async with stranger_to_server(greet=False) as stranger:
        await stranger.send(b"\x01\x01\x00\x10\x01x\x00\x01")
        assert await stranger.next() == ServerHello(0)
        assert await stranger.next() == Goodbye("unsupported version 1")
        assert await stranger.next() is None


async def test_a_client_raises_a_typed_error_for_another_version():
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(b"\x02\x07\x00")
    with pytest.raises(rsio.VersionMismatch, match="another version of rsio"):
        async with rsio.connect(theirs):
            raise AssertionError("it connected")
    octets = b""
    while more := await ours.receive_some(1000):
        octets += more
    assert octets == encode(ClientHello(0)) + encode(Goodbye("unsupported version 7"))


async def test_a_refusal_is_a_typed_error():
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(encode(ServerHello(0)) + encode(Goodbye("not you")))
    with pytest.raises(rsio.HelloRefused, match="not you") as caught:
        async with rsio.connect(theirs):
            raise AssertionError("it connected")
    assert caught.value.reason == "not you"
    assert isinstance(caught.value, ConnectFailed)


async def test_a_server_of_another_protocol_is_no_connection():
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ConnectFailed, match=r"cannot connect to stream by rsio: .*protocol"):
        async with rsio.connect(theirs):
            raise AssertionError("it connected")


async def test_elements_that_were_not_requested_are_not_delivered():
    async with stranger_to_client() as (stranger, connection):
        recorder = Recorder(1)
        connection.publisher("x").subscribe(recorder)
        assert await stranger.next() == Subscribe("x", 0, 1)
        await stranger.send(Subscribed(0), OnNext(0, b"a"), OnNext(0, b"b"))
        failure = await connection.wait_closed()
        assert type(failure) is ConnectionClosed
        assert recorder.elements == [b"a"]
        assert type(recorder.error) is ConnectionClosed
        assert (await stranger.next(Goodbye)).reason.startswith("protocol error: demand")


async def test_endless_parts_end_the_connection():
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_element_size=1000))
    async with stranger_to_client(config=config) as (stranger, connection):
        recorder = Recorder(1)
        connection.publisher("x").subscribe(recorder)
        await stranger.send(Subscribed(0), *[OnNextPart(0, 0, b"x" * 100) for _ in range(11)])
        assert (await stranger.next(Goodbye)).reason.startswith("protocol error: limit")


async def test_split_elements_are_joined():
    async with stranger_to_client() as (stranger, connection):
        recorder = Recorder(2)
        connection.publisher("x").subscribe(recorder)
        await stranger.send(
            Subscribed(0),
            OnNextPart(0, 4, b"a"),
            OnNextPart(0, 7, b"1"),
            OnNextPart(0, 4, b"b"),
            OnNextLastPart(0, 7, b""),
            OnNextLastPart(0, 4, b"c"),
            OnComplete(0),
        )
        await until(lambda: recorder.completed)
        assert recorder.elements == [b"1", b"abc"]


async def test_requests_of_one_turn_are_one_message():
    async with stranger_to_client() as (stranger, connection):
        recorder = Recorder()
        connection.publisher("x").subscribe(recorder)
        assert await stranger.next() == Subscribe("x", 0, 0)
        for _ in range(1000):
            recorder.subscription.request(1)
        assert await stranger.next() == Request(0, 1000)


async def test_no_request_follows_a_cancel():
    async with stranger_to_client() as (stranger, connection):
        recorder = Recorder()
        connection.publisher("x").subscribe(recorder)
        assert await stranger.next() == Subscribe("x", 0, 0)
        recorder.subscription.request(1)
        recorder.subscription.cancel()
        recorder.subscription.request(1)
        assert await stranger.next() == Cancel(0)
        await stranger.send(Subscribed(0), OnComplete(0))
        again = Recorder(3)
        await trio.testing.wait_all_tasks_blocked()
        connection.publisher("y").subscribe(again)
        subscribe = await stranger.next()
        assert (subscribe.publisher, subscribe.initial_demand) == ("y", 3)


async def test_a_late_hello_ends_the_connection(autojump_clock):
    async with stranger_to_server(greet=False) as stranger:
        began = trio.current_time()
        rest = await stranger.rest()
        assert rest == [ServerHello(0), Goodbye("no hello came within 10 s")]
        # Then the server waits for the goodbye of the stranger.
        assert trio.current_time() - began == pytest.approx(15, abs=2)


async def test_a_client_does_not_wait_for_a_hello_for_ever(autojump_clock):
    _ours, theirs = trio.testing.memory_stream_pair()
    config = rsio.RsioConfig(hello_timeout=3)
    began = trio.current_time()
    with pytest.raises(ConnectFailed, match="no hello came within 3 s"):
        async with rsio.connect(theirs, config=config):
            raise AssertionError("it connected")
    assert trio.current_time() - began < 12


async def test_the_socket_stays_until_the_goodbye_is_answered(autojump_clock):
    config = rsio.RsioConfig(goodbye_timeout=4)
    async with trio.open_nursery() as nursery:
        times = {}

        async def leave():
            async with stranger_to_client(config=config) as (stranger, connection):
                nursery.start_soon(watch, stranger)
                times["goodbye"] = trio.current_time()
                await connection.goodbye("bye")
                times["closed"] = trio.current_time()

        async def watch(stranger):
            assert await stranger.next(Goodbye) == Goodbye("bye")
            await trio.sleep(2)
            await stranger.send(Goodbye(""))

        nursery.start_soon(leave)
    assert 2 <= times["closed"] - times["goodbye"] < 4


async def test_an_end_inside_a_message_is_a_loss():
    async with stranger_to_client() as (stranger, connection):
        recorder = Recorder(1)
        connection.publisher("x").subscribe(recorder)
        await stranger.send(Subscribed(0), b"\x21\x00\x05he")
        await stranger.stream.send_eof()
        failure = await connection.wait_closed()
        assert isinstance(failure, ConnectionLost)
        assert "inside a message" in str(failure)
        assert isinstance(recorder.error, ConnectionLost)


async def test_a_goodbye_is_answered_and_nothing_follows():
    cancelled = []

    class Watched:
        def subscribe(self, subscriber):
            class Subscription:
                def request(self, n):
                    pass

                def cancel(self):
                    cancelled.append(True)

            subscriber.on_subscribe(Subscription())

    async with stranger_to_server({"x": Watched()}) as stranger:
        await stranger.send(Subscribe("x", 0), Subscribe("x", 1))
        assert await stranger.next() == Subscribed(0, 0)
        assert await stranger.next() == Subscribed(1, 0)
        await stranger.send(Goodbye("that is all"))
        assert await stranger.rest() == [Goodbye("")]
    assert len(cancelled) == 2


@pytest.mark.limits_row("rsio: elements of ours that the peer does not read")
async def test_elements_that_many_streams_have_ready_share_a_bound():
    """Each stream has an element of any size ahead; together they have `max_answers_size`.

    The publishers find out how large their elements are when it is too late to ask for fewer.
    """
    config = rsio.RsioConfig(max_answers_size=1_000_000)
    go = trio.Event()

    async def large():
        await go.wait()
        yield bytes(300_000)

    async with stranger_to_server(
        lambda _name, _connection: large(), config=config, lockstep=True
    ) as stranger:
        numbers = range(20)
        await stranger.send(*(Subscribe("large", number, MAX_DEMAND) for number in numbers))
        await settle()
        tracemalloc.start()
        try:
            go.set()
            await settle()
            assert tracemalloc.get_traced_memory()[0] < 2_000_000
        finally:
            tracemalloc.stop()
        ended = {}
        while len(ended) < len(numbers):
            message = await stranger.next()
            if isinstance(message, OnError | OnComplete):
                ended[message.subscriber] = message
    refused = [each for each in ended.values() if isinstance(each, OnError)]
    assert len(refused) == len(numbers) - 3
    assert {each.error for each in refused} == {"too many elements wait to be read"}


async def test_an_element_in_parts_counts_until_its_last_part():
    """A thousand of them may be on their way at the same time, each in memory as a whole."""
    config = rsio.RsioConfig(max_answers_size=400_000)
    go = trio.Event()

    async def large():
        yield bytes(300_000)

    async def later():
        await go.wait()
        yield bytes(300_000)

    def target(name, _connection):
        return large() if name == "large" else later()

    async with stranger_to_server(target, config=config, lockstep=True) as stranger:
        await stranger.send(Subscribe("large", 0, 9), Subscribe("later", 1, 9))
        await settle()
        while not isinstance(await stranger.next(), OnNextPart):
            pass  # the first part has left
        go.set()
        await settle()
        messages = []
        while not (messages and isinstance(messages[-1], OnComplete)):
            messages.append(await stranger.next())
        (error,) = [each for each in messages if isinstance(each, OnError)]
        assert (error.subscriber, error.error) == (1, "too many elements wait to be read")


@pytest.mark.limits_row("rsio, before hello: a message of WebSocket")
async def test_a_first_message_that_does_not_end():
    """A stranger's WebSocket message has a limit of its own until the hello has come."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsio.serve, {}, "rsio+ws://127.0.0.1:0/")
        for hello in (False, True):
            answer = await _answer_to_a_long_message(server.uris[0], hello=hello)
            assert (b"limit of 131072" in answer) is not hello
        nursery.cancel_scope.cancel(reason="the test is over")


async def _answer_to_a_long_message(uri: str, *, hello: bool) -> bytes:
    host, port = uri.removeprefix("rsio+ws://").rstrip("/").split(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        ws = WSConnection(ConnectionType.CLIENT)
        await stream.send_all(ws.send(HttpRequest(host=f"{host}:{port}", target="/")))
        await stream.receive_some()
        if hello:
            await stream.send_all(_message(encode(ClientHello(0, ())), final=True))
            await stream.receive_some()
        for number in range(3):  # what they say is no message of rsio: the connection ends
            part = _message(bytes(60_000), final=number == 2, first=not number)
            await stream.send_all(part)
        answer = b""
        with trio.fail_after(20):
            while more := await stream.receive_some():
                answer += more
        return answer


def _message(data: bytes, *, final: bool, first: bool = True) -> bytes:
    """A frame of a WebSocket message, with a mask of zeros."""
    head = bytes([0x80 * final | (2 if first else 0), 0xFE]) + len(data).to_bytes(2, "big")
    return head + bytes(4) + data
