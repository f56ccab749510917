"""A factory that never returns fails its tests, and does not hold up the run."""

from __future__ import annotations

import gc
import re
from contextlib import asynccontextmanager, nullcontext
from itertools import count

import pytest
import trio

from rsocket_trio.reactive_streams import Broadcast
from rsocket_trio.reactive_streams.tck import (
    ProcessorVerification,
    PublisherVerification,
    SubscriberVerification,
    verify_processor,
    verify_publisher,
)
from tests.reactive_streams.tck.mutants.streams import verified
from tests.reactive_streams.tck.reference import Cold, Link
from tests.reactive_streams.tck.running import names_of, run


async def never(*_: object) -> None:
    """A factory that waits for what never happens."""
    await trio.sleep_forever()


class NeverASubscriber(SubscriberVerification):
    async def subscriber(self) -> None:
        await never()


@pytest.mark.parametrize(
    ("verification", "only", "name"),
    [
        (verify_publisher(never), "test_r1_05", "publisher"),
        (
            verify_publisher(lambda n: Cold(lambda: range(n)), failing=never),
            "test_r1_04",
            "failing",
        ),
        (verify_publisher(never, clock="real", patience=0.001), "test_r1_05", "publisher"),
        (NeverASubscriber, "test_r2_01", "subscriber"),
        (verify_processor(never), "test_r1_05", "processor"),
    ],
    ids=["publisher", "failing", "real clock", "subscriber", "processor"],
)
def test_a_factory_that_never_returns_fails_its_tests(verification, only, name):
    """Required and optional tests fail, and the text names the factory."""
    outcomes = run(verification, only=only)
    assert outcomes.failed
    assert not outcomes.passed
    assert not outcomes.unmet
    for text in outcomes.failed.values():
        assert f"set-up: the factory {name} did not return within" in text


def test_a_slow_factory_has_time_to_return():
    """By the mock clock, a factory may take as long as the kit waits for anything."""

    async def slow(n: int) -> Cold:
        await trio.sleep(50)
        return Cold(lambda: range(n))

    outcomes = run(verify_publisher(slow), only="test_setup_factory")
    assert len(outcomes.passed) == 2


@pytest.mark.parametrize("made", [None, 5])
def test_a_factory_without_a_publisher_is_named(made):
    """A `return` was forgotten, for example."""
    outcomes = run(verify_publisher(lambda n: made), only="test_r1_0")
    assert outcomes.failed
    assert not outcomes.passed
    for text in outcomes.failed.values():
        assert f"set-up: the factory publisher returned {made!r}, which is no publisher" in text


@pytest.mark.parametrize(
    ("made", "missing"), [(None, "subscribe"), (Cold(lambda: range(3)), "on_subscribe")]
)
def test_a_factory_without_a_processor_is_named(made, missing):
    outcomes = run(verify_processor(lambda: made), only="test_r1_05")
    assert outcomes.failed
    assert not outcomes.passed
    for text in outcomes.failed.values():
        assert f"which is no processor: it has no {missing}" in text


def test_a_processor_whose_slowest_subscriber_decides_is_told_what_to_declare():
    outcomes = run(verify_processor(Broadcast), only="test_r2_01_demand_goes")
    (text,) = outcomes.failed.values()
    assert "declare coordinated = True" in text
    declared = verify_processor(Broadcast, coordinated=True)
    assert not run(declared, only="test_r2_01_demand_goes").failed


@asynccontextmanager
async def never_yields():
    """A resource that cannot be had."""
    async with trio.open_nursery():
        await trio.sleep_forever()
        yield


@asynccontextmanager
async def never_ends():
    """A resource that cannot be given back."""
    async with trio.open_nursery():
        yield
        await trio.sleep_forever()


