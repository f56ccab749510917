"""Find tasks and file descriptors that a block of code leaves behind."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import trio
import trio.testing

from .. import os_support

__all__ = ["all_tasks", "assert_no_leaks", "open_file_descriptors"]


def all_tasks() -> set[trio.lowlevel.Task]:
    """Return all tasks of the running trio program, including those of trio itself."""
    root = trio.lowlevel.current_root_task()
    return set() if root is None else set(_with_children(root))


def _with_children(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _with_children(child)


def open_file_descriptors() -> dict[int, str]:
    """Return the open file descriptors of this process, and the file that each refers to.

    The result is empty on systems that do not list descriptors. On Linux a file is given by its
    name, elsewhere by numbers that identify it.
    """
    descriptors: dict[int, str] = {}
    directory = os_support.DESCRIPTORS
    if directory is None:
        return descriptors
    for name in os.listdir(directory):
        # The descriptor that listdir itself used is closed now.
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
    """Check that the block leaves no task and no file descriptor behind.

    The check runs when every task waits, so tasks that are about to end have time for it. It also
    counts tasks and descriptors that other code opens, so no other code should run meanwhile.
    Descriptors are compared by their files, so a new file under a reused number is found.

    Raises:
        AssertionError: Tasks or descriptors are left; the message names each of them. If the
            block itself raises, its exception is raised instead.

    Checkpoint: on leaving.
    If cancelled: nothing is checked.
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
