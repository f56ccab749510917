"""What handlers do to the tasks that run them, and how a handler sees that its task is clean."""

from __future__ import annotations

import contextvars
import gc
import weakref
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from rsocket_trio.interactions import leftovers

__all__ = ["MISUSES", "TOUCHED", "assert_clean", "hide_private_names", "remembered"]

TOUCHED = contextvars.ContextVar("TOUCHED", default=False)
remembered: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
"""What handlers have kept by their tasks."""


async def ticks():
    """A generator with a nursery whose task takes a few turns of the loop to end."""

    async def tick():
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                for _ in range(5):
                    await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        while True:
            yield
            await trio.sleep(0.01)


class Manager:
    """A nursery behind an object of the application."""

    async def __aenter__(self):
        self.manager = trio.open_nursery()
        nursery = await self.manager.__aenter__()
        nursery.start_soon(trio.sleep_forever)

    async def __aexit__(self, *details):
        return await self.manager.__aexit__(*details)


@asynccontextmanager
async def managing():
    async with Manager():
        yield


async def managed():
    """A generator whose nursery is behind all kinds of managers, and beside large locals."""
    many = [[number] for number in range(1000)]
    few = {number: [number] for number in range(50)}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(managing())
        while True:
            yield many, few


async def timed():
    with trio.move_on_after(0.02):
        while True:
            yield


async def abandon():
    """Only this one is not seen by trio before the handler has ended."""
    async for _ in ticks():
        break


async def abandon_and_wait():
    """trio would close the generator meanwhile, in another task."""
    await abandon()
    await trio.sleep(0.05)


async def abandon_in_a_cycle_and_wait():
    """The garbage collector finds it, in the task of whom it likes."""
    generator = ticks()
    cycle = [generator]
    cycle.append(cycle)
    await anext(generator)
    del generator, cycle
    await trio.sleep(0.01)
    gc.collect()
    await trio.sleep(0.05)


async def abandon_two():
    """The one that was opened last is closed first, whichever was left first."""
    first = ticks()
    await anext(first)
    second = managed()
    await anext(second)
    del first
    await trio.sleep(0.01)


async def abandon_in_a_child():
    """The task that the handler has started fails, and nothing else."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(abandon_and_wait)


async def abandon_with_a_scope():
    async for _ in timed():
        break


async def enter_nursery():
    await trio.open_nursery().__aenter__()


async def enter_nursery_with_a_child():
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(trio.sleep_forever)
    await trio.sleep(0.01)


async def enter_nursery_with_a_child_that_fails():
    async def fail():
        raise ValueError("a child of a nursery that was left open")

    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(fail)


async def enter_nursery_and_leave_its_scope():
    nursery = await trio.open_nursery().__aenter__()
    nursery.cancel_scope.__exit__(None, None, None)
    await trio.lowlevel.checkpoint()


async def enter_scope():
    trio.CancelScope().__enter__()


async def enter_scope_and_wait():
    trio.CancelScope().__enter__()
    await trio.sleep(0.01)


async def enter_shielded_scope():
    trio.CancelScope(shield=True).__enter__()


async def enter_shielded_scope_and_wait():
    trio.CancelScope(shield=True).__enter__()
    await trio.sleep(0.01)


async def enter_cancelled_scope():
    scope = trio.CancelScope()
    scope.__enter__()
    scope.cancel()


async def enter_scope_with_a_deadline():
    trio.move_on_after(0.02).__enter__()


async def exit_scopes_out_of_order():
    first, second = trio.CancelScope(), trio.move_on_after(0.02)
    first.__enter__()
    second.__enter__()
    try:
        first.__exit__(None, None, None)
    except RuntimeError:
        third = trio.CancelScope(shield=True)
        third.__enter__()


async def set_variable():
    TOUCHED.set(True)


async def set_variable_and_wait():
    TOUCHED.set(True)
    await trio.lowlevel.checkpoint()


async def keep_by_task():
    remembered[trio.lowlevel.current_task()] = "alice"


async def keep_by_task_and_wait():
    remembered[trio.lowlevel.current_task()] = "alice"
    await trio.sleep(0.01)


MISUSES = [
    abandon,
    abandon_and_wait,
    abandon_in_a_cycle_and_wait,
    abandon_two,
    abandon_in_a_child,
    abandon_with_a_scope,
    enter_nursery,
    enter_nursery_with_a_child,
    enter_nursery_with_a_child_that_fails,
    enter_nursery_and_leave_its_scope,
    enter_scope,
    enter_scope_and_wait,
    enter_shielded_scope,
    enter_shielded_scope_and_wait,
    enter_cancelled_scope,
    enter_scope_with_a_deadline,
    exit_scopes_out_of_order,
    set_variable,
    set_variable_and_wait,
    keep_by_task,
    keep_by_task_and_wait,
]


def assert_clean() -> None:
    """The task of this handler is as if no other handler had ever run in it."""
    task = trio.lowlevel.current_task()
    assert not task.child_nurseries
    assert not TOUCHED.get()
    assert task not in remembered
    assert trio.current_effective_deadline() == float("inf")


def hide_private_names(monkeypatch) -> None:
    """Let the package find none of trio's private names."""
    for name in ("_INNERMOST", "_NURSERIES", "_CLOSE"):
        monkeypatch.setattr(leftovers, name, "_not_there")
