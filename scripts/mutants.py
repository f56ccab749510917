"""Mutation testing: check that the tests notice a single fault in the package.

Usage: ``python scripts/mutants.py [--count 40] [--seed 7] [--record FILE] [PATH ...]``

The script picks single changes (scripts/mutations.py) by seed, the same number of each kind. It
runs the tests once without a change, to record which lines each of them reaches. Then it writes
each changed module into a copy of the tree, and runs the tests that reach the change until one
fails: the nearest and quickest first, those that start programs last. A test that fails or hangs is
run again alone, and counts if it fails again: a busy machine catches no fault. A mutant that no
test notices has *survived*. Either a test is missing, or the change has no visible effect. Mutants
of the second kind are listed with their reason in tests/mutants.toml, and are not picked again.

The script never changes the checkout. The exit status is 1 if too few mutants were caught.

There are two well-known tools, mutmut and cosmic-ray. Neither removes statements, ``finally`` or
``except``, the most likely faults in code with cancellation. Neither picks mutants by seed.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

from mutant_runs import Copies, Outcome, Reach, tree_key
from mutations import KINDS, Mutant, mutants

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = "rsocket_trio"
HARMLESS: Final = ROOT / "tests/mutants.toml"

PACKAGES: Final = (
    "connection",
    "interactions",
    "protocol",
    "transports",
    "reactivesocket",
    "routing",
)
"""The packages where mutants are picked by default."""


def candidates(paths: Sequence[str]) -> list[Mutant]:
    """Return all mutants of the modules below ``paths``, except those known to be harmless."""
    files = sorted(
        {file for path in paths for file in _modules(ROOT / path)}, key=lambda file: str(file)
    )
    found = [
        mutant
        for file in files
        for mutant in mutants(str(file.relative_to(ROOT)), file.read_text())
    ]
    known = {(entry["file"], entry["was"], entry["becomes"]) for entry in harmless()}
    return [mutant for mutant in found if (mutant.file, mutant.was, mutant.becomes) not in known]


def _modules(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from path.rglob("*.py")
    else:
        sys.exit(f"mutants.py: there is no file or directory {path}")


def harmless() -> list[dict[str, str]]:
    """Return the mutants without a visible effect, from tests/mutants.toml.

    An entry there names one line that the lines become, or a list of such lines.
    """
    entries = tomllib.loads(HARMLESS.read_text()).get("harmless", [])
    return [
        entry | {"becomes": becomes}
        for entry in entries
        for becomes in (
            [entry["becomes"]] if isinstance(entry["becomes"], str) else entry["becomes"]
        )
    ]


def pick(found: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return ``count`` random mutants, as far as possible the same number of each kind."""
    chance = random.Random(seed)
    by_kind: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in found:
        by_kind[mutant.kind].append(mutant)
    piles = [by_kind[kind] for kind in KINDS if by_kind[kind]]
    for pile in piles:
        chance.shuffle(pile)
    picked: list[Mutant] = []
    while piles and len(picked) < count:
        chance.shuffle(piles)
        picked += [pile.pop() for pile in piles][: count - len(picked)]
        piles = [pile for pile in piles if pile]
    return picked


def difference(mutant: Mutant) -> str:
    """Return the change as a unified diff, with one line of context."""
    lines = difflib.unified_diff(
        (ROOT / mutant.file).read_text().splitlines(),
        mutant.source.splitlines(),
        n=1,
        lineterm="",
    )
    return "\n".join(f"    {line}" for line in list(lines)[2:])


def report(outcomes: Sequence[Outcome], at_least: float) -> bool:
    """Print the outcomes. Return whether enough mutants were caught."""
    survivors = [outcome for outcome in outcomes if outcome.verdict == "survived"]
    for outcome in sorted(survivors, key=lambda one: (one.mutant.file, one.mutant.line)):
        mutant = outcome.mutant
        print(f"\nsurvived: {mutant.file}:{mutant.line} ({mutant.kind})\n{difference(mutant)}")
    print(f"\n{'kind':12} {'tried':>5} {'caught':>6}  (hung)")
    totals, verdicts = Counter[str](), Counter[tuple[str, str]]()
    for outcome in outcomes:
        totals[outcome.mutant.kind] += 1
        verdicts[outcome.mutant.kind, outcome.verdict] += 1
    for kind in KINDS:
        if totals[kind]:
            hung = verdicts[kind, "hung"]
            caught = verdicts[kind, "caught"] + hung
            print(f"{kind:12} {totals[kind]:5} {caught:6}  ({hung})")
    percent = 100 * (len(outcomes) - len(survivors)) / max(len(outcomes), 1)
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} were caught: {percent:.1f} %")
    return percent >= at_least


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="packages or modules to change")
    parser.add_argument("--count", type=int, default=40, help="number of mutants (default: 40)")
    parser.add_argument("--seed", type=int, help="seed that picks the mutants (default: random)")
    parser.add_argument("--kinds", help=f"only these kinds, with commas: {', '.join(KINDS)}")
    parser.add_argument("--match", default="", help="only lines that contain this text")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of concurrent runs"
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="keep what the tests reach in this file, or read it there instead of running them",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, run no tests")
    parser.add_argument(
        "--at-least",
        type=float,
        default=97.0,
        metavar="PERCENT",
        help="caught mutants needed for exit status 0 (default: 97)",
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    paths = options.paths or [f"{PACKAGE}/{name}" for name in PACKAGES]
    found = candidates(paths)
    if options.kinds:
        found = [mutant for mutant in found if mutant.kind in options.kinds.split(",")]
    found = [mutant for mutant in found if options.match in mutant.was]
    picked = pick(found, options.count, seed)
    print(f"seed {seed}: {len(picked)} of {len(found)} mutants", flush=True)
    if options.list:
        for mutant in picked:
            print(f"{mutant.file}:{mutant.line} ({mutant.kind})\n{difference(mutant)}")
        return 0
    # Of all that may be picked: a record that is kept is of use for other seeds.
    packages = sorted({Path(mutant.file).parts[1] for mutant in found})
    key, kept = tree_key(packages), options.record
    reach = Reach.load(kept, key) if kept and kept.exists() else None
    outcomes = []
    with Copies(packages, options.jobs) as copies:
        if reach is None:
            reach = copies.record()
            if kept:
                reach.save(kept, key)
        for test in sorted(reach.failed):
            print(f"fails without a change, so it does not count: {test}", flush=True)
        for outcome in copies.judge(picked, reach):
            outcomes.append(outcome)
            where = f"{outcome.mutant.file}:{outcome.mutant.line}"
            print(
                f"{outcome.verdict:8} {outcome.seconds:6.1f} s  {where} ({outcome.mutant.kind})"
                f"  {outcome.by}",
                flush=True,
            )
    return 0 if report(outcomes, options.at_least) else 1


if __name__ == "__main__":
    sys.exit(main())
