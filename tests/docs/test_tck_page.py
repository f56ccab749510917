"""The page that compares the conformance kit with that of the JVM names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.reactive_streams.tck.test_mutants import MUTANTS, OWN_TESTS, marks

PAGE = Path(__file__).parents[2] / "docs/howto/tck-compared.md"
ROW = re.compile(
    r"(?m)^\| (?:`(?P<theirs>\w+)` \| )?`(?P<ours>(?:r\d|setup)_?\w+)` \| (?P<mutant>.*?) \|$"
)


def test_each_row_names_a_test_and_a_mutant_that_it_notices():
    """Both kits side by side: a row that names what is not there would promise too much."""
    mutants = {mutant.name: mutant.fails | mutant.unmet for mutant in MUTANTS}
    own = {name.partition(".test_")[2]: test for name, test in OWN_TESTS.items()}
    rows = [*ROW.finditer(PAGE.read_text())]
    assert {row["ours"] for row in rows} == own.keys()
    assert len({row["theirs"] for row in rows if row["theirs"]}) == 67
    for row in rows:
        if row["mutant"]:
            assert row["ours"] in mutants[row["mutant"]], row[0]
        else:
            assert marks(own[row["ours"]])["rs_rule"][0] in {"2.2", "2.7", "2.11", "3.1", "3.14"}
