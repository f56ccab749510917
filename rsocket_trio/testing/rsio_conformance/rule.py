"""One rule and its check: `Rule`, and a list that functions add themselves to: `Rules`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

import attrs

from .probe import Role
from .trial import Trial

__all__ = ["BOTH", "SOURCES", "Check", "Rule", "Rules", "Source"]

Source: TypeAlias = Literal["D", "L", "R", "B"]
Check: TypeAlias = Callable[[Trial], Awaitable[None]]

SOURCES: Final[dict[Source, str]] = {
    "D": "the draft",
    "L": "a later form of the draft",
    "R": "Reactive Streams, to which the draft refers",
    "B": "the binding rsio/0",
}
BOTH: Final[tuple[Role, ...]] = ("server", "client")


@attrs.frozen
class Rule:
    """A rule of the protocol.

    Attributes:
        id: RSIO-01 to RSIO-58, B01 to B22.
        title: The rule in a few words.
        source: Where it is from, one of `SOURCES`.
        check: Returns if the peer keeps the rule. Else it raises `Failed`, or `Skipped`.
        needs: The fixtures, and "TLS" or "pid", that the check uses.
        roles: The roles of the implementation under test for which it has a check.
        slow: Whether it waits for a deadline of the peer, so that others should run meanwhile.
    """

    id: str
    title: str
    source: Source
    check: Check
    needs: tuple[str, ...] = ()
    roles: tuple[Role, ...] = BOTH
    slow: bool = False


class Rules(list[Rule]):
    """Rules, in their order."""

    def add(
        self,
        name: str,
        title: str,
        source: Source,
        *,
        needs: str = "",
        roles: tuple[Role, ...] = BOTH,
        slow: bool = False,
    ) -> Callable[[Check], Check]:
        """Make a rule of the function that checks it. ``name`` is its id, ``needs`` has words."""

        def added(function: Check) -> Check:
            self.append(Rule(name, title, source, function, tuple(needs.split()), roles, slow))
            return function

        return added
