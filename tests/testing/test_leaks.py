from __future__ import annotations

import os

import pytest
import trio

from rsocket_trio.testing.leaks import all_tasks, assert_no_leaks, open_file_descriptors


async def test_a_block_that_ends_what_it_starts_passes():
    """Tasks and descriptors that have ended are no leak, also if they end shortly afterwards."""
    async with trio.open_nursery() as nursery:
        async with assert_no_leaks():
            read, write = os.pipe()
            nursery.start_soon(trio.lowlevel.checkpoint)
            os.close(read)
            os.close(write)


async def test_a_task_left_behind_is_named():
    """A task still running is an assertion error that has its name."""
    async with trio.open_nursery() as nursery:
        with pytest.raises(AssertionError, match="task forgotten"):
            async with assert_no_leaks():
                nursery.start_soon(trio.sleep_forever, name="forgotten")
        nursery.cancel_scope.cancel()


async def test_a_descriptor_left_behind_is_named():
    """A descriptor still open is an assertion error that names its target."""
    read, write = os.pipe()
    try:
        with pytest.raises(AssertionError, match=r"file descriptor \d+ \(pipe:"):
            async with assert_no_leaks():
                copy = os.dup(read)
        os.close(copy)
    finally:
        os.close(read)
        os.close(write)


async def test_the_error_of_the_block_comes_first():
    """A block that raises is not checked: its own error is more useful."""

    async def leak_and_fail(nursery):
        async with assert_no_leaks():
            nursery.start_soon(trio.sleep_forever)
            raise ZeroDivisionError

    async with trio.open_nursery() as nursery:
        with pytest.raises(ZeroDivisionError):
            await leak_and_fail(nursery)
        nursery.cancel_scope.cancel()


async def test_all_tasks_walks_nurseries_of_children():
    """A task started by a child's nursery is among all tasks."""

    async def child():
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever, name="grandchild")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        await trio.testing.wait_all_tasks_blocked()
        assert "grandchild" in {task.name for task in all_tasks()}
        nursery.cancel_scope.cancel()


def test_outside_a_run_there_are_no_tasks():
    """Outside of a trio run there is no set of tasks."""
    with pytest.raises(RuntimeError):
        all_tasks()


def test_open_descriptors_have_a_target():
    """An open descriptor is listed with its target, a closed one is not."""
    read, write = os.pipe()
    try:
        assert open_file_descriptors()[read].startswith("pipe:")
    finally:
        os.close(read)
        os.close(write)
    assert read not in open_file_descriptors()
