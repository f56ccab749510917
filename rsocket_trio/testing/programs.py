"""Programs beside a test: `started` runs any program and waits until it is ready."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import trio

from ..field_checks import SECONDS, argument
from .serving import running

__all__ = ["Program", "free_port", "started"]

_KEPT: Final = 2**16
_LOOK: Final = 0.05
_PATIENCE: Final = 5.0


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Program:
    """A program that runs.

    Attributes:
        port: The port that it was given.
        uri: ``tcp://127.0.0.1:`` and the port.
        process: The process.
    """

    def __init__(self, process: trio.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.uri = f"tcp://127.0.0.1:{port}"
        self._output = bytearray()
        self._whole = trio.Event()
        self._more = trio.Event()

    @property
    def output(self) -> str:
        """What it has written so far to its standard output and errors, the last 64 KiB."""
        return self._output.decode(errors="replace")

    async def wait_for(self, text: str) -> None:
        """Wait until its output has this text.

        Raises:
            RuntimeError: It has ended without it.

        Checkpoint: if it is not there yet.
        If cancelled: nothing is lost.
        """
        while text not in self.output:
            if self.process.returncode is not None:
                raise RuntimeError(
                    f"the program ended with {self.process.returncode} and has not written {text!r}"
                )
            more = self._more
            with trio.move_on_after(_LOOK):  # it may end, and a child keep its output
                await more.wait()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.receive_some(_KEPT):
            self._output += data
            del self._output[:-_KEPT]
            self._more.set()
            self._more = trio.Event()
        self._whole.set()

    async def _wait_ready(self, text: str | None, within: float) -> None:
        with trio.move_on_after(within):
            await (self._wait_listening() if text is None else self.wait_for(text))
            return
        raise RuntimeError(f"the program was not ready within {within:g} s")

    async def _wait_listening(self) -> None:
        while True:
            if self.process.returncode is not None:
                raise RuntimeError(
                    f"the program ended with {self.process.returncode} and did not listen at"
                    f" {self.port}"
                )
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", self.port)
            except OSError:
                await trio.sleep(_LOOK)
            else:
                await stream.aclose()
                return


@asynccontextmanager
async def started(
    *command: str | os.PathLike[str],
    ready: str | None = None,
    within: float = 30.0,
    environment: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> AsyncIterator[Program]:
    """Run a program for the length of the block.

    ``async with started("node", "server.js", "{port}") as program: ... connect(program.uri)``

    It is ended with all its children: by SIGTERM, and after five seconds by SIGKILL. If the block
    fails, a note of the error has the program's output. Its waits are in real time, so it is not
    for tests with a clock of their own.

    Args:
        command: The program and its arguments. ``{port}`` in one of them is replaced by a free
            port.
        ready: It is ready when this text is in its output; by default when it listens at the port.
        within: For how long it may take until it is ready, in seconds.
        environment: Variables that it gets besides those of this process.
        directory: Where it runs.

    Raises:
        RuntimeError: It has ended before it was ready, or was not ready in time.
        OSError: It cannot be run.

    Checkpoint: while it is not ready, and until it has ended.
    If cancelled: it is ended.
    """
    argument("within", within, SECONDS)
    port = free_port()
    process = await trio.lowlevel.open_process(
        [os.fspath(each).replace("{port}", str(port)) for each in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=None if environment is None else {**os.environ, **environment},
        cwd=directory,
        start_new_session=True,
    )
    program = Program(process, port)
    async with running() as nursery:
        nursery.start_soon(program._read)  # noqa: SLF001 - same module
        try:
            await program._wait_ready(ready, within)  # noqa: SLF001 - same module
            yield program
        except BaseException as error:
            with trio.CancelScope(shield=True):
                await _end(process)
                with trio.move_on_after(_PATIENCE):  # a child of its own session may write on
                    await program._whole.wait()  # noqa: SLF001 - same module
            error.add_note(f"{os.fspath(command[0])} has written:\n{program.output}")
            raise
        finally:
            with trio.CancelScope(shield=True):
                await _end(process)
            nursery.cancel_scope.cancel(reason="the program has ended")


async def _end(process: trio.Process) -> None:
    """End a process and all of its session."""
    _kill(process, signal.SIGTERM)
    with trio.move_on_after(_PATIENCE):
        await process.wait()
    _kill(process, signal.SIGKILL)  # also children that it has left
    await process.wait()


def _kill(process: trio.Process, number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):  # PermissionError: macOS says so of a dead group
        process.poll()
