"""A collector: it receives events, keeps them in a spool, and gives ranges of them to readers.

The modules, in reading order:

- ``messages``: what a collector and its readers say to each other over RSocket
"""

from __future__ import annotations

from .messages import (
    INFO,
    POSITION,
    READ,
    BatchHead,
    InfoRequest,
    PositionRequest,
    ReadRequest,
    SpoolInfo,
)

__all__ = [
    "INFO",
    "POSITION",
    "READ",
    "BatchHead",
    "InfoRequest",
    "PositionRequest",
    "ReadRequest",
    "SpoolInfo",
]
