"""One line of the terminal that shows progress: `Progress`."""

from __future__ import annotations

from typing import Final, TextIO

__all__ = ["CLEAR_LINE", "Progress"]

CLEAR_LINE: Final = "\r\x1b[K"
"""Removes the line of the terminal where the cursor is."""


class Progress:
    """Rewrites one line of a terminal. Where there is no terminal, nothing is shown.

    Args:
        stream: Standard error.
        quiet: Show nothing.

    Attributes:
        shown: Whether it is shown at all.
    """

    def __init__(self, stream: TextIO | None, *, quiet: bool = False) -> None:
        self.shown = stream is not None and not quiet and stream.isatty()
        self._stream = stream

    def show(self, text: str) -> None:
        """Show a text in place of the one before."""
        self._write(CLEAR_LINE + text)

    def clear(self) -> None:
        """Remove the line."""
        self._write(CLEAR_LINE)

    def _write(self, text: str) -> None:
        if self.shown and self._stream is not None:
            self._stream.write(text)
            self._stream.flush()
