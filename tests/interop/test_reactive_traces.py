"""Our `from_iterable` signals what the publishers of the JVM's reactive-streams-examples signal.

Each pattern is a number of elements, and what a subscriber calls: in on_subscribe, in each on_next,
and from outside, one after the other. Both sides write down all calls and signals in order.
"""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from rsocket_trio.reactive_streams import from_iterable

PUBLISHERS = ["AsyncIterablePublisher", "NumberIterablePublisher", "RangePublisher"]
MAX = 2**63 - 1
WRITTEN = [
    # elements, in on_subscribe, in each on_next, then
    (0, [], [], []),
    (0, ["1"], [], ["1", "cancel"]),
    (1, [], [], ["1"]),
    (3, [], [], ["1", "1", "1", "1"]),
    (3, [], [], ["10"]),
    (3, ["1"], ["1"], []),
    (3, ["2", "2"], [], []),
    (5, [], [], ["2", "cancel", "2", "cancel"]),
    (5, ["cancel"], [], ["1", "0"]),
    (5, ["5"], ["cancel"], ["1"]),
    (5, [], ["0"], ["3"]),
    (5, [], [], ["0", "1"]),
    (5, [], [], ["-1"]),
    (5, ["-9223372036854775808"], [], ["1"]),
    (5, ["0"], [], []),
    (5, [], [], ["2", "0", "1"]),
    (5, [], [], [str(MAX)]),
    (5, [], [str(MAX - 1)], ["1"]),
    (5, [str(MAX // 2), str(MAX // 2), "1"], [], []),
    (100, ["1"], ["1"], []),
    (100, [], ["1", "1"], ["1", "7"]),
]


def at_random(dice: random.Random) -> tuple[int, list[str], list[str], list[str]]:
    """A pattern: mostly legal requests, now and then something else."""

    def steps(most: int) -> list[str]:
        words = ["1", "1", "2", "3", "5", "8", "cancel", "0", "-3", str(MAX)]
        weights = [9, 9, 9, 5, 3, 2, 2, 1, 1, 1]
        return dice.choices(words, weights, k=dice.randrange(most + 1))

    return dice.randrange(12), steps(2), steps(1), steps(8)


PATTERNS = [*WRITTEN, *(at_random(random.Random(seed)) for seed in range(400))]
CASES = [
    {
        "publisher": publisher,
        "elements": elements,
        "inSubscribe": in_subscribe,
        "inNext": in_next,
        "steps": steps,
    }
    for publisher in PUBLISHERS
    for elements, in_subscribe, in_next, steps in PATTERNS
]


class Recorder:
    """Does what the pattern says, and writes down all calls and signals."""

    def __init__(self, case) -> None:
        self.case = case
        self.trace = []
        self.subscription = None

    def perform(self, steps) -> None:
        for step in steps:
            if step == "cancel":
                self.trace.append("cancel()")
                self.subscription.cancel()
            else:
                self.trace.append(f"request({step})")
                self.subscription.request(int(step))

    def on_subscribe(self, subscription) -> None:
        self.subscription = subscription
        self.trace.append("on_subscribe")
        self.perform(self.case["inSubscribe"])

    def on_next(self, element) -> None:
        self.trace.append(f"on_next {element}")
        self.perform(self.case["inNext"])

    def on_error(self, error) -> None:
        self.trace.append(f"on_error {type(error).__name__}")

    def on_complete(self) -> None:
        self.trace.append("on_complete")


def ours(case) -> list[str]:
    recorder = Recorder(case)
    from_iterable(range(case["elements"])).subscribe(recorder)
    recorder.perform(case["steps"])
    return recorder.trace


@pytest.fixture(scope="module")
def theirs(harness):
    """The traces of the JVM, of all cases in one run of a program."""
    harness.require("reactive-streams-examples")
    done = subprocess.run(
        harness.java("Traces"),
        input="".join(json.dumps(case) + "\n" for case in CASES),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [
        json.loads(line.replace("IllegalArgumentException", "ValueError"))
        for line in done.stdout.splitlines()
    ]


def is_illegal(step: str) -> bool:
    return step != "cancel" and int(step) < 1


def is_free(case) -> bool:
    """Return whether the two may differ, and do.

    From inside of a signal, an illegal request takes effect with them after the elements that were
    requested before, and where calls are put into a queue so does cancel: "eventually" (rule 3.12).
    Ours stops at once. RangePublisher signals from inside of on_subscribe (rule 3.10), completes an
    empty stream with the first request, and breaks rule 3.6: it answers an illegal request after
    cancel.
    """
    if case["publisher"] == "RangePublisher":
        cancelled = case["steps"].index("cancel") if "cancel" in case["steps"] else None
        after_cancel = [] if cancelled is None else case["steps"][cancelled:]
        illegal = any(map(is_illegal, case["inNext"] + after_cancel))
        return bool(case["inSubscribe"]) or not case["elements"] or illegal
    return any(
        step == "cancel" or is_illegal(step) for step in case["inSubscribe"] + case["inNext"]
    )


def elements_of(trace) -> list[str]:
    return [entry for entry in trace if entry.startswith("on_next")]


@pytest.mark.interop
@pytest.mark.parametrize("publisher", PUBLISHERS)
async def test_same_signals_in_the_same_order(theirs, publisher):
    """For each pattern of requests, all signals come at the same places."""
    compared = [
        (case, ours(case), trace)
        for case, trace in zip(CASES, theirs, strict=True)
        if case["publisher"] == publisher and not is_free(case)
    ]
    assert len(compared) > 100
    different = [(case, mine, trace) for case, mine, trace in compared if mine != trace]
    assert not different, (len(different), different[:5])


@pytest.mark.interop
async def test_where_the_rules_leave_a_choice_ours_stops_no_later(theirs):
    """There the elements are the same, up to where ours stops."""
    free = [pair for pair in zip(CASES, theirs, strict=True) if is_free(pair[0])]
    assert len(free) > 130
    for case, trace in free:
        mine, wanted = elements_of(ours(case)), elements_of(trace)
        assert mine == wanted[: len(mine)], case
        if "cancel" not in case["inSubscribe"] + case["inNext"] and "on_complete" in trace:
            assert len(mine) == len(wanted) or "on_error ValueError" in ours(case), case


async def test_the_patterns_differ():
    """They reach each end of a stream, in many ways."""
    traces = {tuple(ours(case)) for case in CASES}
    assert len(traces) > 130
    ends = {trace[-1].split()[0] for trace in traces} | {s for t in traces for s in t}
    assert {"on_complete", "on_error ValueError", "cancel()"} <= ends
