"""The page of the protocol and the checks have the same rules."""

from __future__ import annotations

import re
from pathlib import Path

from rsocket_trio.testing.rsio_conformance import RULES

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| (RSIO-\d\d|B\d\d) \| (.)", re.MULTILINE)


def test_the_page_lists_the_rules_of_the_checks():
    """The same ids, in the same order, once; and the same sources of the rules of the draft."""
    rows = ROW.findall((DOCS / "rsio.md").read_text(encoding="utf-8"))
    assert [name for name, _ in rows] == list(RULES)
    draft = {name: source for name, source in rows if name.startswith("RSIO")}
    assert draft == {name: rule.source for name, rule in RULES.items() if name in draft}


def test_the_fixtures_have_their_line_in_the_howto():
    """Each fixture that a rule needs is described for those who write one."""
    page = (DOCS / "howto" / "rsio-conformance.md").read_text(encoding="utf-8")
    needed = {need for rule in RULES.values() for need in rule.needs} - {"TLS", "pid"}
    assert len(needed) > 10
    assert not [need for need in needed if f"`{need}" not in page]
