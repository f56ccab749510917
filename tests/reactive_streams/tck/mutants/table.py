"""A row for each mutant: what was changed, which tests have to notice, and what they say."""

from __future__ import annotations

import attrs

from rsocket_trio.reactive_streams.tck.trials import Verification


@attrs.frozen(kw_only=True)
class Mutant:
    """Something wrong.

    Attributes:
        name: What is wrong.
        verification: The class that verifies it.
        fails: Exactly those required tests that fail, without ``test_``.
        unmet: Exactly those optional tests that are not met, without ``test_``.
        says: A part of the text of each of them.
        why: Why there is more than one.
    """

    name: str
    verification: type[Verification]
    fails: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    unmet: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    says: str
    why: str = ""

    def __str__(self) -> str:
        return self.name.replace(" ", "-")
