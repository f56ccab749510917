"""A telemetry service: data about this machine, with every interaction of RSocket.

    rsocket-trio serve examples/host_telemetry.py:router \
        --listen tcp://127.0.0.1:7878 --listen ws://127.0.0.1:7879/rsocket
    rsocket-trio request tcp://127.0.0.1:7878 --route host.facts
    rsocket-trio stream tcp://127.0.0.1:7878 '{"every": 0.5}' --route host.load --take 5

The handlers take and return plain Python objects. The client chooses their encoding with the MIME
type of its connection: CBOR by default, JSON for the browser, text for the command line.

The service runs on Linux only, because it reads /proc.
"""

from __future__ import annotations

import os
import platform
import sysconfig
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Final

import attrs
import trio
from trio.abc import ReceiveChannel

from rsocket_trio import Invalid, Router, TransportInfo

router = Router()

SHORTEST_INTERVAL: Final = 0.05
"""In seconds. In a shorter time /proc/stat counts too few ticks for a useful sample."""

LONGEST_INTERVAL: Final = 3600.0

FILES: Final[dict[str, Path]] = {
    path.name: path for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
}
"""The available files, by name: the modules of the standard library of this server.

A client sends a key of this table. The server never makes a path from data of a client, so a client
cannot read other files.
"""


# -- data types -----------------------------------------------------------------------------------


@attrs.frozen
class Facts:
    """Facts about the machine. Memory is in bytes, the uptime in seconds."""

    hostname: str
    kernel: str
    machine: str
    python: str
    cpus: int
    memory_total: int
    memory_available: int
    uptime: float


@attrs.frozen
class LoadRequest:
    """A request for samples. ``every`` is the time between two samples, in seconds."""

    every: float = 1.0


EVERY_SECOND: Final = LoadRequest()


@attrs.frozen
class Load:
    """One sample. ``busy`` and ``cpus`` are shares, 0 to 1, of the time since the last sample."""

    at: float
    busy: float
    cpus: list[float]
    load_1: float
    load_5: float
    load_15: float
    tasks: int


@attrs.frozen
class Grep:
    """A request for the lines of a file that contain a text."""

    file: str
    pattern: str


@attrs.frozen
class Match:
    """A line that contains the text; ``number`` counts from 1."""

    file: str
    pattern: str
    number: int
    line: str


@attrs.frozen
class Note:
    """A note of a client, with the address of the client."""

    at: float
    peer: str
    text: str


@attrs.frozen
class Notes:
    """The latest notes, and the numbers of all notes and metadata pushes received."""

    latest: list[Note]
    received: int
    metadata_pushes: int


# -- the host -------------------------------------------------------------------------------------


@router.request_response("host.facts")
async def facts() -> Facts:
    memory = dict(line.split(":") for line in _proc("meminfo"))
    return Facts(
        hostname=platform.node(),
        kernel=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        python=platform.python_version(),
        cpus=os.cpu_count() or 1,
        memory_total=int(memory["MemTotal"].split()[0]) * 1024,
        memory_available=int(memory["MemAvailable"].split()[0]) * 1024,
        uptime=float(_proc("uptime")[0].split()[0]),
    )


@router.request_stream("host.load")
async def load(request: LoadRequest = EVERY_SECOND) -> AsyncIterator[Load]:
    # The demand of the client controls this generator: without credit it takes no sample, and the
    # next sample covers the whole time since the last one.
    if not SHORTEST_INTERVAL <= request.every <= LONGEST_INTERVAL:
        raise Invalid(f"every must be {SHORTEST_INTERVAL} to {LONGEST_INTERVAL} seconds")
    before = _ticks()
    while True:
        await trio.sleep(request.every)
        after = _ticks()
        busy, *cpus = [_busy(*times) for times in zip(before, after, strict=True)]
        one, five, fifteen, tasks, _ = _proc("loadavg")[0].split()
        yield Load(
            at=time.time(),
            busy=busy,
            cpus=cpus,
            load_1=float(one),
            load_5=float(five),
            load_15=float(fifteen),
            tasks=int(tasks.split("/")[1]),
        )
        before = after


def _proc(name: str) -> list[str]:
    # Files of /proc are in memory. Reading one takes microseconds and needs no thread.
    return Path("/proc", name).read_text().splitlines()


def _ticks() -> list[tuple[int, int]]:
    """Return idle ticks and all ticks, first of all CPUs together, then of each CPU."""
    ticks = []
    for line in _proc("stat"):
        if line.startswith("cpu"):
            counts = [int(count) for count in line.split()[1:9]]
            ticks.append((counts[3] + counts[4], sum(counts)))  # idle and iowait
    return ticks


def _busy(before: tuple[int, int], after: tuple[int, int]) -> float:
    idle, total = after[0] - before[0], after[1] - before[1]
    return max(0.0, 1 - idle / total) if total > 0 else 0.0


# -- files ----------------------------------------------------------------------------------------


@router.request_response("file.names")
async def names() -> list[str]:
    return list(FILES)


@router.request_stream("file.lines")
async def lines(name: str) -> AsyncGenerator[str, None]:
    async with await trio.open_file(_file(name), encoding="utf-8", errors="replace") as file:
        # Each read runs in a thread, so read many lines at once.
        while some := await file.readlines(64 * 1024):
            for line in some:
                yield line.rstrip("\n")


@router.request_channel("file.grep")
async def grep(wanted: ReceiveChannel[Grep]) -> AsyncIterator[Match]:
    # Plain text, not regular expressions: a client could send one that takes hours to match.
    async for one in wanted:
        number = 0
        # Close the generator here if the loop ends early, not when it is garbage collected.
        async with aclosing(lines(one.file)) as whole:
            async for line in whole:
                number += 1
                if one.pattern in line:
                    yield Match(one.file, one.pattern, number, line)


def _file(name: str) -> Path:
    if name not in FILES:
        raise Invalid("no such file is available; file.names lists the available files")
    return FILES[name]


# -- notes ----------------------------------------------------------------------------------------

_notes: deque[Note] = deque(maxlen=100)
_counts = {"notes": 0, "metadata pushes": 0}


@router.fire_and_forget("note")
async def note(text: str, transport: TransportInfo) -> None:
    _counts["notes"] += 1
    _notes.append(Note(time.time(), transport.peer, text[:1000]))


@router.request_response("notes")
async def notes() -> Notes:
    return Notes(list(_notes), _counts["notes"], _counts["metadata pushes"])


@router.metadata_push()
async def metadata_push(metadata: bytes) -> None:
    _counts["metadata pushes"] += 1
