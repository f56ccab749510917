"""The part of the demo that ships a log file to a receiver, which is killed on the way.

A program of this machine writes a log: about the files of Python's standard library, with the
tracebacks of those that it cannot read. `rsocket-trio lumberjack ship` ships it to
`rsocket-trio lumberjack serve --spool`. The receiver is killed in the middle and started again.
Then the spool must contain each line of the file.
"""

from __future__ import annotations

import json
import logging
import signal
import sysconfig
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import attrs
import trio
from demo_processes import Failed, addresses, python, running

from rsocket_trio.lumberjack import stored_events
from rsocket_trio.spool import describe_spool, read_range

RECORDS: Final = 40_000
"""Records of the log. It takes about a second to ship them."""
RECORD_START: Final = r"^\d{4}-\d\d-\d\d "
"""Where a record begins; further lines belong to the one before."""
STARTS: Final = 10
"""How often the second start of the receiver is tried. Another program may have its port."""


@attrs.frozen
class Written:
    """What is in the log file."""

    path: Path
    lines: int
    tracebacks: int


def write_log(path: Path) -> Written:
    """Write the log: a record for each file that is looked at, and the errors."""
    logger = logging.Logger("library")
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    tracebacks = 0
    try:
        library = Path(sysconfig.get_path("stdlib"))
        files = [each for each in library.glob("*/*.py") if each.is_file()]
        for number, file in enumerate(islice(cycle(files), RECORDS)):
            name = file.relative_to(library)
            if number % 50:
                size = file.stat().st_size
                logger.info("%s: %d bytes, begins with %r", name, size, file.parent.name)
                continue
            try:
                json.loads(file.read_bytes())
            except ValueError:  # a program is no JSON, and not always UTF-8
                logger.exception("%s cannot be read as JSON", name)
                tracebacks += 1
    finally:
        handler.close()
    return Written(path, path.read_bytes().count(b"\n"), tracebacks)


async def ship_a_log(directory: Path) -> None:
    """Ship a log file into a spool, kill the receiver on the way, and compare."""
    log = await trio.to_thread.run_sync(write_log, directory / "library.log")
    print(f"\na log file: {RECORDS:,} records with {log.lines:,} lines", flush=True)
    spool = directory / "spool"
    receiver = python(
        "-m", "rsocket_trio", "lumberjack", "serve", "--quiet", "--spool", str(spool), "--listen"
    )
    killed = -signal.SIGKILL
    async with running("receiver", [*receiver, "lumberjack://127.0.0.1:0"], status=killed) as first:
        [uri] = await addresses("receiver", first)
        print(f"  a receiver process listens on {uri}, and keeps events in a spool", flush=True)
        async with running("shipper", shipper(log, uri, directory / "registry.json")) as shipping:
            await until_stored(spool, RECORDS // 3, [first, shipping])
            first.kill()
            await first.wait()
            before = describe_spool(spool).head
            print(f"  killed (SIGKILL) with {before:,} events in the spool, and started again")
            await second_receiver([*receiver, uri], shipping)
    compare(spool, log, before)


def shipper(log: Written, uri: str, registry: Path) -> list[str]:
    options = (
        "--multiline-start",
        RECORD_START,
        "--registry",
        str(registry),
        "--status-json",
        "--quiet",
    )
    return python("-m", "rsocket_trio", "lumberjack", "ship", str(log.path), "--to", uri, *options)


async def until_stored(spool: Path, count: int, processes: list[trio.Process]) -> None:
    """Wait until the spool has so many events."""
    while describe_spool(spool).head < count:
        if any(process.poll() is not None for process in processes):
            raise Failed("a process ended before it was killed")
        await trio.sleep(0.01)


async def second_receiver(command: list[str], shipping: trio.Process) -> None:
    """Start the receiver again, and wait until everything is shipped."""
    for number in range(1, STARTS + 1):
        try:
            async with running("receiver", command) as second:
                await addresses("receiver", second)
                await finish(shipping)
        except Failed as failed:
            if "Address already in use" not in str(failed) or number == STARTS:
                raise
            await trio.sleep(0.2)
        else:
            return


async def finish(shipping: trio.Process) -> None:
    """Wait until the shipper ends, and print what it says."""
    assert shipping.stdout is not None
    printed = b"".join([some async for some in shipping.stdout])
    if await shipping.wait() != 0:
        raise Failed("the shipper failed")
    said = json.loads(printed.splitlines()[-1])
    print(
        f"  the shipper says: {said['lines_acknowledged']:,} lines are acknowledged, after "
        f"{said['reconnects']} reconnect with {said['events_resent']:,} events sent again",
        flush=True,
    )


def compare(spool: Path, log: Written, before: int) -> None:
    """Check that the spool contains the file, and that only events without an ACK came twice."""
    first: dict[int, int] = {}  # for each position in the file the offset in the spool
    texts: dict[int, str] = {}
    again: list[int] = []
    events = 0
    for offset, event in stored(spool):
        events += 1
        at = event["log"]["offset"]
        if at in first:
            again.append(first[at])
        else:
            first[at] = offset
            texts[at] = event["message"]
    text = "".join(f"{texts[at]}\n" for at in sorted(texts))
    lines = text.count("\n")
    print(
        f"  the spool: {events:,} events, {len(first):,} of them distinct, with {lines:,} lines; "
        f"{len(again):,} came twice"
    )
    if (len(first), lines) != (RECORDS, log.lines):
        raise Failed(f"the file has {RECORDS} records with {log.lines} lines")
    if text != log.path.read_text(encoding="utf-8"):
        raise Failed("the spool has other lines than the file")
    if again != list(range(before - len(again), before)):
        raise Failed("not only the last events before the kill came twice")
    print(f"  these are the lines of the file, {log.tracebacks} tracebacks included", flush=True)


def stored(spool: Path) -> Iterator[tuple[int, dict[str, dict[str, int]]]]:
    end = describe_spool(spool).head
    for batch in read_range(spool, 0, end):
        events = stored_events(batch)
        yield from enumerate(map(json.loads, events.raw), events.first)
