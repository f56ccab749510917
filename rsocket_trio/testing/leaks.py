"""What was started must have ended: tasks and file descriptors, counted before and after."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import trio
import trio.testing

from .. import os_support

__all__ = ["all_tasks", "assert_no_leaks", "open_file_descriptors"]


def all_tasks() -> set[trio.lowlevel.Task]:
    """Every task of the running trio program, trio's own included."""
    root = trio.lowlevel.current_root_task()
    return set() if root is None else set(_with_children(root))


def _with_children(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _with_children(child)


def open_file_descriptors() -> dict[int, str]:
    """The file descriptors this process has open, and what each refers to.

    Empty where the system has no list of them. In words on Linux, elsewhere by numbers that tell
    one file or socket from another.
    """
    descriptors: dict[int, str] = {}
    directory = os_support.DESCRIPTORS
    if directory is None:
        return descriptors
    for name in os.listdir(directory):
        # The descriptor that the listing itself used is gone again.
        with suppress(OSError):
            descriptors[int(name)] = _target(directory, name)
    return descriptors


def _target(directory: str, name: str) -> str:
    if directory.startswith("/proc"):
        return os.readlink(f"{directory}/{name}")
    status = os.fstat(int(name))
    return f"mode {status.st_mode:o}, device {status.st_dev}, inode {status.st_ino}"


@asynccontextmanager
async def assert_no_leaks() -> AsyncIterator[None]:
    """Hold the block to leave no task and no file descriptor behind.

    After the block, whatever is about to end is given the time to: the count is taken when every
    task waits for something. Tasks and descriptors that others start meanwhile count too, so
    nothing else should be going on. Descriptors are compared by what they refer to, so one that
    was closed and another opened under its number is seen.

    Raises:
        AssertionError: Something is left; the message names each task and descriptor. Not raised
            when the block itself raises: its own exception says more.

    Checkpoint: on leaving.
    If cancelled: the cancellation goes on, and nothing is checked.
    """
    tasks_before = all_tasks()
    descriptors_before = open_file_descriptors()
    yield
    await trio.testing.wait_all_tasks_blocked()
    left = [f"task {task.name}" for task in all_tasks() - tasks_before]
    left += [
        f"file descriptor {number} ({target})"
        for number, target in open_file_descriptors().items()
        if descriptors_before.get(number) != target
    ]
    if left:
        raise AssertionError("left behind: " + ", ".join(sorted(left)))
