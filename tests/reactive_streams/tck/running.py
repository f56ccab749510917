"""Runs the tests of a verification class in this process, and returns the outcome of each."""

from __future__ import annotations

import attrs
import pytest

from rsocket_trio.reactive_streams.tck.trials import Verification


@attrs.frozen
class Outcomes:
    """What a class came to: name of the test -> text."""

    passed: dict[str, str] = attrs.field(factory=dict)
    failed: dict[str, str] = attrs.field(factory=dict)
    unmet: dict[str, str] = attrs.field(factory=dict)
    skipped: dict[str, str] = attrs.field(factory=dict)

    @property
    def undecided(self) -> dict[str, str]:
        """Those whose subject did not happen."""
        return {name: why for name, why in self.skipped.items() if why.startswith("not decided")}


def names_of(verification: type[Verification]) -> list[str]:
    """All tests of a class."""
    return [name for name in dir(verification) if name.startswith("test_")]


def run(verification: type[Verification], *, only: str = "test_") -> Outcomes:
    """Run all tests of a class, each with an instance of its own, as pytest does."""
    outcomes = Outcomes()
    for name in names_of(verification):
        if name.startswith(only):
            group, text = _run_one(verification, name)
            getattr(outcomes, group)[name] = text
    return outcomes


def _run_one(verification: type[Verification], name: str) -> tuple[str, str]:
    try:
        getattr(verification(), name)()
    except pytest.skip.Exception as skipped:
        return "skipped", str(skipped)
    except pytest.xfail.Exception as unmet:
        return "unmet", str(unmet)
    except Exception as error:  # any kind: a mutant may break anything
        return "failed", f"{type(error).__name__}: {error}"
    return "passed", ""
