"""`Relay` and `as_processor`: the order of subscribing, one subscriber, ends that wait."""

from __future__ import annotations

import pytest

from rsocket_trio.reactive_streams import (
    AlreadySubscribed,
    Processor,
    Relay,
    TooManyElements,
    as_processor,
    from_iterable,
    open_iter,
    pipe,
)
from rsocket_trio.reactive_streams import operators as ops
from tests.reactive_streams.recording import Recorder, Requests


def test_demand_waits_for_the_source():
    """What is requested before the source is there is requested when it comes, and no more."""
    relay, recorder, source = Relay(), Recorder(2), Requests()
    relay.subscribe(recorder)
    recorder.request(3)
    relay.on_subscribe(source)
    assert source.requested == [5]
    recorder.request(1)
    assert source.requested == [5, 1]
    relay.on_next("a")
    assert recorder.elements == ["a"]


@pytest.mark.parametrize("error", [None, ValueError("it fails")])
def test_an_end_waits_for_the_subscriber(error):
    """Who subscribes late gets the end that there was."""
    relay, recorder = Relay(), Recorder(1)
    relay.on_subscribe(Requests())
    if error is None:
        relay.on_complete()
    else:
        relay.on_error(error)
    relay.subscribe(recorder)
    assert recorder.signals == ["subscribe", "complete" if error is None else error]


def test_there_is_one_subscriber():
    """A second one is refused, also after the end; the first one goes on."""
    relay, first, source = Relay(), Recorder(2), Requests()
    relay.subscribe(first)
    relay.on_subscribe(source)
    for end in (lambda: None, relay.on_complete):
        end()
        second = Recorder(1)
        relay.subscribe(second)
        subscribed, error = second.signals
        assert subscribed == "subscribe"
        assert isinstance(error, AlreadySubscribed)
        second.request(0)
        second.cancel()
    assert first.signals == ["subscribe", "complete"]
    assert source.cancelled == 0


def test_a_source_after_cancel_is_cancelled():
    """A relay whose subscriber has left takes no source."""
    relay, recorder, source = Relay(), Recorder(), Requests()
    relay.subscribe(recorder)
    recorder.cancel()
    relay.on_subscribe(source)
    relay.on_next("late")
    relay.on_complete()
    assert source.cancelled == 1
    assert recorder.signals == ["subscribe"]


def test_more_than_was_requested_ends_it():
    """The source is cancelled, and the subscriber gets TooManyElements (rule 1.1)."""
    relay, recorder, source = Relay(), Recorder(1), Requests()
    relay.subscribe(recorder)
    relay.on_subscribe(source)
    relay.on_next(1)
    relay.on_next(2)
    assert recorder.elements == [1]
    assert isinstance(recorder.terminals[0], TooManyElements)
    assert source.cancelled == 1


async def test_an_operator_as_a_processor():
    """It is a subscriber and a publisher; its second subscriber is refused."""
    processor = as_processor(lambda source: pipe(source, ops.map(str), ops.take(2)))
    assert isinstance(processor, Processor)
    from_iterable(range(5)).subscribe(processor)
    async with open_iter(processor) as texts:
        assert [text async for text in texts] == ["0", "1"]
    second = Recorder(1)
    processor.subscribe(second)
    assert isinstance(second.terminals[0], AlreadySubscribed)
    with pytest.raises(TypeError):
        as_processor(lambda source: None)
