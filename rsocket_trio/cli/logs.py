"""Logging of the command line, on standard error. ``--verbose`` and ``--quiet`` set the level."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["log_to_stderr"]


def log_to_stderr(args: argparse.Namespace, *, normally: int = logging.WARNING) -> None:
    """Send the log of the whole process to standard error.

    Args:
        args: ``verbose`` logs everything, ``quiet`` only errors.
        normally: The level without these options.
    """
    level = logging.DEBUG if args.verbose else logging.ERROR if args.quiet else normally
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
