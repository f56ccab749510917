"""The checks accept a peer that keeps all rules, and notice each fault of one that does not."""

from __future__ import annotations

import inspect
import re

import pytest
import trio

from rsocket_trio.testing.rsio_conformance import RULES, run_rule
from tests.rsio.conformance import reference, subjects
from tests.rsio.conformance.mutants import CLIENT_ONLY, FAULTS
from tests.rsio.conformance.subjects import InProcess, contexts, real_time, trial_of


@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
async def test_a_correct_peer_passes(rule, role, autojump_clock):
    """Each rule that concerns its role."""
    real_time(autojump_clock, rule)
    async with trio.open_nursery() as nursery:
        tls = contexts() if "TLS" in rule.needs else ()
        result = await run_rule(rule, trial_of(InProcess(nursery, role, "", *tls)))
        nursery.cancel_scope.cancel()
    if role in rule.roles:
        assert result.verdict == "passed", result.reason
    else:
        assert result.verdict == "skipped"


def test_each_rule_has_faults():
    """No check is without something that it notices, and each fault is in the reference."""
    assert list(FAULTS) == list(RULES)
    source = inspect.getsource(reference) + inspect.getsource(subjects)
    faults = {fault for each in FAULTS.values() for fault in each}
    assert not [fault for fault in faults if f'"{fault}"' not in source]
    assert set(re.findall(r'wrong\("([^"]+)"\)', source)) <= faults


@pytest.mark.parametrize(
    ("rule", "fault"), [(rule, fault) for rule, faults in FAULTS.items() for fault in faults]
)
async def test_a_fault_is_noticed(rule, fault, autojump_clock):
    """The check of the rule fails, and says why."""
    role = "client" if rule in CLIENT_ONLY else "server"
    real_time(autojump_clock, RULES[rule])
    async with trio.open_nursery() as nursery:
        subject = InProcess(nursery, role, fault, *(contexts() if rule == "RSIO-12" else ()))
        result = await run_rule(RULES[rule], trial_of(subject))
        nursery.cancel_scope.cancel()
    assert result.verdict == "failed"
    assert len(result.reason) > 20
