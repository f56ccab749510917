"""A file that holds other processes: `Gate`."""

from __future__ import annotations

from pathlib import Path

from .programs import until


class Gate:
    """A file that holds what is behind it, as long as it is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting = path.with_name(f"{path.name}.waiting")

    def shut(self) -> Gate:
        self.path.touch()
        self._waiting.unlink(missing_ok=True)
        return self

    def open(self) -> None:
        self.path.unlink()

    def waiting(self) -> list[int]:
        """The processes that wait at it."""
        return (
            [int(pid) for pid in self._waiting.read_text().split()]
            if self._waiting.exists()
            else []
        )

    def wait(self) -> list[int]:
        """Wait until a process waits at it."""
        return until(self.waiting, f"a process comes to the gate {self.path.name}")
