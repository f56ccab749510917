from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.testing.cancel_everywhere import cancel_everywhere


async def nothing_to_check() -> None:
    pass


async def test_every_place_is_cancelled_once_until_a_run_completes():
    """An operation of three checkpoints is cancelled before, between and after each of them."""
    reached = []

    async def operation():
        steps = 0
        try:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
                steps += 1
        finally:
            reached.append(steps)

    places = await cancel_everywhere(operation, nothing_to_check)

    assert places == len(reached) - 1
    assert reached[-1] == 3
    assert set(reached) == {0, 1, 2, 3}
    assert reached == sorted(reached)


async def test_an_operation_without_checkpoint_cannot_be_cancelled():
    """It runs to its end, and there is no endless loop."""
    runs = []

    async def operation():
        runs.append(None)

    assert await cancel_everywhere(operation, nothing_to_check) == 1
    assert len(runs) == 2


async def test_check_runs_after_each_run():
    """The check sees every run's end, the complete one included."""
    runs = checks = 0

    async def operation():
        nonlocal runs
        runs += 1
        await trio.lowlevel.checkpoint()

    async def check():
        nonlocal checks
        checks += 1

    places = await cancel_everywhere(operation, check)

    assert runs == checks == places + 1


async def test_a_planted_leak_is_found_and_its_place_named():
    """A cancellation between taking a resource and the try block leaves the resource."""
    taken = []

    async def operation():
        taken.append("a slot")
        await trio.lowlevel.checkpoint()
        try:
            await trio.lowlevel.checkpoint()
        finally:
            taken.pop()

    async def check():
        left = list(taken)
        taken.clear()
        assert not left, "a slot was left"

    with pytest.raises(AssertionError, match="a slot was left") as caught:
        await cancel_everywhere(operation, check)
    assert caught.value.__notes__ == ["cancel_everywhere: the operation was cancelled at place 0"]


async def test_a_value_lost_between_hand_over_and_cancellation_is_found(nursery):
    """A task may be cancelled after a value was handed to it, but before it runs."""
    wake: dict[str, trio.lowlevel.Task] = {}
    given = taken = 0

    async def giver():
        nonlocal given
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if "task" in wake:
                given += 1
                trio.lowlevel.reschedule(wake.pop("task"))

    def abort(_raise_cancel):
        wake.clear()
        return trio.lowlevel.Abort.SUCCEEDED

    async def operation():
        nonlocal taken
        wake["task"] = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)
        await trio.lowlevel.checkpoint()
        taken += 1

    async def check():
        assert given == taken, "a value was lost"

    nursery.start_soon(giver)
    with pytest.raises(AssertionError, match="a value was lost") as caught:
        await cancel_everywhere(operation, check)
    assert "at place 2" in caught.value.__notes__[0]
    nursery.cancel_scope.cancel()


async def test_all_tasks_can_be_counted():
    """Counting every task's steps cancels also between the steps of a child."""

    async def operation():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.testing.wait_all_tasks_blocked)

    own = await cancel_everywhere(operation, nothing_to_check)
    every = await cancel_everywhere(operation, nothing_to_check, every_task=True)

    assert every > 2
    assert own > 1


async def test_an_endless_operation_is_reported():
    """Past the limit the operation is called endless."""

    async def operation():
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="did not complete in 5 runs"):
        await cancel_everywhere(operation, nothing_to_check, limit=5)


async def test_an_error_of_the_operation_carries_the_place():
    """A cancellation that turns into another error is reported as that error, with its place."""

    async def operation():
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            raise RuntimeError("lost its head") from None

    with pytest.raises(RuntimeError, match="lost its head") as caught:
        await cancel_everywhere(operation, nothing_to_check)
    assert "place 0" in caught.value.__notes__[0]


async def test_cancel_everywhere_can_be_cancelled():
    """The caller's own cancel scope ends it, and no further check runs."""
    checks = 0

    async def check():
        nonlocal checks
        checks += 1

    async def operation():
        if checks:
            scope.cancel()
        await trio.sleep(0)

    with trio.CancelScope() as scope:
        await cancel_everywhere(operation, check)
    assert scope.cancelled_caught
    assert checks == 1
