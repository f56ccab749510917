"""What a shipment has read and what is acknowledged: `Counts`."""

from __future__ import annotations

import attrs

from .tail import Batch

__all__ = ["Counts"]


@attrs.define
class Counts:
    """Counts of one run. A line that is sent again by the connection counts once.

    Attributes:
        files: Files that are open, or whose last lines are not acknowledged yet.
        opened: Files that were opened.
        read_lines: Lines that were read.
        read_bytes: Their bytes, with their line ends.
        acknowledged_lines: Lines that are acknowledged.
        acknowledged_bytes: Their bytes, with their line ends.
        skipped_bytes: NUL bytes that belong to no line, and were not shipped.
        truncations: How many times a file was truncated while it was read.
        looks: How many times it was looked for new files.
    """

    files: int = 0
    opened: int = 0
    read_lines: int = 0
    read_bytes: int = 0
    acknowledged_lines: int = 0
    acknowledged_bytes: int = 0
    skipped_bytes: int = 0
    truncations: int = 0
    looks: int = 0

    @property
    def waiting(self) -> int:
        """The lines that were read and are not acknowledged."""
        return self.read_lines - self.acknowledged_lines

    def read(self, batch: Batch) -> None:
        """Count a batch that was read."""
        self.read_lines += batch.lines
        self.read_bytes += batch.size

    def acknowledged(self, batch: Batch) -> None:
        """Count a batch that is acknowledged."""
        self.acknowledged_lines += batch.lines
        self.acknowledged_bytes += batch.size
