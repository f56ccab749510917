"""Publishers whose cancel breaks a rule (3.5 to 3.7, 3.12, 3.13, 3.15)."""

from __future__ import annotations

import weakref
from typing import Any

from tests.reactive_streams.tck.mutants.streams import verified
from tests.reactive_streams.tck.mutants.table import Mutant
from tests.reactive_streams.tck.reference import Link


class RunsToTheEnd(Link):
    def cancel(self) -> None:
        while not self.over and self.look():
            self.ahead.clear()
        super().cancel()


class Remembers(Link):
    cancelled: Any = None

    def cancel(self) -> None:
        if self.subscriber is not None:
            self.cancelled = weakref.ref(self.subscriber)
        super().cancel()

    def hostile(self, error: Exception) -> None:
        Link.cancel(self)


class GoesOnByRequest(Remembers):
    def request(self, n: int) -> None:
        if self.cancelled is not None and n > 0:
            self.over = False
            self.subscriber = self.cancelled()
        super().request(n)


class ChecksAfterCancel(Remembers):
    def request(self, n: int) -> None:
        if self.cancelled is not None and n <= 0:
            self.cancelled().on_error(ValueError("3.9"))
        super().request(n)


class RaisesSecondTime(Remembers):
    def cancel(self) -> None:
        if self.cancelled is not None:
            raise RuntimeError("it is cancelled already")
        super().cancel()


class CompletesSecondTime(Remembers):
    def cancel(self) -> None:
        if self.cancelled is not None:
            self.cancelled().on_complete()
        super().cancel()


class DeafWhileRunning(Link):
    def cancel(self) -> None:
        if not self.running or not self.sent:
            super().cancel()

    def hostile(self, error: Exception) -> None:
        super().cancel()


class DeafInOnSubscribe(Link):
    def cancel(self) -> None:
        if not self.running or self.sent:
            super().cancel()

    def hostile(self, error: Exception) -> None:
        super().cancel()


class OneElementLate(Link):
    """A cancel from inside of on_next stops it after the next element."""

    late = -1

    def cancel(self) -> None:
        if self.running and self.sent and self.late < 0:
            self.late = 1
        elif self.late < 0:
            super().cancel()

    def step(self) -> bool:
        if self.late == 0 or (self.late > 0 and not self.ahead and not self.look()):
            self.late = -1
            super().cancel()
            return False
        self.late -= self.late > 0
        return super().step()

    def hostile(self, error: Exception) -> None:
        super().cancel()


class KeepsAfterCancel(Link):
    def cancel(self) -> None:
        self.over = True


class RaisesBeforeRequest(Link):
    asked = False

    def request(self, n: int) -> None:
        self.asked = True
        super().request(n)

    def cancel(self) -> None:
        first = not self.over and not self.asked
        super().cancel()
        if first:
            raise AttributeError("there is no feeder")

    def hostile(self, error: Exception) -> None:
        super().cancel()


MUTANTS = [
    Mutant(
        name="cancel runs through the stream",
        verification=verified(RunsToTheEnd),
        unmet={"r3_05_cancel_is_quick"},
        says="rule 3.5: cancel() called",
    ),
    Mutant(
        name="goes on if requested after cancel",
        verification=verified(GoesOnByRequest),
        fails={"r3_06_request_after_cancel_has_no_effect"},
        says="rule 3.6: request(1) after cancel() was answered by ['on_next']",
    ),
    Mutant(
        name="checks requests after cancel",
        verification=verified(ChecksAfterCancel),
        fails={"r3_06_request_after_cancel_has_no_effect"},
        says="rule 3.6: request(0) after cancel() was answered by ['on_error']",
    ),
    Mutant(
        name="a second cancel raises",
        verification=verified(RaisesSecondTime),
        fails={"r3_07_cancel_again_has_no_effect"},
        says="rule 3.7: the second cancel() raised RuntimeError",
    ),
    Mutant(
        name="a second cancel completes",
        verification=verified(CompletesSecondTime),
        fails={"r3_07_cancel_again_has_no_effect"},
        says="rule 3.7: the second cancel() was answered by ['on_complete']",
    ),
    Mutant(
        name="ignores a cancel in on_next",
        verification=verified(DeafWhileRunning),
        fails={"r3_12_cancel_stops_the_signals"},
        unmet={
            "r3_12_no_element_once_cancel_has_returned",
            "r1_08_nothing_once_cancel_has_returned",
        },
        says="after cancel()",
        why="who does not stop at all does not stop at once either",
    ),
    Mutant(
        name="ignores a cancel in on_subscribe",
        verification=verified(DeafInOnSubscribe),
        fails={"r3_12_cancel_in_on_subscribe_stops_the_signals"},
        unmet={"r3_12_no_end_after_cancel_in_on_subscribe"},
        says="rule 3.12: after cancel() in on_subscribe",
        why="who does not stop at all does not leave the end out either",
    ),
    Mutant(
        name="one element after cancel",
        verification=verified(OneElementLate),
        unmet={"r3_12_no_element_once_cancel_has_returned"},
        says="rule 3.12: after cancel() had returned it signalled 1 elements",
    ),
    Mutant(
        name="keeps the subscriber after cancel",
        verification=verified(KeepsAfterCancel),
        fails={"r3_13_cancel_drops_the_subscriber"},
        says="rule 3.13: after cancel() the subscriber is still referenced",
    ),
    Mutant(
        name="cancel raises before the first request",
        verification=verified(RaisesBeforeRequest),
        fails={"r3_15_cancel_returns_normally"},
        says="rule 3.15: cancel() raised AttributeError",
    ),
]
