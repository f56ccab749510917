"""The state of ``lumberjack ship``: as JSON, on a terminal, and at the end: `ShipStatus`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from .output import json_line
from .progress import Progress
from .stdio import Writer

if TYPE_CHECKING:
    import argparse

    from rsocket_trio.logfiles import Shipment
    from rsocket_trio.lumberjack import Shipper

__all__ = ["ShipStatus"]

_INTERVAL: Final = 1.0
"""Seconds between two lines of JSON."""
_REFRESH: Final = 0.5
"""Seconds between two changes of the line on a terminal."""


class ShipStatus:
    """Shows what a run does.

    Args:
        shipment: What was read and acknowledged, and what cannot be read.
        registry_file: Where the registry is; ``None``: there is none.
        args: The parsed arguments.

    Attributes:
        state: ``shipping`` or ``stopping``; at the end ``done`` or ``stopped``.
        shipper: The client, as soon as there is one.
    """

    def __init__(
        self, shipment: Shipment, registry_file: Path | None, args: argparse.Namespace
    ) -> None:
        self.state = "shipping"
        self.shipper: Shipper | None = None
        self._shipment = shipment
        self._counts = shipment.counts
        self._registry_file = registry_file
        self._args = args
        self._began = 0.0
        self._seen = (0.0, 0)

    async def run(self) -> None:
        """Show the state until cancelled.

        Raises:
            BrokenPipeError: The reader of the output has closed the pipe.
            Failure: The output failed.

        Checkpoint: where it waits.
        If cancelled: the line on the terminal is removed.
        """
        self._began = trio.current_time()
        self._seen = (self._began, 0)
        if self._args.status_json:
            while True:
                await trio.sleep(_INTERVAL)
                await Writer().write(json_line(self._fields()))
        progress = Progress(sys.stderr, quiet=self._args.quiet)
        if progress.shown:
            await self._show_line(progress)

    async def finish(self, *, done: bool) -> None:
        """Print the result.

        Args:
            done: Whether everything that was read is acknowledged.

        Checkpoint: where it waits.
        If cancelled: a part may have been printed.
        """
        self.state = "done" if done else "stopped"
        if self._args.status_json:
            self._seen = (self._began, 0)
            await Writer().write(json_line({**self._fields(), "not_open": self._not_open()}))
        elif not self._args.quiet:
            await Writer().write(f"{self._summary()}\n".encode("utf-8", "backslashreplace"))
        else:
            await trio.lowlevel.checkpoint()

    def _rate(self) -> float:
        """The acknowledged lines per second since the last call."""
        now, lines = trio.current_time(), self._counts.acknowledged_lines
        before, lines_before = self._seen
        self._seen = (now, lines)
        return (lines - lines_before) / max(now - before, 1e-3)

    def _fields(self) -> dict[str, object]:
        counts = self._counts
        numbers = None if self.shipper is None else self.shipper.statistics()
        return {
            "state": self.state,
            "seconds": round(trio.current_time() - self._began, 3),
            "files": counts.files,
            "files_opened": counts.opened,
            "files_not_open": len(self._shipment.problems),
            "truncations": counts.truncations,
            "lines_read": counts.read_lines,
            "lines_acknowledged": counts.acknowledged_lines,
            "bytes_read": counts.read_bytes,
            "bytes_acknowledged": counts.acknowledged_bytes,
            "nul_bytes_skipped": counts.skipped_bytes,
            "lines_per_second": round(self._rate(), 1),
            "connections": 0 if numbers is None else numbers.connections,
            "reconnects": 0 if numbers is None else numbers.reconnects,
            "events_resent": 0 if numbers is None else numbers.resent,
        }

    def _summary(self) -> str:
        skipped = self._counts.skipped_bytes
        text = self._shipped() + (f"; {skipped:,} NUL bytes skipped" if skipped else "")
        if not self._args.follow:  # An error follows, which names them.
            return text
        waiting = [f"\n  {each['path']}: {each['reason']}" for each in self._not_open()]
        return text + "".join(["; not open yet:", *waiting] if waiting else [])

    def _not_open(self) -> list[dict[str, str]]:
        return [{"path": each.path, "reason": each.reason} for each in self._shipment.problems]

    def _shipped(self) -> str:
        counts = self._counts
        if counts.waiting:
            return (
                f"shipped {_many(counts.acknowledged_lines, 'line')}; {counts.waiting:,} more read"
                f" and not acknowledged{self._later()}"
            )
        if not counts.read_lines and self._registry_file is not None:
            return f"shipped 0 lines: nothing is new (registry {self._registry_file})"
        return (
            f"shipped {_many(counts.acknowledged_lines, 'line')},"
            f" {_size(counts.acknowledged_bytes)}, of {_many(counts.opened, 'file')}"
        )

    def _later(self) -> str:
        return "" if self._registry_file is None else ": the next run ships them"

    async def _show_line(self, progress: Progress) -> None:
        try:
            while True:
                progress.show(self._line())
                await trio.sleep(_REFRESH)
        finally:
            progress.clear()

    def _line(self) -> str:
        counts = self._counts
        line = (
            f"{counts.acknowledged_lines:,} lines, {_size(counts.acknowledged_bytes)} acknowledged,"
            f" {self._rate():,.0f} lines/s, {counts.waiting:,} wait"
        )
        if self.shipper is not None and counts.waiting:
            line += "" if self.shipper.statistics().connections else ", not connected"
        return f"{line}, stopping" if self.state == "stopping" else line


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _size(number: float) -> str:
    if number < 1000:
        return f"{number:,.0f} bytes"
    units = iter(("kB", "MB", "GB"))
    unit = next(units)
    number /= 1000
    while number >= 1000 and unit != "GB":
        unit = next(units)
        number /= 1000
    return f"{number:,.1f} {unit}"
