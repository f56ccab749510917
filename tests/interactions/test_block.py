"""Only the error of its body comes out of a block."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio.interactions.block import Block


@asynccontextmanager
async def block_with_a_task(task=trio.sleep_forever, then=None):
    block = Block()
    with block.around():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task)
            try:
                with block.body():
                    yield nursery
            finally:
                nursery.cancel_scope.cancel()
                if then is not None:
                    await then()


async def test_the_error_comes_out_unchanged():
    """It is neither in a group nor behind another error; cause and context are its own."""
    cause, context = KeyError("cause"), ValueError("context")
    with pytest.raises(LookupError) as caught:
        async with block_with_a_task():
            try:
                raise context
            except ValueError:
                raise LookupError("mine") from cause
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is context


async def test_an_error_group_of_the_body_comes_out():
    """A group that the body raised comes out."""
    group = ExceptionGroup("mine", [LookupError()])
    with pytest.raises(ExceptionGroup) as caught:
        async with block_with_a_task():
            raise group
    assert caught.value is group


async def test_a_group_of_cancellations_is_one():
    """It belongs to the scope within the block, which absorbs it."""

    @asynccontextmanager
    async def block_with_a_scope():
        block = Block()
        with block.around(), trio.CancelScope() as scope, block.body():
            yield scope

    try:
        async with block_with_a_scope() as scope:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(trio.sleep_forever)
                scope.cancel()
    except BaseException as error:  # the test would absorb a cancellation
        raise AssertionError("not absorbed") from error
    assert scope.cancelled_caught


async def test_errors_that_end_the_program():
    """They end the tasks beside it at once, and are not grouped."""
    with pytest.raises(KeyboardInterrupt) as caught:
        async with block_with_a_task():
            raise KeyboardInterrupt
    assert caught.value.__context__ is None


async def test_a_close_that_is_cancelled():
    """A cancellation during the close does not replace the error; without an error it is raised."""
    reached = False
    with trio.CancelScope() as scope:
        with pytest.raises(LookupError, match="mine") as caught:
            async with block_with_a_task(then=trio.sleep_forever):
                scope.cancel()
                raise LookupError("mine")
        assert caught.value.__context__ is None
        reached = True  # else the scope has absorbed what came instead of the error
        async with block_with_a_task():
            pass
        await trio.lowlevel.checkpoint()
    assert reached
    assert scope.cancelled_caught


async def test_a_close_of_several_tasks_that_is_cancelled():
    """Their nurseries make groups of the cancellations, and these do not replace the error."""

    async def slow():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    with trio.CancelScope() as scope:
        with pytest.raises(LookupError, match="mine") as caught:
            async with block_with_a_task(then=slow):
                scope.cancel()
                raise LookupError("mine")
        assert caught.value.__context__ is None
    assert not scope.cancelled_caught  # it has absorbed nothing instead of the error


async def test_several_tasks_of_the_body_are_cancelled():
    """A scope within the block absorbs that, as it does for one task: it is no error."""
    block = Block()
    try:
        with block.around(), trio.CancelScope() as scope, block.body():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                scope.cancel()
                await trio.sleep_forever()
    except BaseExceptionGroup as group:  # the runner of the tests would take it for its own
        raise AssertionError from group


async def test_a_failing_task_beside_the_body():
    """The failure of a task comes out in a group, as from a nursery."""

    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with block_with_a_task(fail):
            await trio.sleep_forever()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
    with pytest.raises(ExceptionGroup) as caught:
        async with block_with_a_task(fail) as nursery:
            nursery.start_soon(fail)
            await trio.lowlevel.cancel_shielded_checkpoint()
            raise LookupError("mine")
    assert {type(error) for error in caught.value.exceptions} == {ZeroDivisionError}
