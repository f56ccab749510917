"""Run the processes of the demo. A process never outlives the block that started it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import IO

import trio


class Failed(Exception):
    """A part of the demo failed. The text is for the user."""


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


@asynccontextmanager
async def running(name: str, command: list[str], *, status: int = 0) -> AsyncIterator[trio.Process]:
    """Run a process during the block, and stop it with SIGTERM. It must end with ``status``."""
    with TemporaryFile() as errors:  # not a pipe, which would need a reader
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            yield process
            process.terminate()  # servers finish what they do, and exit with 0
            await process.wait()
        except Failed as failed:
            if process.poll() not in {None, status}:  # the end of the process is the reason
                raise Failed(f"the {name} ended: {last_line(errors)}") from failed
            raise
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        if process.returncode != status:
            text = f"the {name} stopped with status {process.returncode}: {last_line(errors)}"
            raise Failed(text)


async def addresses(name: str, process: trio.Process, count: int = 1) -> list[str]:
    """Return the addresses that a server prints when it accepts connections."""
    assert process.stdout is not None
    printed = b""
    while printed.count(b"\n") < count:
        some = await process.stdout.receive_some()
        if not some:
            await process.wait()
            raise Failed(f"the {name} did not start")
        printed += some
    return [line.removeprefix("listening on ") for line in printed.decode().splitlines()]


def last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it printed no reason")
