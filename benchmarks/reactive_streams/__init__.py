"""Reactive Streams in one process, beside reactivex, and the cost of each rule."""

from typing import Final

__all__ = ["TITLE"]

TITLE: Final = "Reactive Streams, in one process"
"""The heading in the report."""
