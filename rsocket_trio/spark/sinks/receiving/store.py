"""What keeps the rows of attempts, and the committed batches: `Store`, `MemoryStore`."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, Protocol

import attrs

__all__ = ["Commit", "MemoryStore", "StagedAttempt", "Store", "join_payloads", "split_payloads"]

_LENGTH: Final = struct.Struct("<I")


@attrs.frozen(kw_only=True)
class StagedAttempt:
    """An attempt, as a store remembers it.

    Attributes:
        key: The number of the attempt in its store.
        owner: Who has sent it; see `sink_receiver`.
        query: As in `Opening`.
        batch: As in `Opening`.
        partition: As in `Opening`.
        attempt: As in `Opening`.
        writer: As in `Opening`.
        format: As in `Opening`.
        schema: As in `Opening`.
        begun_at: When it began, in seconds since 1970, by a clock that may be set.
        rows: The number of its rows.
        size: The bytes that it costs.
        chunks: The number of its chunks.
        complete: Whether all of its rows are there.
    """

    key: int
    owner: str
    query: str
    batch: int
    partition: int
    attempt: str
    writer: str
    format: str
    schema: str
    begun_at: float
    rows: int = 0
    size: int = 0
    chunks: int = 0
    complete: bool = False


@attrs.frozen(kw_only=True)
class Commit:
    """The last committed batch of a query.

    Attributes:
        owner: Who has sent it; see `sink_receiver`.
        query: As in `Opening`.
        batch: As in `Opening`.
        rows: The number of its rows.
        source: As in `Opening`.
        at: When it was committed, in seconds since 1970; later than the commits before it.
    """

    owner: str
    query: str
    batch: int
    rows: int
    source: str
    at: float


class Store(Protocol):
    """Keeps attempts and commits. Its methods are called one at a time.

    Attributes:
        blocking: Whether methods wait for a disk, so that they have to run in a thread.
    """

    blocking: bool

    @abstractmethod
    def load(self) -> tuple[list[StagedAttempt], list[Commit]]:
        """Return the complete attempts, and the commits from the oldest to the newest.

        Attempts that are not complete are dropped: their channels are gone.
        """

    @abstractmethod
    def begin(self, attempt: StagedAttempt) -> None:
        """Add an attempt without rows."""

    @abstractmethod
    def append(self, key: int, number: int, payloads: Sequence[bytes]) -> None:
        """Add a chunk of payloads to an attempt."""

    @abstractmethod
    def complete(self, attempt: StagedAttempt) -> None:
        """Make an attempt with all its chunks durable."""

    @abstractmethod
    def read(self, key: int, number: int) -> list[bytes]:
        """Return the payloads of a chunk.

        Raises:
            LookupError: There is no such chunk.
        """

    @abstractmethod
    def commit(self, commit: Commit, keys: Sequence[int], forgotten: Sequence[Commit]) -> None:
        """Remember a commit, drop attempts and forget commits: all of it or nothing."""

    @abstractmethod
    def drop(self, keys: Sequence[int]) -> None:
        """Drop attempts."""

    @abstractmethod
    def purge(self) -> bool:
        """Free some room of dropped attempts. Return whether there is more."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""


class MemoryStore:
    """Keeps everything in memory, for tests and for rows that may be lost with the process."""

    def __init__(self) -> None:
        self.blocking = False
        # Joined: an object for each small payload would cost more than the limits count.
        self._chunks: dict[int, list[bytes]] = {}

    def load(self) -> tuple[list[StagedAttempt], list[Commit]]:
        """See `Store.load`."""
        return [], []

    def begin(self, attempt: StagedAttempt) -> None:
        """See `Store.begin`."""
        self._chunks[attempt.key] = []

    def append(self, key: int, number: int, payloads: Sequence[bytes]) -> None:
        """See `Store.append`."""
        chunks = self._chunks.get(key)
        if chunks is None:  # another task has dropped the attempt meanwhile
            return
        assert len(chunks) == number
        chunks.append(join_payloads(payloads))

    def complete(self, attempt: StagedAttempt) -> None:
        """See `Store.complete`."""

    def read(self, key: int, number: int) -> list[bytes]:
        """See `Store.read`."""
        return split_payloads(self._chunks[key][number])

    def commit(self, commit: Commit, keys: Sequence[int], forgotten: Sequence[Commit]) -> None:
        """See `Store.commit`."""
        self.drop(keys)

    def drop(self, keys: Sequence[int]) -> None:
        """See `Store.drop`."""
        for key in keys:
            self._chunks.pop(key, None)

    def purge(self) -> bool:
        """See `Store.purge`."""
        return False

    def close(self) -> None:
        """See `Store.close`."""
        self._chunks.clear()


def join_payloads(payloads: Sequence[bytes]) -> bytes:
    """Return the bytes of a chunk: each payload with its length before it."""
    parts: list[bytes] = []
    for payload in payloads:
        parts += (_LENGTH.pack(len(payload)), payload)
    return b"".join(parts)


def split_payloads(chunk: bytes) -> list[bytes]:
    """Return the payloads of a chunk that `join_payloads` has made."""
    payloads: list[bytes] = []
    position = 0
    while position < len(chunk):
        size = _LENGTH.unpack_from(chunk, position)[0]
        position += 4 + size
        payloads.append(chunk[position - size : position])
    return payloads
