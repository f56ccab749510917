"""Server and client of this package keep all rules of rsio/0."""

from __future__ import annotations

import attrs
import pytest
import trio

from rsocket_trio import ConnectFailed, ConnectionClosed, rsio
from rsocket_trio.testing.rsio_conformance import RULES, run_rule
from rsocket_trio.testing.rsio_peer import Fixtures
from tests.rsio.conformance.subjects import InProcess, contexts, real_time, trial_of


@attrs.define
class Library(InProcess):
    """The package under test."""

    fixtures: Fixtures = attrs.field(factory=Fixtures)

    async def serve(self, stream):
        if self.role == "server":
            await rsio.serve_stream(self.fixtures, stream, extensions=(rsio.Compression(),))
            return
        try:
            async with rsio.connect(stream, publish=self.fixtures) as connection:
                await connection.wait_closed()
        except (ConnectFailed, ConnectionClosed):
            pass


@pytest.mark.parametrize(
    ("role", "rule"),
    [(role, rule) for rule in RULES.values() for role in rule.roles],
    ids=[f"{rule.id}-{role}" for rule in RULES.values() for role in rule.roles],
)
async def test_the_rule_is_kept(role, rule, autojump_clock):
    """Over a pair of sockets; the check itself is tested with a peer that breaks the rule."""
    real_time(autojump_clock, rule)
    async with trio.open_nursery() as nursery:
        tls = contexts() if "TLS" in rule.needs else ()
        result = await run_rule(rule, trial_of(Library(nursery, role, "", *tls)))
        nursery.cancel_scope.cancel()
    assert result.verdict == "passed", result.reason
