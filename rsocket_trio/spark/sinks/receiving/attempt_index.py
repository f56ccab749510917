"""The attempts that are not committed, by identity and by query: `AttemptIndex`."""

from __future__ import annotations

from .attempt import Attempt

__all__ = ["AttemptIndex"]

Key = tuple[str, str]


class AttemptIndex:
    """Finds attempts, and counts their bytes.

    Attributes:
        size: The bytes of all attempts.
        dropped: The keys of attempts that the store has to drop.
    """

    def __init__(self) -> None:
        self.size = 0
        self.dropped: list[int] = []
        self._by_id: dict[Key, Attempt] = {}
        self._by_query: dict[Key, dict[int, Attempt]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Attempt]:
        """Return all attempts."""
        return list(self._by_id.values())

    def get(self, owner: str, name: str) -> Attempt | None:
        """Return the attempt with an identity, if there is one."""
        return self._by_id.get((owner, name))

    def of_query(self, owner: str, query: str) -> list[Attempt]:
        """Return the attempts of a query."""
        return list(self._by_query.get((owner, query), {}).values())

    def keep(self, attempt: Attempt) -> None:
        """Add an attempt."""
        facts = attempt.facts
        self._by_id[facts.owner, facts.attempt] = attempt
        self._by_query.setdefault((facts.owner, facts.query), {})[facts.key] = attempt
        self.size += attempt.size

    def drop(self, attempt: Attempt) -> None:
        """Remove an attempt, if it is there."""
        if attempt.dropped:
            return
        attempt.dropped = True
        facts = attempt.facts
        del self._by_id[facts.owner, facts.attempt]
        of_query = self._by_query[facts.owner, facts.query]
        del of_query[facts.key]
        if not of_query:
            del self._by_query[facts.owner, facts.query]
        self.size -= attempt.size
        self.dropped.append(facts.key)
