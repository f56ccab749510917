"""A peer's program as a subprocess that ends with its test.

It is killed when the test is over. If the test runner itself is killed, the program sees the end of
its stdin and ends by itself.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.programs import ends_with_stdin, environment
from tests.waiting import PATIENCE

from .installed import JAVA

__all__ = [
    "LONGEST",
    "QUICK_JAVA",
    "Lines",
    "Peer",
    "ends_with_stdin",
    "java",
    "running",
    "tail_of",
]

LONGEST = PATIENCE
"""Seconds that a peer's program may run: one that does not answer fails its test."""


QUICK_JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java with options for a quick start: the programs run for a few seconds at most."""


def java(program: str, *arguments: str) -> list[str]:
    """Return the command that runs a program of ``java/``."""
    return [
        *QUICK_JAVA,
        f"-XX:SharedArchiveFile={JAVA / 'peer.jsa'}",
        # If there is no archive of classes it starts slowly, and must not say so on stdout.
        "-Xlog:disable",
        "-cp",
        str(JAVA / "peer.jar"),
        f"peer.{program}",
        *arguments,
    ]


class Lines:
    """The lines of a stream."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._received = b""

    async def next(self) -> str | None:
        """Return the next line, or ``None`` at the end of the stream."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            chunk = await self._stream.receive_some()
            if not chunk:
                return None
            self._received += chunk
        line, self._received = self._received[:end], self._received[end + 1 :]
        return line.decode()


class Peer:
    """A peer's program, running."""

    def __init__(self, process: trio.Process, errors: Path) -> None:
        assert process.stdout is not None
        self._process = process
        self._errors = errors
        self._lines = Lines(process.stdout)

    async def line(self) -> str:
        """Return the next line it prints; EOFError with its stderr when it has ended."""
        line = await self._lines.next()
        if line is None:
            raise EOFError("the peer has ended:\n" + self.errors())
        return line

    async def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")

    def errors(self) -> str:
        """Return what it has written to stderr."""
        return self._errors.read_text()

    async def kill(self) -> None:
        """Kill it, as a crash would: the system closes its sockets."""
        self._process.kill()
        await self._process.wait()


def tail_of(file: Path) -> str:
    return file.read_text(errors="replace")[-4000:]


@asynccontextmanager
async def running(argv: Sequence[str]) -> AsyncIterator[Peer]:
    """A peer's program that runs for the length of the block."""
    with tempfile.TemporaryDirectory() as directory:
        errors = Path(directory) / "stderr"
        with errors.open("wb") as stderr:
            process = await trio.lowlevel.open_process(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(),
            )
        try:
            with trio.fail_after(LONGEST):
                yield Peer(process, errors)
        except BaseException as error:
            error.add_note(f"the end of what {argv[0]} said on stderr:\n{tail_of(errors)}")
            raise
        finally:
            process.kill()
            # A killed program ends at once; the deadline is for a machine where it does not.
            with trio.move_on_after(5, shield=True):
                await process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        await pipe.aclose()
