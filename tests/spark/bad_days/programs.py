"""Programs of a test: they run in sessions of their own, and end with the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.programs import ends_with_stdin, environment
from tests.time_limit import LONGEST

from .process_table import members

Answer = TypeVar("Answer")

PATIENCE = 0.6 * LONGEST
"""Seconds for anything that a test waits for, with a clear message of what did not happen."""

_PAUSE = 0.02


class NotHappened(AssertionError):
    """A test has waited for something that did not happen."""


def until(
    condition: Callable[[], Answer],
    what: str,
    *,
    seconds: float = PATIENCE,
    details: Callable[[], object] = lambda: "",
) -> Answer:
    """Wait until a condition is true, and return what it has returned.

    Raises:
        NotHappened: It was not in time; the message has ``what``, and the details.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotHappened(f"not within {seconds:g} s: {what}\n{details()}")
        time.sleep(_PAUSE)


class Program:
    """A program in a session of its own.

    Its standard output comes as lines, and its standard error goes to a file. It ends with the
    process of the test, because it notices the end of its standard input.

    Args:
        name: What messages call it.
        argv: Its command.
        directory: For the file with its standard error.
        listens: Whether it reads standard input itself.
        environ: Changes to its environment.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        directory: Path,
        *,
        listens: bool = False,
        environ: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.errors_file = directory / f"{name}-{time.monotonic_ns()}.stderr"
        self._lines: list[str] = []
        self._taken = 0
        self._over = False
        self._news = threading.Condition()
        with self.errors_file.open("wb") as errors:
            self.process = subprocess.Popen(
                argv if listens else ends_with_stdin(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(**(environ or {})),
                start_new_session=True,
            )
        self.session = self.process.pid
        self._reader = threading.Thread(target=self._read, name=f"lines of {name}", daemon=True)
        self._reader.start()

    @property
    def errors(self) -> str:
        """What it has written to its standard error."""
        return self.errors_file.read_text(errors="replace")

    def lines(self) -> list[str]:
        """All lines that it has printed."""
        with self._news:
            return list(self._lines)

    def line(self, what: str, *, seconds: float = PATIENCE) -> str:
        """Return the next line that it prints."""
        deadline = time.monotonic() + seconds
        with self._news:
            while len(self._lines) == self._taken:
                if self._over:
                    raise NotHappened(f"{self.name} has ended, without {what}:\n{self._tail()}")
                if not self._news.wait(deadline - time.monotonic()):
                    raise NotHappened(
                        f"not within {seconds:g} s: {self.name} prints {what}\n{self._tail()}"
                    )
            self._taken += 1
            return self._lines[self._taken - 1]

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill this process, and no other one of its session."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Stop it, like a machine that is too busy."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self, *, seconds: float = PATIENCE) -> int:
        """Ask it to end, and return its exit status."""
        self.process.terminate()
        return self.ended(seconds=seconds)

    def ended(self, *, seconds: float = PATIENCE) -> int:
        """Wait until it has ended by itself, and return its exit status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NotHappened(
                f"not within {seconds:g} s: {self.name} ends\n{self._tail()}"
            ) from None

    def alive(self) -> list[int]:
        """The processes of its session that have not ended."""
        return [each.pid for each in members(self.session)]

    def close(self) -> None:
        """End all processes of its session."""
        assert self.process.stdin is not None
        self._kill_all()
        self.process.wait()
        # A process that was forking when it was killed may have a child by now.
        until(self._kill_all, f"all processes of {self.name} end", seconds=10)
        self.process.stdin.close()
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _kill_all(self) -> bool:
        alive = self.alive()
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not alive

    def _tail(self) -> str:
        return "\n".join([*self._lines[-10:], "--- standard error:", self.errors[-4000:]])

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self._lines.append(line.decode(errors="replace").rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._over = True
            self._news.notify_all()


def rsocket_trio(*arguments: str) -> list[str]:
    """The command line of this package."""
    return [sys.executable, "-m", "rsocket_trio", *arguments]
