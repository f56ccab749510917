"""Run rules against an implementation, one after the other: `run_rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, TypeAlias

import attrs
import trio

from .rule import Rule
from .trial import Subject, Trial
from .verdicts import Failed, Skipped

__all__ = ["Result", "Verdict", "run_rule", "run_rules"]

Verdict: TypeAlias = Literal["passed", "failed", "skipped"]


@attrs.frozen
class Result:
    """How one rule went.

    Attributes:
        rule: The rule.
        verdict: "passed", "failed" or "skipped".
        reason: Why it failed, with the last octets of the connection; or why it was skipped.
        seconds: How long it took.
    """

    rule: Rule
    verdict: Verdict
    reason: str
    seconds: float


async def run_rule(rule: Rule, trial: Trial) -> Result:
    """Run one rule.

    Checkpoint: always.
    If cancelled: its connections are closed.
    """
    start = trio.current_time()
    verdict: Verdict = "passed"
    reason = ""
    if trial.subject.role not in rule.roles:
        verdict, reason = "skipped", f"it is a rule for the {rule.roles[0]}"
    else:
        try:
            await rule.check(trial)
        except Skipped as skipped:
            verdict, reason = "skipped", str(skipped)
        except Failed as failed:
            verdict = "failed"
            reason = "; ".join(filter(None, [str(failed), trial.transcript]))
    await trio.lowlevel.checkpoint()
    return Result(rule, verdict, reason, trio.current_time() - start)


async def run_rules(
    rules: Iterable[Rule],
    subject: Subject,
    report: Callable[[Result], None],
    *,
    make_trial: Callable[[Subject], Trial] = Trial,
) -> list[Result]:
    """Run rules in their order.

    Those that wait for a deadline of a server run beside the others, and are reported last. A
    client has one connection at a time, so its rules do not.

    Args:
        rules: The rules.
        subject: The implementation.
        report: Called with each result as soon as it is there.
        make_trial: Makes the trial of each rule, to give it other limits.

    Returns:
        The results, in the order in which they were reported.

    Checkpoint: always.
    If cancelled: the rest is not run.
    """
    results: list[Result] = []

    async def run(rule: Rule) -> None:
        result = await run_rule(rule, make_trial(subject))
        results.append(result)
        report(result)

    await trio.lowlevel.checkpoint()  # also if there is no rule
    chosen = list(rules)
    aside = [rule for rule in chosen if rule.slow and subject.role == "server"]
    async with trio.open_nursery() as nursery:
        for rule in aside:
            nursery.start_soon(partial(run, rule))
        for rule in chosen:
            if rule not in aside:
                await run(rule)
    return results
