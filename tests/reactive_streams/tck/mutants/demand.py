"""Publishers whose request breaks a rule (3.2 to 3.4, 3.8, 3.9, 3.16, 3.17)."""

from __future__ import annotations

from typing import Any

from tests.reactive_streams.tck.mutants.streams import verified
from tests.reactive_streams.tck.mutants.table import Mutant
from tests.reactive_streams.tck.reference import MAX, Link


class DeafInOnSubscribe(Link):
    def add(self, n: int) -> None:
        if not self.running or self.sent:
            super().add(n)


class DeafInOnNext(Link):
    def add(self, n: int) -> None:
        if not self.running or not self.sent:
            super().add(n)


class Recursive(Link):
    def drain(self) -> None:
        if self.sent:
            self.running = False
        super().drain()


class NoBudget(Link):
    def drain(self) -> None:
        if self.running:
            return
        self.running = True
        while not self.over and self.step():
            pass
        self.running = False


class LargestWins(Link):
    def add(self, n: int) -> None:
        self.demand = max(self.demand, n)


class IgnoresZero(Link):
    def request(self, n: int) -> None:
        if n != 0:
            super().request(n)


class IgnoresNegative(Link):
    def check(self, n: Any) -> Exception | None:
        wrong = super().check(n)
        return None if isinstance(wrong, ValueError) and n < 0 else wrong

    def add(self, n: int) -> None:
        if n > 0:
            super().add(n)


class WrongErrorForZero(Link):
    def check(self, n: Any) -> Exception | None:
        return RuntimeError("rule 3.9: n is zero") if n == 0 else super().check(n)


class RaisesForZero(Link):
    def request(self, n: int) -> None:
        if n == 0 and not self.over:
            raise ValueError("rule 3.9: n is zero")
        super().request(n)


class SaysNothing(Link):
    def check(self, n: Any) -> Exception | None:
        wrong = super().check(n)
        return ValueError("illegal argument") if isinstance(wrong, ValueError) else wrong


class RaisesAfterTheEnd(Link):
    ended = False

    def finish(self, error: Exception | None) -> None:
        super().finish(error)
        self.ended = True

    def request(self, n: int) -> None:
        if self.ended:
            raise RuntimeError("the stream is over")
        super().request(n)


class RaisesForFloats(Link):
    def request(self, n: int) -> None:
        if not isinstance(n, int):
            raise TypeError("no integer")
        super().request(n)


class NoMaximum(Link):
    def check(self, n: Any) -> Exception | None:
        if isinstance(n, int) and n >= MAX:
            return OverflowError(f"{n} is too large")
        return super().check(n)


class CutsDemand(Link):
    def add(self, n: int) -> None:
        super().add(min(n, 100))


class Overflows(Link):
    def add(self, n: int) -> None:
        self.demand = 0 if self.demand and self.demand + n >= MAX else min(MAX, self.demand + n)


class TooMuch(Link):
    def add(self, n: int) -> None:
        if self.demand and self.demand + n > MAX:
            self.finish(OverflowError("the demand is too large"))
        super().add(n)


MUTANTS = [
    Mutant(
        name="ignores requests in on_subscribe",
        verification=verified(DeafInOnSubscribe),
        fails={"r3_02_request_from_inside_of_signals"},
        says="rule 3.2: 3 x request(1) in on_subscribe and request(1) in each on_next brought 0",
    ),
    Mutant(
        name="ignores requests in on_next",
        verification=verified(DeafInOnNext),
        fails={"r3_02_request_from_inside_of_signals"},
        says="rule 3.2: 3 x request(1) in on_subscribe and request(1) in each on_next brought 3",
    ),
    Mutant(
        name="on_next inside of on_next",
        verification=verified(Recursive),
        fails={"r3_03_recursion_is_bounded", "r1_03_signals_are_serial"},
        says="on_next",
        why="where no recursion is declared, each is a signal inside of another one",
    ),
    Mutant(
        name="on_next deeper than the declared bound",
        verification=verified(Recursive, recursion_bound=5),
        fails={"r3_03_recursion_is_bounded"},
        says="rule 3.3: on_next ran 50 deep inside of on_next, and the bound is 5",
    ),
    Mutant(
        name="signals all elements in one turn",
        verification=verified(NoBudget),
        unmet={"r3_04_large_demand_starves_nobody"},
        says="rule 3.4: request(2**63 - 1) signalled 5000 elements before it returned",
    ),
    Mutant(
        name="the largest request wins",
        verification=verified(LargestWins),
        fails={"r3_08_demand_adds_up"},
        says="rule 3.8: request(1), then request(2) and request(1): 3 elements",
    ),
    Mutant(
        name="ignores a request of zero",
        verification=verified(IgnoresZero),
        fails={"r3_09_request_of_zero_signals_on_error"},
        says="rule 3.9: request(0) was not answered by on_error",
    ),
    Mutant(
        name="ignores negative requests",
        verification=verified(IgnoresNegative),
        fails={"r3_09_negative_request_signals_on_error"},
        says="rule 3.9: request(-1) was not answered by on_error",
    ),
    Mutant(
        name="the wrong error for zero",
        verification=verified(WrongErrorForZero),
        fails={"r3_09_request_of_zero_signals_on_error"},
        says="rule 3.9: request(0) has to signal a ValueError, not RuntimeError",
    ),
    Mutant(
        name="raises for zero",
        verification=verified(RaisesForZero),
        fails={"r3_09_request_of_zero_signals_on_error", "r3_16_request_returns_normally"},
        says="request(0)",
        why="what is raised to the caller is not signalled",
    ),
    Mutant(
        name="does not say what is wrong with a request",
        verification=verified(SaysNothing),
        unmet={"r3_09_error_says_what_is_wrong"},
        says="rule 3.9: the text of the error, 'illegal argument', does not say",
    ),
    Mutant(
        name="request raises after the end",
        verification=verified(RaisesAfterTheEnd),
        fails={"r3_16_request_returns_normally"},
        says="raised RuntimeError('the stream is over')",
    ),
    Mutant(
        name="request raises for what is no integer",
        verification=verified(RaisesForFloats),
        unmet={"r3_16_request_of_no_integer_is_a_type_error"},
        says="rule 3.16: request(1.5) raised TypeError",
    ),
    Mutant(
        name="cuts demand to 100",
        verification=verified(CutsDemand),
        fails={"r3_17_large_demand_is_not_cut"},
        says="rule 3.17: request(300) brought only 100 elements, and no end",
    ),
    Mutant(
        name="refuses the maximum",
        verification=verified(NoMaximum),
        fails={"r3_17_demand_of_the_maximum"},
        says="rule 3.17: request(9223372036854775807) brought",
    ),
    Mutant(
        name="overflows at the maximum",
        verification=verified(Overflows),
        fails={"r3_17_demand_that_adds_up_to_the_maximum"},
        says="rule 3.17: demand that adds up to 2**63 - 1 brought",
    ),
    Mutant(
        name="an error beyond the maximum",
        verification=verified(TooMuch),
        fails={"r3_17_demand_beyond_the_maximum_is_no_error"},
        says="rule 3.17: demand beyond 2**63 - 1 signalled OverflowError",
    ),
]
