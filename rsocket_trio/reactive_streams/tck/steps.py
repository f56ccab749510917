"""`StepLimit`: fails a test in which one call never comes back, so that other tests are run.

A publisher that counts to the demand in a loop comes back from ``request(2**63 - 1)`` in some
hundred years. Virtual time is no help, as nothing else runs. So a timer of the operating system
looks at it: it counts the processor time of this process alone, so a slow machine, a debugger or a
program that waits does not set it off, and it is not the one that plugins with time limits use.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Final

import trio

from .verdicts import Violation

__all__ = ["StepLimit", "watched"]

_WATCHED: Final[dict[CodeType, str]] = {}


def watched(code: CodeType, name: str) -> None:
    """Have the text name a call of the kit into what is verified.

    Args:
        code: The function that makes it.
        name: Its local variable with the name of the call.
    """
    _WATCHED[code] = name


class _Stuck(BaseException):
    """Ends the step. It is no `Exception`, as publishers may well catch those of subscribers."""


class StepLimit(trio.abc.Instrument):
    """Limits the processor time of one step of a task, in which no other task runs.

    It works in the main thread, where the system has the timer (not on Windows). A loop in a
    function written in C goes on.

    Args:
        seconds: The processor time. A step has up to twice as much.

    Attributes:
        violation: What was found.
    """

    def __init__(self, seconds: float) -> None:
        self.violation: Violation | None = None
        self._seconds = seconds
        self._steps = 0
        self._seen = -1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count it: this is called by trio."""
        self._steps += 1

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the run of trio in this block; then raise `violation`, if there is one.

        Raises:
            Violation: A step took longer.
        """
        if threading.current_thread() is not threading.main_thread() or not hasattr(
            signal, "setitimer"
        ):
            yield
            return
        handler = signal.signal(signal.SIGVTALRM, self._ring)
        timer = signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds, self._seconds)
        try:
            yield
        except BaseException:  # raised again, unless it is ours, which may be in a group
            if self.violation is None:
                raise
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, *timer)
            signal.signal(signal.SIGVTALRM, handler)
        if self.violation is not None:
            raise self.violation

    def _ring(self, _number: int, frame: FrameType | None) -> None:
        if self._steps != self._seen:
            self._seen = self._steps
            return
        call, place = "a task", "" if frame is None else _place(frame)
        while frame is not None:
            if (name := _WATCHED.get(frame.f_code)) is not None:
                call = str(frame.f_locals[name])
                break
            frame = frame.f_back
        self.violation = Violation(
            _rule(call),
            f"{call} does not come back: it has run for {self._seconds:g} s of processor time, "
            f"and no other task could{place}",
        )
        raise _Stuck


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"; at last it was in {code.co_qualname}, {code.co_filename}:{frame.f_lineno}"


def _rule(call: str) -> str:
    if call.startswith("subscribe"):
        return "1.9"
    if call.startswith("cancel"):
        return "3.5"
    if call.startswith("on_"):
        return "2.2"
    # A demand that no loop can count to is a matter of the demand that has to be supported.
    digits = call.removeprefix("request(").removesuffix(")")
    return "3.17" if digits.isdecimal() and int(digits) >= 2**31 else "3.4"
