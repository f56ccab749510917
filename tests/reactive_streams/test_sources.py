"""The publishers of `rsocket_trio.reactive_streams.sources`, and the rules that they keep."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.reactive_streams import (
    MAX_DEMAND,
    AlreadySubscribed,
    Publisher,
    empty,
    failed,
    from_iterable,
    just,
    never,
)
from tests.reactive_streams.recording import Failing, Recorder


def subscribed(publisher, first=0, more=0):
    recorder = Recorder(first, more)
    publisher.subscribe(recorder)
    return recorder


def numbers(n):
    yield from range(n)


def test_it_sends_what_is_requested():
    recorder = subscribed(just(1, 2, 3))
    assert recorder.signals == ["subscribe"]
    assert recorder.request(1).signals == ["subscribe", 1]
    assert recorder.request(2).signals == ["subscribe", 1, 2, 3, "complete"]


def test_a_generator_completes_with_the_request_behind_its_last_element():
    recorder = subscribed(from_iterable(lambda: numbers(2)), 2)
    assert recorder.signals == ["subscribe", 0, 1]
    assert recorder.request(1).signals == ["subscribe", 0, 1, "complete"]


def test_a_source_is_not_read_ahead():
    taken = []
    recorder = subscribed(from_iterable(taken.append(each) or each for each in range(9)), 2)
    assert taken == recorder.elements == [0, 1]


@pytest.mark.parametrize("source", [[], (), "", range(0), {}, set()], ids=repr)
def test_an_empty_collection_completes_without_demand(source):
    assert subscribed(from_iterable(source)).signals == ["subscribe", "complete"]
    assert subscribed(empty()).signals == ["subscribe", "complete"]


@pytest.mark.parametrize("source", [[1, 2], (1, 2), range(1, 3), "ab", "\u0100b", b"ab"], ids=repr)
def test_a_list_knows_its_end(source):
    assert subscribed(from_iterable(source), 2).signals == ["subscribe", *source, "complete"]


def test_each_subscriber_gets_all_elements():
    publisher = just(1, 2)
    assert subscribed(publisher, 9).elements == subscribed(publisher, 9).elements == [1, 2]


def test_an_iterator_is_given_once():
    publisher = from_iterable(numbers(2))
    first = subscribed(publisher)
    second = subscribed(publisher)
    assert second.signals[0] == "subscribe"
    assert isinstance(second.signals[1], AlreadySubscribed)
    assert first.request(9).signals == ["subscribe", 0, 1, "complete"]


def test_never_sends_nothing():
    recorder = subscribed(never(), 5)
    assert recorder.signals == ["subscribe"]
    recorder.request(-1)
    assert isinstance(recorder.signals[1], ValueError)


def test_failed_fails_without_demand():
    error = OSError("x")
    assert subscribed(failed(error)).signals == ["subscribe", error]
    with pytest.raises(TypeError, match="None"):
        failed(None)


@pytest.mark.parametrize("source", [lambda: 1 / 0, 3, None], ids=["it raises", "a number", "None"])
def test_a_source_that_cannot_begin_fails(source):
    """Rules 1.4 and 1.9: subscribe returns."""
    (_, error) = subscribed(from_iterable(source)).signals
    assert isinstance(error, ZeroDivisionError | TypeError)


async def _numbers():
    yield 1


@pytest.mark.parametrize("source", [_numbers, _numbers()], ids=["function", "generator"])
def test_an_async_source_fails_and_the_text_says_what_takes_it(source):
    (_, error) = subscribed(from_iterable(source)).signals
    assert isinstance(error, TypeError)
    assert "give from_async_iterable(source, nursery) in its place" in str(error)


def test_the_error_of_the_source_follows_its_elements():
    def source():
        yield 1
        raise KeyError("x")

    recorder = subscribed(from_iterable(source), 5)
    assert recorder.signals[:2] == ["subscribe", 1]
    assert isinstance(recorder.signals[2], KeyError)


@pytest.mark.parametrize("source", [[1, None, 2], (None,)], ids=repr)
def test_none_is_no_element(source):
    recorder = subscribed(from_iterable(source), 5)
    assert isinstance(recorder.signals[-1], TypeError)
    assert 2 not in recorder.elements


@pytest.mark.parametrize("wrong", [None, object()], ids=["none", "object"])
@pytest.mark.parametrize("publisher", [just(1), never(), failed(OSError())], ids=type)
def test_no_subscriber_is_a_type_error(publisher, wrong):
    """Rule 1.9."""
    assert isinstance(publisher, Publisher)
    with pytest.raises(TypeError):
        publisher.subscribe(wrong)


WRONG = [0, -1, -(2**63), -(10**5000), 1.5, None, "1", object()]


@pytest.mark.parametrize("n", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("at_once", [True, False])
def test_a_wrong_demand_is_signalled(n, at_once):
    """Rule 3.9; request returns normally (rule 3.16)."""

    class AtOnce(Recorder):
        def on_subscribe(self, subscription):
            super().on_subscribe(subscription)
            subscription.request(n)

    recorder = AtOnce() if at_once else Recorder()
    just(1).subscribe(recorder)
    recorder.request(n)
    (_, error) = recorder.signals
    assert type(error) is (ValueError if isinstance(n, int) else TypeError)
    assert "3.9" in str(error)
    assert isinstance(n, int) == ("non-positive" in str(error))
    recorder.request(1)
    recorder.request(n)
    assert len(recorder.signals) == 2


def test_a_wrong_demand_in_on_next_is_signalled_behind_it():
    """Rule 1.3: signals are serial."""
    recorder = subscribed(just(1, 2, 3), 3, more=-1)
    assert recorder.elements == [1]
    assert [type(each) for each in recorder.terminals] == [ValueError]
    assert recorder.deepest == 1


def test_an_index_that_raises_is_a_type_error():
    class Odd:
        def __index__(self):
            raise OSError

    assert isinstance(subscribed(just(1)).request(Odd()).signals[-1], TypeError)


@pytest.mark.parametrize("n", [MAX_DEMAND, MAX_DEMAND + 1, 2**100, True])
def test_large_demands(n):
    """Rule 3.17."""
    recorder = subscribed(just(1, 2, 3)).request(n)
    assert recorder.elements == ([1] if n is True else [1, 2, 3])
    recorder = subscribed(just(1, 2, 3), MAX_DEMAND, more=MAX_DEMAND)
    assert recorder.signals == ["subscribe", 1, 2, 3, "complete"]


def test_recursion_has_the_depth_one():
    """Rules 3.2, 3.3; on_next does not come inside on_subscribe."""
    recorder = subscribed(from_iterable(range(5000)), 1, more=1)
    assert len(recorder.elements) == 5000
    assert recorder.terminals == ["complete"]
    assert recorder.deepest == 1


def test_nothing_follows_a_cancel():
    recorder = subscribed(just(1, 2, 3), 1)
    for _ in range(3):
        recorder.cancel()
    for n in (1, 0, -1, None):
        recorder.request(n)
    assert recorder.signals == ["subscribe", 1]


def test_a_cancel_inside_a_signal_is_the_end():
    class Once(Recorder):
        def on_next(self, element):
            super().on_next(element)
            self.cancel()

    recorder = Once(5)
    closed = []

    def source():
        try:
            yield from range(5)
        finally:
            closed.append(1)

    from_iterable(source).subscribe(recorder)
    assert recorder.signals == ["subscribe", 0]
    assert closed == [1]


def test_a_cancel_closes_the_iterator():
    closed = []

    def source():
        try:
            yield from range(5)
        finally:
            closed.append(1)

    recorder = subscribed(from_iterable(source), 1)
    assert not closed
    recorder.cancel()
    assert closed == [1]


def test_a_clean_up_that_fails_is_logged(caplog):
    """Rule 3.15: cancel returns normally."""

    def source():
        try:
            yield 1
        finally:
            raise OSError("clean-up")

    subscribed(from_iterable(source), 1).cancel()
    assert "closing the source" in caplog.text


@pytest.mark.parametrize("end", ["cancel", "complete", "error", "wrong demand"])
def test_references_go_at_the_end(end):
    """Rule 3.13."""
    source = just(1, 2) if end != "error" else from_iterable(iter([1, None]))
    recorder = subscribed(source, 1)
    subscription = recorder.subscription
    if end == "cancel":
        subscription.cancel()
    else:
        subscription.request(0 if end == "wrong demand" else 5)
    gone = weakref.ref(recorder)
    del recorder
    gc.collect()
    assert gone() is None
    subscription.request(1)
    subscription.cancel()


@pytest.mark.parametrize("name", ["on_subscribe", "on_next", "on_complete", "on_error"])
def test_a_subscriber_that_raises_loses_its_subscription(name, caplog):
    """Rule 2.13: only it is harmed, and the error is told."""
    publisher = failed(OSError()) if name == "on_error" else just(1, 2)
    hostile = Failing(name)
    publisher.subscribe(hostile)
    signals = list(hostile.signals)
    hostile.request(1)
    assert hostile.signals == signals
    assert len(signals) <= {"on_subscribe": 1, "on_complete": 4}.get(name, 2)
    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert name in line.getMessage()
    assert "hostile" in caplog.text


def test_an_interrupt_passes_and_ends_it():
    class Interrupted(Recorder):
        def on_next(self, element):
            raise KeyboardInterrupt

    recorder = Interrupted()
    just(1, 2).subscribe(recorder)
    with pytest.raises(KeyboardInterrupt):
        recorder.request(1)
    recorder.request(1)
    assert recorder.signals == ["subscribe"]


@given(
    size=st.integers(0, 40),
    first=st.integers(0, 5),
    more=st.integers(0, 3),
    requests=st.lists(st.integers(1, 9), max_size=9),
    known=st.booleans(),
)
def test_any_requests_get_exact_counts(size, first, more, requests, known):
    """Rules 1.1, 1.5, 1.7: the counts, the order, and one end."""
    recorder = subscribed(from_iterable(range(size) if known else numbers(size)), first, more)
    for n in requests:
        recorder.request(n)
    requested = first + sum(requests)
    given = 0
    while given < min(requested, size):
        given += 1
        requested += more
    assert recorder.elements == list(range(given))
    over = given == size and (known or requested > size)
    assert recorder.terminals == ["complete"] * over
    assert recorder.deepest == 1
