"""Read log files without losing a line: rotation, positions, entries of several lines.

No module here knows a network: `Shipment` calls a function that sends events, and that returns when
they are acknowledged. The command ``rsocket-trio lumberjack ship`` is made of it.

The modules, in reading order:

- ``shipment``: the tasks: look for files, read them, stop
- ``file_task``: the task of one file
- ``sender``: the batches that are on the way, a bounded number
- ``counts``: what was read, and what is acknowledged
- ``tail``: reads one open file, batch by batch
- ``entry``: a line, or several lines that belong together
- ``holes``: NUL bytes that belong to no line
- ``lines``: cuts bytes into lines
- ``multiline``: joins lines that belong together
- ``event_text``: the JSON text of an event
- ``discovery``: finds the files that paths and patterns name
- ``patterns``: the files that a pattern matches
- ``wanted``: the files that should be read and are not open yet
- ``open_files``: how many files may be open
- ``identity``: which file is which
- ``progress``: the acknowledged offset of a file
- ``registry``: the file that remembers these offsets
- ``recorder``: the task that writes the registry
"""

from __future__ import annotations

from .counts import Counts
from .discovery import Found, Problem, Source
from .entry import Entry
from .event_text import EXPANSION, EventWriter, InvalidBytes, check_encoding, flags_of
from .identity import FileKey, Fingerprint
from .multiline import MultilineRule
from .open_files import max_open_files
from .registry import Position, Registry, RegistryError, RegistryLocked
from .shipment import FilesMissing, Following, Shipment
from .tail import Batch, Reading

__all__ = [
    "EXPANSION",
    "Batch",
    "Counts",
    "Entry",
    "EventWriter",
    "FileKey",
    "FilesMissing",
    "Fingerprint",
    "Following",
    "Found",
    "InvalidBytes",
    "MultilineRule",
    "Position",
    "Problem",
    "Reading",
    "Registry",
    "RegistryError",
    "RegistryLocked",
    "Shipment",
    "Source",
    "check_encoding",
    "flags_of",
    "max_open_files",
]
