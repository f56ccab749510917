"""The last committed batch of each query, of a bounded number of them: `CommitLog`."""

from __future__ import annotations

from collections.abc import Iterable

from .store import Commit

__all__ = ["CommitLog"]


class CommitLog:
    """Remembers the last commit of each query.

    A query that is forgotten could commit its last batch twice. So an owner with many queries makes
    room by its own ones first, and those of others stay.

    Args:
        limit: The number of queries that are remembered.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._owners: dict[str, dict[str, Commit]] = {}  # of each owner, the oldest commit first

    def load(self, commits: Iterable[Commit]) -> None:
        """Add the commits of the process before, the oldest first."""
        for commit in commits:
            self.add(commit)

    def get(self, owner: str, query: str) -> Commit | None:
        """Return the last commit of a query."""
        return self._owners.get(owner, {}).get(query)

    def surplus(self, owner: str, query: str) -> Commit | None:
        """Return the commit that has to be forgotten before one of this query is added."""
        if self._count < self._limit or self.get(owner, query) is not None:
            return None
        own = self._owners.get(owner) or max(self._owners.values(), key=len)
        return next(iter(own.values()))

    def add(self, commit: Commit) -> None:
        """Remember a commit, in place of the one before it."""
        self.forget(commit)
        self._owners.setdefault(commit.owner, {})[commit.query] = commit  # the newest is the last
        self._count += 1

    def forget(self, commit: Commit) -> None:
        """Forget the query of a commit, if it is there."""
        queries = self._owners.get(commit.owner, {})
        if queries.pop(commit.query, None) is not None:
            self._count -= 1
            if not queries:
                del self._owners[commit.owner]