@pytest.mark.parametrize("clock", ["mock", "real"])
@pytest.mark.parametrize(
    ("resource", "what"),
    [(never_yields, "did not yield"), (never_ends, "did not end when its block was left")],
    ids=["enter", "leave"],
)
def test_a_resource_that_never_returns_fails_its_tests(resource, what, clock):
    """It has as long as a factory, to begin and to end, and the text names it."""
    verification = verify_publisher(
        lambda n: Cold(lambda: range(n)), resource=resource, clock=clock, patience=0.001
    )
    outcomes = run(verification, only="test_r1_05")
    assert outcomes.failed
    assert not outcomes.passed
    for text in outcomes.failed.values():
        assert f"set-up: resource() {what} within" in text


def test_a_violation_is_not_hidden_by_a_resource_that_never_ends():
    """The text of the violation comes first."""

    class Silent(Cold):
        def subscribe(self, subscriber):
            raise OSError("no")

    verification = verify_publisher(lambda n: Silent(lambda: range(n)), resource=never_ends)
    outcomes = run(verification, only="test_r1_01")
    assert outcomes.failed
    assert all("rule 1.9: subscribe raised" in text for text in outcomes.failed.values())


def test_a_resource_may_be_used_longer_than_it_may_take_to_come():
    """The deadline is not one of the test."""

    async def slow(n: int) -> Cold:
        await trio.sleep(50)
        return Cold(lambda: range(n))

    @asynccontextmanager
    async def slowly():
        await trio.sleep(50)
        yield
        await trio.sleep(50)

    outcomes = run(verify_publisher(slow, resource=slowly), only="test_r1_05")
    assert not outcomes.failed
    assert outcomes.passed


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"subscribers": "Many"}, "subscribers is 'Many', and has to be 'one' or 'many'"),
        ({"completes": "no"}, "completes is 'no', and has to be True or False"),
        ({"clock": "virtual"}, "clock is 'virtual', and has to be 'mock' or 'real'"),
        ({"patience": -1}, "patience is -1, and has to be a number of seconds above 0"),
        ({"settle_seconds": "1"}, "has to be a number of seconds above 0, or None"),
        ({"step_seconds": float("nan")}, "step_seconds is nan, and has to be"),
        ({"max_elements": -1}, "max_elements is -1, and has to be an integer, at least 0, or None"),
        ({"recursion_bound": 0}, "recursion_bound is 0, and has to be an integer, at least 1"),
        ({"failing": 3}, "failing is 3, and has to be a function"),
        ({"max_element": 3}, "max_element is nothing that the kit knows: max_elements is"),
        ({"fails": 3}, None),
        ({"failling": lambda self, n: n}, "failling is nothing that the kit knows: failing is"),
        ({"publishers": lambda self: []}, None),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_declarations_are_checked_when_the_class_is_made(declared, says):
    """A misspelt word would switch tests off without a word. Names of one's own are allowed."""
    expected = nullcontext() if says is None else pytest.raises(TypeError, match=re.escape(says))
    with expected:
        type("TestMine", (PublisherVerification,), declared)


def test_the_declarations_of_a_processor_are_checked():
    """Its own, and those of the publisher that it is."""
    for declared in ({"recovers": 1}, {"multicast": None}, {"trigger_requests": len}):
        with pytest.raises(TypeError, match="TestMine"):
            type("TestMine", (ProcessorVerification,), declared)


def test_the_kit_cancels_what_it_has_left_open():
    """A publisher may hold a cursor for each subscription: none is open when a test is over."""
    opened = set()

    class Cursor(Link):
        def start(self):
            opened.add(self)
            super().start()

        def release(self):
            opened.discard(self)
            super().release()

    verification = verified(Cursor)
    for name in names_of(verification):
        run(verification, only=name)
        assert not opened, name


def test_a_subscription_that_only_the_kit_refers_to_is_cancelled_too():
    """Publisher and subscriber may refer to each other alone; then nobody would cancel."""
    opened = set()
    numbers = count()

    class Cursor(Link):
        def start(self):
            gc.collect()
            self.number = next(numbers)
            opened.add(self.number)
            super().start()

        def release(self):
            opened.discard(self.number)
            super().release()

    outcomes = run(verified(Cursor), only="test_r1_01_never_more")
    assert outcomes.passed
    assert not opened
