"""`Broadcast`: the slowest subscriber decides; each may come, leave and fail on its own."""

from __future__ import annotations

import pytest

from rsocket_trio.reactive_streams import (
    MAX_DEMAND,
    Broadcast,
    TooManyElements,
    from_iterable,
)
from tests.reactive_streams.recording import Failing, Recorder, Requests


def shared_by(*subscribers, capacity=64, auto_cancel=True):
    shared, source = Broadcast(capacity, auto_cancel=auto_cancel), Requests()
    for each in subscribers:
        shared.subscribe(each)
    shared.on_subscribe(source)
    return shared, source


def test_the_slowest_decides():
    """The least demand is requested; who leaves no longer counts."""
    fast, slow = Recorder(10), Recorder(2)
    shared, source = shared_by(fast, slow)
    assert source.requested == [2]
    shared.on_next("a")
    shared.on_next("b")
    assert fast.elements == slow.elements == ["a", "b"]
    fast.request(5)
    assert source.requested == [2]
    slow.cancel()
    assert sum(source.requested) == 15
    assert shared.subscribers == 1


def test_the_capacity_bounds_what_is_on_its_way():
    """Demand without a limit becomes requests of the capacity, made up for as elements come."""
    shared, source = shared_by(Recorder(MAX_DEMAND), capacity=8)
    assert source.requested == [8]
    for element in range(100):
        shared.on_next(element)
        assert sum(source.requested) - element - 1 <= 8
    assert sum(source.requested) > 100


def test_who_comes_later_gets_what_comes_later():
    """What was on its way waits for the newcomer, and its demand counts from then on."""
    first, second = Recorder(3), Recorder()
    shared, source = shared_by(first)
    shared.on_next("a")
    shared.subscribe(second)
    shared.on_next("b")
    shared.on_next("c")
    assert first.elements == ["a", "b", "c"]
    first.request(5)
    assert source.requested == [3]
    second.request(1)
    assert second.elements == ["b"]
    assert source.requested == [3]
    shared.on_complete()
    assert first.terminals == ["complete"]
    assert second.terminals == []
    second.request(1)
    assert second.signals == ["subscribe", "b", "c", "complete"]


@pytest.mark.parametrize("signal", ["on_subscribe", "on_next", "on_error", "on_complete"])
def test_a_hostile_subscriber_harms_only_itself(signal, caplog):
    """The others get all elements and the end (rule 2.13)."""
    first, hostile, last = Recorder(MAX_DEMAND), Failing(signal), Recorder(MAX_DEMAND)
    shared, _ = shared_by(first, hostile, last)
    end = ValueError("it fails") if signal == "on_error" else "complete"
    for element in range(3):
        shared.on_next(element)
    if signal == "on_error":
        shared.on_error(end)
    else:
        shared.on_complete()
    assert first.signals == last.signals == ["subscribe", 0, 1, 2, end]
    assert len(caplog.records) == 1
    if signal == "on_next":
        assert hostile.signals == ["subscribe", 0]


def test_an_error_reaches_all_at_once():
    """Also those without demand; what waits is dropped, and who comes later gets it too."""
    first, second = Recorder(1), Recorder()
    shared, _ = shared_by(first)
    shared.subscribe(second)
    shared.on_next("waits")
    error = ValueError("it fails")
    shared.on_error(error)
    late = Recorder(1)
    shared.subscribe(late)
    assert first.signals == ["subscribe", "waits", error]
    assert second.signals == late.signals == ["subscribe", error]


@pytest.mark.parametrize("auto_cancel", [True, False])
def test_the_last_one_cancels_the_source(auto_cancel):
    """Or the source waits for the next subscriber."""
    recorder = Recorder(1)
    shared, source = shared_by(recorder, auto_cancel=auto_cancel)
    recorder.cancel()
    assert source.cancelled == auto_cancel
    following = Recorder(2)
    shared.subscribe(following)
    if auto_cancel:
        assert following.signals == ["subscribe", "complete"]
    else:
        shared.on_next("on its way")
        assert sum(source.requested) == 2
        assert following.elements == ["on its way"]


def test_a_wrong_request_ends_one_subscription():
    """The others go on (rule 3.9)."""
    wrong, other = Recorder(1), Recorder(5)
    _, source = shared_by(wrong, other)
    wrong.request(0)
    assert isinstance(wrong.terminals[0], ValueError)
    assert other.terminals == []
    assert sum(source.requested) == 5
    assert source.cancelled == 0


def test_more_than_was_requested_ends_it_for_all():
    """A queue never grows beyond the capacity (rule 1.1)."""
    recorder = Recorder(1)
    shared, source = shared_by(recorder, Recorder(3))
    shared.on_next(1)
    shared.on_next(2)
    assert isinstance(recorder.terminals[0], TooManyElements)
    assert source.cancelled == 1


def test_a_subscriber_that_subscribes_another_one_in_on_next():
    """The new one begins with the next element."""
    new = Recorder(5)

    class Inviting(Recorder):
        def on_next(self, element):
            super().on_next(element)
            if element == 1:
                shared.subscribe(new)

    inviting = Inviting(5)
    shared = Broadcast()
    shared.subscribe(inviting)
    from_iterable(range(4)).subscribe(shared)
    assert inviting.signals == ["subscribe", 0, 1, 2, 3, "complete"]
    assert new.signals == ["subscribe", 2, 3, "complete"]


def test_the_capacity_is_checked():
    """It is a positive integer."""
    with pytest.raises(ValueError):
        Broadcast(0)
    with pytest.raises(TypeError):
        Broadcast("3")


def test_many_subscribers_come_request_and_leave(monkeypatch):
    """Each of these looks at some subscribers, and not at all of them."""
    looks = 0
    room = Broadcast._room

    def counted(self, seat):
        nonlocal looks
        looks += 1
        return room(self, seat)

    monkeypatch.setattr(Broadcast, "_room", counted)
    many = 3000
    recorders = [Recorder(1) for _ in range(many)]
    shared, source = shared_by(*recorders)
    assert source.requested == [1]
    shared.on_next("a")
    for each in recorders:
        each.request(1)
    assert source.requested == [1, 1]
    shared.on_next("b")
    assert all(each.elements == ["a", "b"] for each in recorders)
    for each in recorders:
        each.cancel()
    assert source.cancelled == 1
    assert looks < 12 * many


def test_an_element_for_many_without_a_limit(monkeypatch):
    """What all have room for is looked at once for an element, and not once for each of them."""
    looks = 0
    room = Broadcast._room

    def counted(self, seat):
        nonlocal looks
        looks += 1
        return room(self, seat)

    monkeypatch.setattr(Broadcast, "_room", counted)
    recorders = [Recorder(MAX_DEMAND) for _ in range(100)]
    shared, _ = shared_by(*recorders)
    looks = 0
    for number in range(64):
        shared.on_next(number)
    assert looks < 64 * 2 * 100
    assert all(len(each.elements) == 64 for each in recorders)
