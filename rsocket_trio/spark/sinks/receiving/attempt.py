"""An attempt of a task of Spark to write a partition: `Attempt`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import trio

from .... import Invalid, Rejected
from .arrow_rows import count_rows
from .store import StagedAttempt

if TYPE_CHECKING:
    from .staging import Staging

__all__ = ["PAYLOAD_COST", "Attempt"]

PAYLOAD_COST: Final = 16
"""Bytes that each payload counts more than its data."""

CHUNK_SIZE: Final = 512 * 2**10
"""Bytes of payloads that are written to the store together."""

CHUNK_COUNT: Final = 8192
"""Payloads that are written to the store together: small ones cost memory for their objects."""


class Attempt:
    """An attempt that is staged, or that is receiving rows.

    Attributes:
        facts: What the store knows of it.
        begun_at: When it began, by the clock of trio.
        rows: The rows so far.
        size: The bytes so far.
        dropped: It is not staged any more: its rows are gone.
        committing: Its rows are being handed over, so it is kept.
    """

    def __init__(self, facts: StagedAttempt, staging: Staging, age: float = 0.0) -> None:
        self.facts = facts
        self.begun_at = trio.current_time() - age
        self.rows = facts.rows
        self.size = facts.size
        self.dropped = False
        self.committing = False
        self._staging = staging
        self._chunk: list[bytes] = []
        self._chunk_size = 0
        self._chunks = facts.chunks
        self._count = count_rows if facts.format == "arrow" else _one

    async def add(self, data: bytes) -> None:
        """Take a payload of rows.

        Raises:
            Invalid: It is no payload of this format, or above a limit of payload or attempt.
            Rejected: There is no room now; or the attempt was dropped.
        """
        staging = self._staging
        limits = staging.limits
        self.check()
        if len(data) > limits.max_payload_size:
            raise Invalid(
                f"a payload of rows has {len(data)} bytes, above {limits.max_payload_size} "
                "(SinkLimits.max_payload_size of the responder): use a smaller batchBytes"
            )
        rows = self.rows + self._count(data)
        cost = len(data) + PAYLOAD_COST
        if rows > limits.max_rows:
            raise Invalid(
                f"partition {self.facts.partition} has more than {limits.max_rows} rows "
                "(SinkLimits.max_rows of the responder): use more partitions"
            )
        if self.size + cost > limits.max_attempt_size:
            raise Invalid(
                f"partition {self.facts.partition} has more than {limits.max_attempt_size} bytes "
                "(SinkLimits.max_attempt_size of the responder): use more partitions"
            )
        staging.take_room(self, cost)
        self.rows = rows
        self._chunk.append(data)
        self._chunk_size += len(data)
        if self._chunk_size >= CHUNK_SIZE or len(self._chunk) >= CHUNK_COUNT:
            await self._flush()

    async def complete(self) -> None:
        """Make the attempt durable: its task has sent all rows.

        Raises:
            Rejected: It was dropped.
        """
        self.check()
        if self._chunk:
            await self._flush()
        facts = attrs.evolve(
            self.facts, rows=self.rows, size=self.size, chunks=self._chunks, complete=True
        )
        await self._staging.in_store(self._staging.store.complete, facts)
        self.check()
        self.facts = facts

    def check(self) -> None:
        """Raise if the attempt was dropped while it received rows.

        Raises:
            Rejected: It was.
        """
        self._staging.check_open()
        if self.dropped:
            raise Rejected("the attempt was dropped: its batch was committed or aborted meanwhile")

    async def _flush(self) -> None:
        chunk, self._chunk, self._chunk_size = self._chunk, [], 0
        number = self._chunks
        self._chunks += 1
        staging = self._staging
        await staging.in_store(staging.store.append, self.facts.key, number, chunk)


def _one(_data: bytes) -> int:
    return 1
