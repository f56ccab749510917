"""The buffer between threads: wake-ups, waits, and changes in the middle of changes."""

from __future__ import annotations

import threading
import time
from collections import deque
from math import inf

import pytest

from rsocket_trio.lumberjack.log_handler.buffer import Buffer
from rsocket_trio.lumberjack.log_handler.handover import Handover
from tests.waiting import wait_until

ANY = 10**9


class Woken:
    def __init__(self, max_records=ANY, *, drop_oldest=False, block_timeout=None):
        self.wakes = 0
        self.buffer = Buffer(max_records, ANY, drop_oldest=drop_oldest)
        self.handover = Handover(self.buffer, block_timeout=block_timeout, wake=self._wake)

    def _wake(self):
        # The lock must be free: another thread can take it.
        free = []

        def look():
            self.handover.counts()
            free.append(True)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join(5)
        assert free, "the wake-up is called with the lock"
        self.wakes += 1

    def put(self, count=1):
        for _ in range(count):
            self.handover.put(b"event")


def test_one_wake_up_for_each_wait():
    one = Woken()
    one.put(10)
    assert one.wakes == 0
    assert not one.handover.arm(10)
    assert one.handover.arm(12)
    one.put()
    assert one.wakes == 0
    one.put(100)
    assert one.wakes == 1


def test_a_hurry_wakes_only_a_thread_that_waits():
    one = Woken()
    one.put()
    assert not one.handover.wait_settled(0)
    one.put()
    assert one.wakes == 0


def test_a_wake_up_by_size():
    one = Woken()
    assert one.handover.arm(100, 300)
    one.put(4)
    assert one.wakes == 0
    one.put()
    assert one.wakes == 1
    assert not one.handover.arm(100, 300)


def test_a_wake_up_by_drops():
    one = Woken(2)
    assert one.handover.arm_drops(0)
    one.put(2)
    assert one.wakes == 0
    one.put(2)
    assert one.wakes == 1
    assert not one.handover.arm_drops(1)
    assert one.handover.arm_drops(2)


@pytest.mark.parametrize("wait", ["wait_settled", "close"])
def test_waits_for_the_end_hurry_the_sender(wait):
    one = Woken()
    one.put()
    assert one.handover.arm(100)
    if wait == "close":
        one.handover.close()
    else:
        assert not one.handover.wait_settled(0)
    assert one.wakes == 1
    assert not one.handover.arm(100)
    assert one.handover.take(ANY, ANY)
    # A later event is in no hurry.
    one.put()
    assert one.handover.arm(100) == (wait != "close")


def test_wait_settled_waits_for_the_events_of_before_only():
    one = Woken()
    one.put(2)
    taken = one.handover.take(ANY, ANY)
    results = []
    thread = threading.Thread(target=lambda: results.append(one.handover.wait_settled(20)))
    thread.start()
    wait_until(lambda: one.handover._changed._waiters)
    one.put()
    one.handover.settle(taken, 1)
    assert not results
    one.handover.settle(one.handover.take(ANY, ANY), 0, "undeliverable")
    thread.join(5)
    assert results == [True]
    assert one.handover.counts().pending == 1


def test_dropped_events_are_settled():
    one = Woken(1, drop_oldest=True)
    one.put(5)
    thread = threading.Thread(target=one.put)
    results = []
    waiting = threading.Thread(target=lambda: results.append(one.handover.wait_settled(20)))
    waiting.start()
    wait_until(lambda: one.handover._changed._waiters)
    thread.start()
    thread.join()
    waiting.join(5)
    assert results == [True]


def test_threads_that_wait_for_room_all_get_it():
    """None of them is dropped while others take the room first."""
    one = Woken(2, block_timeout=20)
    threads = [threading.Thread(target=one.put, args=(20,)) for _ in range(8)]
    for each in threads:
        each.start()
    done = 0
    while any(each.is_alive() for each in threads) or one.handover.waiting:
        taken = one.handover.take(ANY, ANY)
        if taken is None:
            time.sleep(0.001)
            continue
        done += len(taken.events)
        one.handover.settle(taken, len(taken.events))
    found = one.handover.counts()
    assert done == found.acknowledged == found.offered == 160


def test_block_gives_up_exactly_then():
    one = Woken(1, block_timeout=0.1)
    one.put()
    begin = time.monotonic()
    one.put()
    assert time.monotonic() - begin >= 0.1
    assert one.handover.counts().dropped == {"full": 1}


def test_block_does_not_wait_after_close():
    one = Woken(1, block_timeout=600)
    one.put()
    one.handover.close()
    one.put()
    assert one.handover.counts().dropped == {"closed": 1}


def test_an_event_in_the_middle_of_a_change():
    """A signal handler or a finalizer logs while its own thread changes the buffer."""
    one = Woken(4)
    inner = one.buffer.offer

    def interrupted(event):
        if event == b"outer":
            one.handover.put(b"nested")
            one.handover.drop("nested")
            assert one.handover.wait_settled(10) is False
            assert one.buffer.offered == 0
        inner(event)

    one.buffer.offer = interrupted
    one.handover.put(b"outer")
    assert one.handover.take(ANY, ANY).events == [b"outer", b"nested"]
    found = one.handover.counts()
    assert (found.offered, found.pending, found.dropped) == (3, 2, {"nested": 1})


def test_all_is_abandoned_in_the_middle_of_a_change():
    """A signal handler ends the program: it drops the event of the change too."""
    one = Woken()
    inner = one.buffer.offer

    def interrupted(event):
        one.handover.abandon("closed")
        inner(event)

    one.buffer.offer = interrupted
    one.put()
    found = one.handover.counts()
    assert (found.pending, found.dropped) == (0, {"closed": 1})


def test_a_signal_handler_that_makes_the_changes_of_others():
    """It runs when its thread has seen that there are some, and has not taken one yet."""

    class Interrupted(deque):
        was_left = False

        def __bool__(self):
            before, self.was_left = self.was_left, False
            return before or len(self) > 0

    one = Woken()
    one.handover._aside = Interrupted()
    one.handover._aside.was_left = True
    one.put()
    assert one.handover.counts().offered == 1


def test_a_change_that_fails_leaves_the_lock_usable():
    one = Woken()
    inner = one.buffer.offer

    def fails(event):
        one.buffer.offer = inner
        raise MemoryError

    one.buffer.offer = fails
    with pytest.raises(MemoryError):
        one.put()
    one.put()
    assert one.handover.waiting == 1
    assert one.handover._wake_count == inf
