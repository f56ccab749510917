"""A durable, bounded queue on disk, for events that arrive in batches: `open_spool`.

One process appends batches; a batch is on the disk when `Spool.append` returns. Any number of
readers read ranges of offsets, also in other processes of the host (`read_range`). Consumers commit
positions, and batches that all consumers have behind them are deleted.

The modules, in reading order:

- ``spool``: the interface of applications: `open_spool`, `Spool`
- ``batch``: batches of events, before and after they are stored
- ``config``: settings, and how long batches are kept
- ``errors``: the errors
- ``requests``: the changes that tasks wait for, and their queues
- ``flusher``: group commit: the one task that writes
- ``writer``: the thread's side of writing: one transaction for a group of changes
- ``room``: room on a full disk: enough for positions, and for a log that is emptied
- ``reserve``: the file that holds disk space for it
- ``ages``: how old batches are, although the clock may be set
- ``trimming``: which batches are deleted, and a step of it
- ``extent``: what a spool holds, in numbers
- ``instances``: what the instances of consumers need
- ``epochs``: which history a spool has, as an older copy that is written on has another one
- ``reader``: reading within trio
- ``offline``: reading without trio, also in other processes
- ``description``: what a spool holds, in numbers, for any process
- ``reach``: how far bytes reach, and which event came first at a time, also for other processes
- ``runs``: where the times of batches go back, as the clock was set
- ``queries``: the queries of both kinds of readers
- ``schema``: the database: tables, settings, versions
- ``directory``: the files, and the lock against a second writer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import homes_of, lazily

if TYPE_CHECKING:
    from .batch import Batch, StoredBatch
    from .config import Retention, SpoolConfig
    from .description import SpoolDescription, describe_spool
    from .errors import (
        BatchTooLarge,
        NotASpool,
        OffsetNotStored,
        OffsetTrimmed,
        SpoolClosed,
        SpoolError,
        SpoolFailed,
        SpoolLocked,
        SpoolRestored,
        SpoolTooNew,
        WrongSpool,
    )
    from .instances import ConsumerInstance
    from .offline import read_range
    from .queries import BatchesAhead
    from .reach import find_reach, find_since
    from .reader import SpoolReader
    from .spool import Spool, SpoolStatistics, open_spool

__all__ = [
    "Batch",
    "BatchTooLarge",
    "BatchesAhead",
    "ConsumerInstance",
    "NotASpool",
    "OffsetNotStored",
    "OffsetTrimmed",
    "Retention",
    "Spool",
    "SpoolClosed",
    "SpoolConfig",
    "SpoolDescription",
    "SpoolError",
    "SpoolFailed",
    "SpoolLocked",
    "SpoolReader",
    "SpoolRestored",
    "SpoolStatistics",
    "SpoolTooNew",
    "StoredBatch",
    "WrongSpool",
    "describe_spool",
    "find_reach",
    "find_since",
    "open_spool",
    "read_range",
]

_HOMES = homes_of(
    {
        "batch": "Batch StoredBatch",
        "config": "Retention SpoolConfig",
        "description": "SpoolDescription describe_spool",
        "errors": (
            "BatchTooLarge NotASpool OffsetNotStored OffsetTrimmed SpoolClosed SpoolError "
            "SpoolFailed SpoolLocked SpoolRestored SpoolTooNew WrongSpool"
        ),
        "instances": "ConsumerInstance",
        "offline": "read_range",
        "queries": "BatchesAhead",
        "reach": "find_reach find_since",
        "reader": "SpoolReader",
        "spool": "Spool SpoolStatistics open_spool",
    }
)
"""The module of each public name, imported when it is used first: a reader
needs no writer."""

if not TYPE_CHECKING:  # A type checker would think that the package has every name.
    __getattr__, __dir__ = lazily(globals(), _HOMES)
