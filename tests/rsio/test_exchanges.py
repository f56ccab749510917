"""A client and a server of rsio: streams in both directions, their ends, and the end of both."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import ApplicationError, ConnectionLost, rsio
from rsocket_trio.reactive_streams import (
    MAX_DEMAND,
    collect,
    empty,
    failed,
    from_iterable,
    never,
)
from tests.rsio.engine_scenes import Recorder, numbers, pair, words
from tests.waiting import until


async def test_elements_arrive_in_order():
    async with pair({"count": from_iterable(numbers(1000))}) as connection:
        assert await collect(connection.publisher("count")) == numbers(1000)


async def test_a_publisher_is_an_async_iterable():
    async with pair({"count": from_iterable(numbers(5))}) as connection:
        assert [each async for each in connection.publisher("count")] == numbers(5)


async def test_each_subscriber_has_a_stream_of_its_own():
    async with pair({"count": from_iterable(numbers(100))}) as connection:
        publisher = connection.publisher("count")
        first, second = Recorder(MAX_DEMAND), Recorder(3)
        publisher.subscribe(first)
        publisher.subscribe(second)
        await until(lambda: first.completed and len(second.elements) == 3)
        assert first.elements == numbers(100)
        second.subscription.request(2)
        await until(lambda: len(second.elements) == 5)
        assert not second.ended


async def test_an_unknown_publisher_is_an_error():
    async with pair() as connection:
        with pytest.raises(rsio.PublisherError, match=r"^publisher 'nobody': unknown publisher$"):
            await collect(connection.publisher("nobody"))


async def test_an_empty_publisher_completes_without_demand():
    async with pair({"empty": empty()}) as connection:
        recorder = Recorder()
        connection.publisher("empty").subscribe(recorder)
        await until(lambda: recorder.completed)


async def test_the_text_of_an_error_for_the_peer_arrives():
    publishers = {
        "typed": failed(rsio.PublisherError("there is none")),
        "rsocket": failed(ApplicationError("as with RSocket")),
    }
    async with pair(publishers) as connection:
        for name, text in (("typed", "there is none"), ("rsocket", "as with RSocket")):
            with pytest.raises(rsio.PublisherError, match=f"^publisher '{name}': {text}$"):
                await collect(connection.publisher(name))


async def test_the_text_of_another_error_stays_here(caplog):
    async with pair({"fail": failed(ValueError("secret"))}) as connection:
        with pytest.raises(
            rsio.PublisherError, match=r"^publisher '(fail|text)': the publisher failed$"
        ):
            await collect(connection.publisher("fail"))
    assert "secret" in caplog.text


async def test_the_demand_of_on_subscribe_goes_with_the_subscription():
    async with pair({"count": from_iterable(numbers(10))}) as connection:
        recorder = Recorder(4)
        connection.publisher("count").subscribe(recorder)
        await until(lambda: len(recorder.elements) == 4)
        assert not recorder.ended


async def test_cancel_ends_a_stream_and_the_others_go_on():
    async with pair({"count": from_iterable(lambda: iter(int, 1)), "never": never()}) as connection:
        recorder = Recorder()
        connection.publisher("never").subscribe(recorder)
        await until(lambda: connection.statistics().subscriptions == 1)
        recorder.subscription.cancel()
        recorder.subscription.cancel()
        assert connection.statistics().subscriptions == 0
        assert not recorder.ended


async def test_an_endless_publisher_can_be_cancelled():
    def endless():
        while True:
            yield b"x"

    async with pair({"forever": from_iterable(endless)}) as connection:
        recorder = Recorder(MAX_DEMAND)
        connection.publisher("forever").subscribe(recorder)
        await until(lambda: len(recorder.elements) > 1000)
        recorder.subscription.cancel()
        count = len(recorder.elements)
        with pytest.raises(rsio.PublisherError):
            await collect(connection.publisher("nobody"))  # behind all of them
        assert len(recorder.elements) == count


async def test_a_wrong_demand_is_an_error_of_the_subscriber():
    async with pair({"never": never()}) as connection:
        for wrong, kind in ((0, ValueError), (-1, ValueError), ("2", TypeError)):
            recorder = Recorder()
            connection.publisher("never").subscribe(recorder)
            recorder.subscription.request(wrong)
            assert isinstance(recorder.error, kind)
        recorder = Recorder()
        recorder.demand = -1
        connection.publisher("never").subscribe(recorder)
        assert isinstance(recorder.error, ValueError)


async def test_a_subscriber_that_raises_loses_its_subscription_only(caplog):
    class Broken(Recorder):
        def on_next(self, element):
            raise RuntimeError("of the subscriber")

    async with pair({"count": from_iterable(numbers(10))}) as connection:
        connection.publisher("count").subscribe(Broken(MAX_DEMAND))
        assert await collect(connection.publisher("count")) == numbers(10)
        assert connection.statistics().subscriptions == 0
    assert "of the subscriber" in caplog.text


async def test_the_server_subscribes_to_the_client():
    got = trio.Event()
    elements = []

    async def ask(connection):
        elements.extend(await collect(connection.publisher("mine")))
        got.set()

    async with pair(publish={"mine": from_iterable(numbers(20))}, on_connection=ask):
        with trio.fail_after(5):
            await got.wait()
    assert elements == numbers(20)


async def test_a_resolver_gets_the_name_and_the_connection():
    seen = []

    async def resolve(name, connection):
        await trio.lowlevel.checkpoint()
        seen.append((name, connection.info.scheme))
        return from_iterable([name.encode()])

    async with pair(resolve) as connection:
        assert await collect(connection.publisher("a?b=1")) == [b"a?b=1"]
    assert seen == [("a?b=1", "stream")]


async def test_a_resolver_that_waits_is_cancelled_with_its_stream():
    state = []

    async def resolve(name, connection):
        state.append("begun")
        try:
            await trio.sleep_forever()
        finally:
            state.append("over")

    async with pair(resolve) as connection:
        recorder = Recorder()
        connection.publisher("x").subscribe(recorder)
        await until(lambda: state)
        recorder.subscription.cancel()
        await until(lambda: len(state) == 2)
        assert connection.statistics().subscriptions == 0
        connection.publisher("y").subscribe(Recorder())
        await until(lambda: len(state) == 3)  # the connection has survived it


async def test_long_elements_arrive_whole():
    long = [bytes([n]) * 100_000 for n in range(5)]
    async with pair({"big": from_iterable(long)}) as connection:
        assert await collect(connection.publisher("big")) == long


async def test_an_element_of_a_wrong_type_fails_its_stream(caplog):
    async with pair({"text": from_iterable(["text"])}) as connection:
        with pytest.raises(
            rsio.PublisherError, match=r"^publisher '(fail|text)': the publisher failed$"
        ):
            await collect(connection.publisher("text"))
    assert "elements must be bytes, not str" in caplog.text


async def test_elements_of_one_size_are_read_one_by_one_or_in_blocks():
    target = {"ints": rsio.fixed_size(words(5000), 8)}
    async with pair(target) as connection:
        publisher = connection.publisher("ints")
        assert await collect(publisher) == words(5000)
        octets = b""
        async with publisher.open_packed(prefetch=100) as blocks:
            async for block in blocks:
                assert block.size == 8
                assert block.count == len(block)
                octets += block.data
        assert octets == b"".join(words(5000))


async def test_blocks_need_elements_of_one_size():
    async with pair({"count": from_iterable(numbers(5))}) as connection:
        async with connection.publisher("count").open_packed() as blocks:
            with pytest.raises(rsio.RsioError, match="do not have one size"):
                await blocks.receive()


async def test_leaving_the_block_ends_streams_with_a_closed_error():
    recorder = Recorder()
    async with pair({"never": never()}) as connection:
        connection.publisher("never").subscribe(recorder)
    assert isinstance(recorder.error, trio.ClosedResourceError)
    late = Recorder()
    connection.publisher("never").subscribe(late)
    assert isinstance(late.error, trio.ClosedResourceError)


async def test_the_goodbye_of_the_peer_ends_everything():
    async def leave(connection):
        await connection.goodbye("enough")

    async with pair(on_connection=leave) as connection:
        failure = await connection.wait_closed()
    assert isinstance(failure, rsio.GoodbyeReceived)
    assert failure.reason == "enough"
    assert str(failure) == "the peer closed the connection: enough"


async def test_both_may_say_goodbye_at_once():
    async def leave(connection):
        await connection.goodbye("server")

    async with pair(on_connection=leave) as connection:
        await connection.goodbye("client")
        await connection.wait_closed()


async def test_a_lost_connection_ends_everything():
    ours, theirs = trio.testing.memory_stream_pair()
    recorder = Recorder()
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def serve():
            with scope:
                await rsio.serve_stream({"never": never()}, theirs)

        nursery.start_soon(serve)
        async with rsio.connect(ours) as connection:
            connection.publisher("never").subscribe(recorder)
            await until(lambda: connection.statistics().subscriptions)
            scope.cancel()
            failure = await connection.wait_closed()
    assert isinstance(failure, ConnectionLost)
    assert isinstance(recorder.error, ConnectionLost)


async def test_without_waiting_all_leaves_in_one_flight():
    ours, theirs = trio.testing.memory_stream_pair()
    recorder = Recorder(MAX_DEMAND)
    async with trio.open_nursery() as nursery:
        async with rsio.connect(ours, wait=False) as connection:
            connection.publisher("count").subscribe(recorder)
            nursery.start_soon(rsio.serve_stream, {"count": from_iterable(numbers(3))}, theirs)
            await connection.wait_ready()
            await until(lambda: recorder.completed)
    assert recorder.elements == numbers(3)


async def test_names_are_checked_here():
    async with pair() as connection:
        with pytest.raises(TypeError, match="must be a str, not bytes"):
            connection.publisher(b"count")
        with pytest.raises(ValueError, match="has 1025 octets"):
            connection.publisher("x" * 1025)


async def test_an_error_names_the_publisher_that_was_asked_for():
    """The peer sends no name, but the text alone, also of an error of a peer. A query is hidden."""

    def fail(name, _connection):
        raise rsio.PublisherError("no luck", publisher="inner secret")

    async with pair(fail) as connection:
        for name, shown in [("prices?n=1", "'prices?***'"), ("a\nb", "'a\\nb'")]:
            with pytest.raises(rsio.PublisherError) as caught:
                await collect(connection.publisher(name))
            assert str(caught.value) == f"publisher {shown}: no luck"
            assert (caught.value.publisher, caught.value.text) == (name, "no luck")


async def test_elements_may_be_of_a_class_of_bytes():
    class Word(bytes):
        pass

    async with pair({"words": from_iterable([Word(b"a"), bytearray(b"b")])}) as connection:
        assert await collect(connection.publisher("words")) == [b"a", b"b"]
