"""Publishers, handlers and extensions that break rules: each harms its own stream only."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import Router, rsio
from rsocket_trio.reactive_streams import collect, from_iterable, never
from rsocket_trio.rsio.receiving import PackedInbox
from rsocket_trio.rsio.wire.messages import (
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    ServerHello,
    Subscribe,
    Subscribed,
)
from tests.misuses import MISUSES
from tests.rsio.engine_scenes import (
    Recorder,
    Stranger,
    numbers,
    pair,
    stranger_to_client,
    stranger_to_server,
    words,
)

COUNT = from_iterable(numbers(3))


async def settle() -> None:
    for _ in range(20):
        await trio.testing.wait_all_tasks_blocked()


class Subscription:
    """A subscription that counts its cancels."""

    def __init__(
        self,
        request: Callable[[int], object] | None = None,
        cancel: Callable[[], object] | None = None,
    ) -> None:
        self._request = request
        self._cancel = cancel
        self.cancelled = 0

    def request(self, n: int) -> None:
        if self._request is not None:
            self._request(n)

    def cancel(self) -> None:
        self.cancelled += 1
        if self._cancel is not None:
            self._cancel()


class Made:
    """A publisher that is made of a function."""

    def __init__(self, subscribe: Callable[[object], object], **attributes: object) -> None:
        self.subscribe = subscribe
        self.__dict__.update(attributes)


async def outcome(stranger: Stranger, name: str = "bad", demand: int = 5) -> object:
    """The last message of a stream; another stream of the same connection still works."""
    await stranger.send(Subscribe(name, 0, demand))
    last = await stranger.next((OnError, OnComplete))
    await serves(stranger)
    return last


async def serves(stranger: Stranger) -> None:
    await stranger.send(Subscribe("count", 9, 9))
    while (message := await stranger.next()) != OnComplete(9):
        assert message is not None, "the connection has ended"


def broken() -> None:
    raise ValueError("a secret")


@pytest.mark.parametrize("size", [2**25, -1, "4", 1.5, True, 2**70])
async def test_an_element_size_that_cannot_be_ends_its_stream(size):
    bad = Made(lambda to: to.on_subscribe(Subscription()), element_size=size)
    async with stranger_to_server({"bad": bad, "count": COUNT}) as stranger:
        assert await outcome(stranger) == OnError(0, "the publisher failed")


async def test_a_publisher_whose_attributes_raise_ends_its_stream():
    class Bad:
        @property
        def subscribe(self):
            raise ValueError("a secret")

    async with stranger_to_server(lambda name, _: Bad() if name == "bad" else COUNT) as stranger:
        assert await outcome(stranger) == OnError(0, "the publisher failed")


async def test_a_publisher_that_raises_after_it_has_begun_is_cancelled():
    subscription = Subscription()

    def subscribe(to):
        to.on_subscribe(subscription)
        broken()

    async with stranger_to_server({"bad": Made(subscribe), "count": COUNT}) as stranger:
        assert await outcome(stranger) == OnError(0, "the publisher failed")
        assert subscription.cancelled == 1


@pytest.mark.parametrize("size", [101, 20_000])
async def test_an_element_that_is_too_long_ends_its_stream(size):
    """Also one that is short enough to leave in one part, and if the cancel raises."""
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_element_size=100))

    def subscribe(to):
        to.on_subscribe(Subscription(lambda _: to.on_next(b"x" * size), broken))

    async with stranger_to_server(
        {"bad": Made(subscribe), "count": COUNT}, config=config
    ) as stranger:
        assert await outcome(stranger) == OnError(0, "an element is longer than 100 octets")


async def test_packed_messages_keep_within_the_largest_element():
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_element_size=100))
    async with pair({"words": rsio.fixed_size(words(1000), 8)}, config=config) as connection:
        assert await collect(connection.publisher("words")) == words(1000)


# -- tasks of handlers ------------------------------------------------------------------------


async def cancelled_scope_around_yield() -> AsyncIterator[bytes]:
    with trio.CancelScope() as scope:
        scope.cancel()
        yield b"1"
        yield b"2"


async def nursery_left_open() -> AsyncIterator[bytes]:
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(trio.sleep_forever)
    yield b"1"


async def scope_left_open() -> AsyncIterator[bytes]:
    trio.CancelScope().__enter__()
    yield b"1"


async def cancellation_of_no_scope() -> AsyncIterator[bytes]:
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            kept = error
    yield b"1"
    raise kept


async def generator_exit() -> AsyncIterator[bytes]:
    yield b"1"
    raise GeneratorExit


async def group_of_both() -> AsyncIterator[bytes]:
    yield b"1"
    raise BaseExceptionGroup("several", [ValueError("a secret"), GeneratorExit()])


MISUSE = [
    cancelled_scope_around_yield,
    nursery_left_open,
    scope_left_open,
    cancellation_of_no_scope,
    generator_exit,
    group_of_both,
]


def leaving(misuse) -> Callable[[], AsyncIterator[bytes]]:
    """A handler that misuses its task between two elements."""

    async def handler() -> AsyncIterator[bytes]:
        yield b"1"
        await misuse()
        yield b"2"

    handler.__name__ = misuse.__name__
    return handler


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("handler", [*MISUSE, *map(leaving, MISUSES)])
@pytest.mark.parametrize("routed", [False, True])
async def test_a_handler_that_misuses_its_task_harms_no_other_stream(handler, routed):
    def resolve(name, _connection):
        return handler() if name == "bad" else COUNT

    router = Router()
    router.request_stream("bad")(handler)

    @router.request_stream("count")
    async def count() -> AsyncIterator[bytes]:
        yield b"1"

    async with stranger_to_server(router if routed else resolve) as stranger:
        last = await outcome(stranger)
        assert last == OnComplete(0) or "secret" not in last.error
        await settle()
        await serves(stranger)


async def resolver_leaves_a_nursery(_name, _connection):
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(trio.sleep_forever)
    return COUNT


async def resolver_leaves_a_scope(_name, _connection):
    trio.CancelScope(shield=True).__enter__()
    return COUNT


async def resolver_raises_generator_exit(_name, _connection):
    raise GeneratorExit


@pytest.mark.parametrize(
    "resolver",
    [resolver_leaves_a_nursery, resolver_leaves_a_scope, resolver_raises_generator_exit],
)
async def test_a_resolver_that_misuses_its_task_harms_no_other_stream(resolver):
    def resolve(name, connection):
        return resolver(name, connection) if name == "bad" else COUNT

    async with stranger_to_server(resolve) as stranger:
        await outcome(stranger)
        await settle()
        await serves(stranger)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("misuse", MISUSES)
async def test_on_connection_may_leave_anything(misuse, autojump_clock):
    """It harms its own connection at most."""
    begun = []

    async def greet(_connection):
        begun.append(True)
        await misuse()

    async with pair({"count": COUNT}) as other:
        with contextlib.suppress(rsio.GoodbyeReceived, BaseExceptionGroup):
            async with pair({"count": COUNT}, on_connection=greet):
                await trio.sleep(1)
        assert await collect(other.publisher("count")) == numbers(3)
    assert begun == [True]


# -- the client's side ------------------------------------------------------------------------


async def test_a_burst_of_cancels_does_not_end_an_honest_connection():
    """Past the limit, subscribers get an error until the peer has confirmed some."""
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_cancelled=50))
    async with pair({"never": never(), "count": COUNT}, client_config=config) as connection:
        failed = 0
        for _ in range(200):
            recorder = Recorder(1)
            connection.publisher("never").subscribe(recorder)
            recorder.subscription.cancel()
            failed += recorder.error is not None
        assert failed == 150
        await settle()
        assert await collect(connection.publisher("count")) == numbers(3)


async def test_more_subscribers_may_cancel_at_once_than_may_wait_for_the_peer():
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_cancelled=50))
    async with pair({"never": never(), "count": COUNT}, client_config=config) as connection:
        recorders = [Recorder(1) for _ in range(200)]
        for recorder in recorders:
            connection.publisher("never").subscribe(recorder)
        for recorder in recorders:
            recorder.subscription.cancel()
        await settle()
        assert await collect(connection.publisher("count")) == numbers(3)


async def test_a_peer_that_confirms_no_cancel_costs_bounded_memory():
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_cancelled=50))
    async with stranger_to_client(config=config) as (stranger, connection):
        for _ in range(200):
            recorder = Recorder(1)
            connection.publisher("never").subscribe(recorder)
            recorder.subscription.cancel()
            await settle()
        await stranger.receive()
        assert sum(isinstance(each, Subscribe) for each in stranger.messages) == 50
        assert "max_cancelled" in str(recorder.error)


async def test_the_reason_of_a_goodbye_is_text():
    async with stranger_to_client() as (stranger, connection):
        with pytest.raises(TypeError, match="reason must be of type str, not int"):
            await connection.goodbye(5)
        await stranger.send(Goodbye(""))
        assert await stranger.next(Goodbye) is not None


async def test_two_readers_of_a_packed_stream_see_no_false_end():
    for _ in range(20):  # trio wakes the tasks of one turn in any order
        inbox = PackedInbox(10)
        inbox.on_subscribe(Subscription())
        outcomes = []

        async def read(inbox=inbox, outcomes=outcomes):
            try:
                await inbox.wait()
                outcomes.append(inbox.pop().count)
            except trio.BusyResourceError:
                outcomes.append("busy")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await settle()
            inbox.on_block(b"x", 1, 1)
            nursery.start_soon(read)
            await settle()
            assert outcomes == [1]
            inbox.on_block(b"y", 1, 1)


# -- extensions -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["begin", "end"])
async def test_an_extension_that_raises_ends_the_connection_in_order(method):
    class Bad(rsio.Behaviour):
        pass

    setattr(Bad, method, lambda _: broken())

    class Declared(rsio.Extension):
        id = 20_000

        def attach(self, _peer):
            return Bad()

    async with stranger_to_server(greet=False, extensions=[Declared()]) as stranger:
        await stranger.send(ClientHello(0, (20_000,)), Goodbye(""))
        reason = (await stranger.next(Goodbye)).reason
        assert reason == ("protocol error: an extension failed" if method == "begin" else "")
        assert await stranger.next() is None


async def test_a_compressed_element_of_the_largest_size_arrives():
    element = b"x" * 1000
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_element_size=1000))
    ours, theirs = trio.testing.memory_stream_pair()
    extensions = [rsio.Compression()]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(
                rsio.serve_stream, {"x": from_iterable([element])}, theirs, extensions=extensions
            )
        )
        async with rsio.connect(ours, config=config, extensions=extensions) as connection:
            await settle()
            assert await collect(connection.publisher("x")) == [element]


async def test_compressed_elements_are_decoded_one_by_one():
    """A thousand small elements of one read could be a gigabyte otherwise."""
    decoded = 0

    class Counting(rsio.Behaviour):
        def __init__(self, peer):
            peer.decode_elements(self.decode)

        def decode(self, element):
            nonlocal decoded
            decoded += 1
            return element

    class Declared(rsio.Extension):
        id = 20_000

        def attach(self, peer):
            return Counting(peer)

    seen = []

    class Watching(Recorder):
        def on_next(self, element):
            seen.append(decoded)

    options = {"greet": False, "wait": False, "extensions": [Declared()]}
    async with stranger_to_client(**options) as (stranger, connection):
        connection.publisher("x").subscribe(Watching(9))
        await stranger.send(
            ServerHello(0), Subscribed(0), OnNext(0, b"a"), OnNext(0, b"b"), OnNext(0, b"c")
        )
        await settle()
        assert seen == [1, 2, 3]


async def test_an_error_that_is_no_exception_is_named_in_the_log(caplog):
    class Unusual(BaseException):
        pass

    async def source() -> AsyncIterator[bytes]:
        yield b"1"
        raise Unusual

    async with stranger_to_server(lambda n, _: source() if n == "bad" else COUNT) as stranger:
        assert await outcome(stranger) == OnError(0, "the publisher failed")
    assert "the source raised Unusual" in caplog.text
