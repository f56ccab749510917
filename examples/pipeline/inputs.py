"""The log files that the pipeline gets, and what each contains, counted without Spark.

The service log is made by a program (`service_log`). The other file is a log of this machine: the
one of dpkg, which Debian and Ubuntu write. It is copied first, so it does not grow meanwhile.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import attrs
import trio

from .service_log import MINUTES, lines

DPKG: Final = Path("/var/log/dpkg.log")
FEWEST: Final = 20
"""A log of this machine with fewer lines shows nothing."""

Key = tuple[str, str]
"""A minute, such as ``2026-01-31 12:00``, and a service."""


@attrs.frozen
class Contents:
    """What is in a log file, by minute and service."""

    per_minute: Counter[Key]
    errors: Counter[Key]
    milliseconds: dict[Key, Decimal]

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.per_minute.total()


def of_this_machine(directory: Path, log: Path = DPKG) -> Path | None:
    """Copy a log of this machine, up to its last line end; None if there is none to read."""
    try:
        copied = Path(shutil.copy(log, directory / log.name))
    except OSError:
        return None
    whole = copied.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    if whole.count(b"\n") < FEWEST:
        copied.unlink()
        return None
    copied.write_bytes(whole)
    return copied


def count_services(log: Path) -> Contents:
    """Count a service log."""
    found = Contents(Counter(), Counter(), {})
    with log.open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line, parse_float=Decimal)
            minute = datetime.fromisoformat(record["at"]).strftime("%Y-%m-%d %H:%M")
            key = (minute, record["service"])
            found.per_minute[key] += 1
            found.errors[key] += record["level"] == "ERROR"
            found.milliseconds[key] = found.milliseconds.get(key, Decimal()) + record["ms"]
    return found


def count_dpkg(log: Path) -> Contents:
    """Count a log of dpkg: its third word is the action, which is the service here."""
    found = Contents(Counter(), Counter(), {})
    with log.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            day, clock, action = line.split()[:3]
            found.per_minute[f"{day} {clock[:5]}", action] += 1
    return found


async def write_services(log: Path, seconds: float) -> None:
    """Write the service log, each of its minutes in the same part of ``seconds``."""
    begins = trio.current_time()
    with log.open("w", encoding="utf-8") as file:
        for number, part in enumerate(_by_minute(lines())):
            await trio.sleep_until(begins + seconds * number / MINUTES)
            file.write("".join(f"{line}\n" for line in part))
            file.flush()


def _by_minute(every: Iterator[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in every:
        if part and part[-1][:23] != line[:23]:  # {"at":"2026-01-31T12:00
            yield part
            part = []
        part.append(line)
    yield part


def write_end(log: Path) -> None:
    """Write a line that moves the watermark behind the last minute of the service log.

    The minutes of a stream become final as later lines come. At the end of a file none come. This
    line is in a minute of its own, which never becomes final.
    """
    end = {"at": "2026-01-31T13:00:30.000Z", "service": "-", "level": "INFO", "ms": 0.0}
    log.write_text(json.dumps(end) + "\n")
