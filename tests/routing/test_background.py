"""Work that goes on when its request is answered."""

import contextvars
from functools import partial
from typing import Annotated, Any

import pytest
import trio
import trio.testing

from rsocket_trio import (
    Background,
    BackgroundStatistics,
    Caller,
    Provided,
    Rejected,
    Router,
    open_background,
)
from rsocket_trio.testing import connected_pair

WHO = contextvars.ContextVar("WHO", default="nobody")


def application(
    trace: list[str], kept: list[Background], scope: Any = "application", **options: Any
) -> Router:
    router = Router()
    router.provide(Background, partial(open_background, **options), scope=scope)

    async def work(name: str, seconds: float) -> None:
        try:
            await trio.sleep(seconds)
            if name == "fails":
                raise ValueError(name)
            if name == "leaves":
                trio.CancelScope().__enter__()
            trace.append(f"{name} by {WHO.get()}")
        except trio.Cancelled:
            trace.append(f"{name} cut")
            raise

    @router.request_response("begin")
    async def begin(order: tuple[str, float], background: Annotated[Background, Provided]) -> str:
        if background not in kept:
            kept.append(background)
        WHO.set("ada")
        with trio.move_on_after(0):  # it is not the task's
            background.start_soon(work, *order)
        return "accepted"

    return router


async def begin(caller: Caller, name: str, seconds: float) -> None:
    answer = await caller.request_response("begin", (name, seconds), returns=str)
    assert answer == "accepted"


@pytest.mark.parametrize("scope", ["application", "connection"])
async def test_it_outlives_its_request(autojump_clock: object, scope: str) -> None:
    """It has the context of the caller, and at the end the grace; then it is cut."""
    trace: list[str] = []
    kept: list[Background] = []
    async with connected_pair(application(trace, kept, scope)) as requester:
        caller = Caller(requester)
        for name, seconds in (("short", 1.0), ("late", 6.0), ("long", 60.0)):
            await begin(caller, name, seconds)
        await trio.sleep(2)
        assert trace == ["short by ada"]
        (background,) = kept
        assert background.statistics() == BackgroundStatistics(
            running=2, completed=1, failed=0, cancelled=0, rejected=0
        )
        left = trio.current_time()
    assert trace[:2] == ["short by ada", "late by ada"]
    if scope == "application":
        assert trio.current_time() == pytest.approx(left + 5)
        assert trace[2:] == ["long cut"]
        assert background.statistics().cancelled == 1
    with pytest.raises(Rejected, match="no more work is taken on"):
        background.start_soon(trio.sleep, 1)


async def test_a_failure_ends_nothing_else(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged with its name and counted; a scope that is left open does no harm at all."""
    trace: list[str] = []
    kept: list[Background] = []
    async with connected_pair(application(trace, kept)) as requester:
        caller = Caller(requester)
        await begin(caller, "fails", 1.0)
        await begin(caller, "leaves", 1.0)
        await begin(caller, "other", 2.0)
        await trio.sleep(3)
        assert trace[-1] == "other by ada"
        assert kept[0].statistics().failed == 1
        assert kept[0].statistics().running == 0
    (record,) = caplog.records
    assert "application.<locals>.work failed in the background" in record.getMessage()
    assert record.exc_info


async def test_there_is_a_limit(autojump_clock: object) -> None:
    """A request beyond it is rejected, and may be tried again."""
    trace: list[str] = []
    kept: list[Background] = []
    async with connected_pair(application(trace, kept, at_most=2)) as requester:
        caller = Caller(requester)
        await begin(caller, "a", 1.0)
        await begin(caller, "b", 1.0)
        with pytest.raises(Rejected, match="2 tasks are running: retry after"):
            await begin(caller, "c", 1.0)
        await trio.sleep(2)
        await begin(caller, "c", 1.0)
    assert sorted(trace) == ["a by ada", "b by ada", "c by ada"]
    assert kept[0].statistics().rejected == 1


@pytest.mark.parametrize("moment", range(6))
async def test_an_owner_that_is_cancelled(autojump_clock: object, moment: int) -> None:
    """At each moment, also within its grace: the tasks are cut at once, and nothing is left."""
    trace: list[str] = []
    background: Any = None

    async def owner() -> None:
        nonlocal background
        generator = open_background(grace=3)
        background = await anext(generator)
        try:
            for n in range(4):
                background.start_soon(partial(note, n))
                await trio.sleep(1)
        except BaseException as error:
            with pytest.raises(type(error)):
                await generator.athrow(error)
            raise
        with pytest.raises(StopAsyncIteration):
            await anext(generator)

    async def note(n: int) -> None:
        try:
            async with trio.open_nursery() as nursery:  # it makes a group of the cancellation
                nursery.start_soon(trio.sleep, 100)
        finally:
            trace.append(str(n))
            if n == 2:
                raise ValueError("in the cleanup")

    with trio.move_on_after(moment + 0.5) as scope:
        await owner()
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(moment + 0.5, abs=0.01)
    assert sorted(trace) == [str(n) for n in range(min(4, moment + 1))]
    failed = moment >= 2
    assert background.statistics() == BackgroundStatistics(
        running=0, completed=0, failed=failed, cancelled=len(trace) - failed, rejected=0
    )


async def test_an_error_of_the_owner_is_not_grouped(autojump_clock: object) -> None:
    """The tasks have their time all the same."""
    trace: list[str] = []

    async def note() -> None:
        await trio.sleep(1)
        trace.append("done")

    generator = open_background()
    background = await anext(generator)
    background.start_soon(note)
    with pytest.raises(ValueError, match="mine"):
        await generator.athrow(ValueError("mine"))
    assert trace == ["done"]


async def test_mistakes() -> None:
    with pytest.raises(ValueError, match="at_most"):
        await anext(open_background(at_most=0))
    with pytest.raises(ValueError, match="grace"):
        await anext(open_background(grace=-1))
    with pytest.raises(TypeError, match="open_background gives one"):
        Background()  # type: ignore[call-arg]
    generator = open_background()
    background = await anext(generator)
    with pytest.raises(RuntimeError, match="another thread"):
        await trio.to_thread.run_sync(background.start_soon, trio.sleep, 1)
    assert [each async for each in generator] == []
