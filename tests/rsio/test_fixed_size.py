"""`fixed_size`: elements from iterables, blocks and publishers, and their mistakes."""

from __future__ import annotations

import pytest

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import collect, from_async_iterable, from_iterable
from tests.rsio.engine_scenes import Recorder, words


class Blocks(Recorder):
    """Subscribes to blocks."""


def blocks_of(publisher, demand):
    subscriber = Blocks(demand)
    publisher.subscribe_packed(subscriber)
    return subscriber


def test_elements_are_put_together_as_they_are_requested():
    subscriber = blocks_of(rsio.fixed_size(words(10), 8), 4)
    assert subscriber.elements == [b"".join(words(4))]
    subscriber.subscription.request(100)
    assert b"".join(subscriber.elements) == b"".join(words(10))
    assert subscriber.completed


def test_blocks_are_cut_as_they_are_requested():
    octets = b"".join(words(10))
    publisher = rsio.fixed_size([octets[:56], memoryview(octets[56:])], 8, packed=True)
    subscriber = blocks_of(publisher, 3)
    assert subscriber.elements == [octets[:24]]
    subscriber.subscription.request(3)
    subscriber.subscription.request(100)
    assert b"".join(subscriber.elements) == octets
    assert subscriber.completed


def test_published_blocks_are_asked_for_one_by_one():
    asked = []

    def source():
        for number in range(3):
            asked.append(number)
            yield b"".join(words(5))

    publisher = rsio.fixed_size(from_iterable(source), 8, packed=True)
    subscriber = blocks_of(publisher, 6)
    assert asked == [0, 1]
    assert b"".join(subscriber.elements) == b"".join([*words(5), *words(1)])
    subscriber.subscription.request(100)
    assert len(b"".join(subscriber.elements)) == 15 * 8
    assert subscriber.completed


@pytest.mark.parametrize(
    "publisher",
    [
        rsio.fixed_size([*words(3), b"short"], 8),
        rsio.fixed_size(from_iterable([*words(3), b"short"]), 8),
    ],
)
def test_an_element_of_another_size_is_an_error_behind_those_before_it(publisher):
    recorder = Recorder(100)
    publisher.subscribe(recorder)
    assert recorder.elements == words(3)
    assert isinstance(recorder.error, ValueError)
    assert "an element of 5 octets" in str(recorder.error)


@pytest.mark.parametrize("packed_source", [[b"x" * 12], from_iterable([b"x" * 12])])
def test_a_block_of_broken_elements_is_an_error(packed_source):
    recorder = Recorder(100)
    rsio.fixed_size(packed_source, 8, packed=True).subscribe(recorder)
    assert "holds no elements of 8 octets" in str(recorder.error)


def test_a_source_that_cannot_be_opened_is_an_error():
    def source():
        raise OSError("no such file")

    recorder = Recorder(1)
    rsio.fixed_size(source, 8).subscribe(recorder)
    assert isinstance(recorder.error, OSError)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (([], 0), ValueError, "size must be at least 1"),
        (([], "8"), TypeError, "size must be of type int"),
        ((5, 8), TypeError, "a publisher or an iterable"),
        ((b"12345678", 8), TypeError, "a publisher or an iterable"),
    ],
)
def test_wrong_arguments(arguments, kind, text):
    with pytest.raises(kind, match=text):
        rsio.fixed_size(*arguments)


async def test_an_async_iterable_needs_a_nursery(nursery):
    async def source():
        for each in words(3):
            yield each

    with pytest.raises(TypeError, match="give from_async_iterable"):
        await collect(rsio.fixed_size(source, 8))  # the function, which is not called before
    with pytest.raises(TypeError, match="from_async_iterable"):
        rsio.fixed_size(source(), 8)
    publisher = rsio.fixed_size(from_async_iterable(source, nursery), 8)
    assert await collect(publisher) == words(3)


async def test_numbers_come_out_of_a_block():
    from tests.rsio.engine_scenes import pair

    async with pair({"ints": rsio.fixed_size(words(20), 8)}) as connection:
        async with connection.publisher("ints").open_packed() as blocks:
            block = await blocks.receive()
    assert list(block.array("Q")) == list(range(block.count))
    assert list(block) == words(block.count)
    assert block[0] == words(1)[0]
    assert block[-1] == words(block.count)[-1]
    assert repr(block) == f"PackedElements({block.count} of 8 octets)"
    with pytest.raises(ValueError, match="have 4 octets, and the elements have 8"):
        block.array("i")
