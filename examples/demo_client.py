"""The client of demo.py: it uses every interaction of host_telemetry.py, over each given URI.

For each request it prints the result, the speed, the largest number of unread items, and the window
that it granted. It checks the results against the files of this machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio
from host_telemetry import FILES, Facts, Grep, Load, LoadRequest, Match, Notes

from rsocket_trio import (
    Caller,
    ClientResume,
    FrameTransport,
    Invalid,
    Lease,
    LeaseOptions,
    Payload,
    Requester,
    RSocketError,
    StreamStatistics,
    connect,
)
from rsocket_trio.transports import open_transport

MIME: Final = "application/cbor"
LARGEST: Final = max(FILES, key=lambda name: FILES[name].stat().st_size)
NOTES: Final = 500


class Unexpected(Exception):
    """The server answered with wrong data."""


@attrs.define
class Tally:
    """Counts the items of a stream."""

    items: int = 0
    size: int = 0
    began: float = attrs.field(factory=time.perf_counter)

    def add(self, payload: Payload) -> None:
        """Count an item."""
        self.items += 1
        self.size += len(payload.data)

    def result(self, statistics: StreamStatistics) -> str:
        """Return the counts as text, with the statistics of the stream."""
        if not statistics.peak_unread <= statistics.window:
            raise Unexpected(
                f"{statistics.peak_unread} items unread in a window of {statistics.window}"
            )
        seconds = time.perf_counter() - self.began
        return (
            f"{self.items} items, {self.size} bytes, {self.items / seconds:,.0f} items/s; "
            f"unread at most {statistics.peak_unread}, window {statistics.window}"
        )


def say(what: str, result: str) -> None:
    # Flush each line, so that it appears at once in a pipe too.
    print(f"  {what:<47} {result}", flush=True)


def expect(what: str, *, found: object, wanted: object) -> None:
    if found != wanted:
        raise Unexpected(f"{what}: expected {wanted!r}, found {found!r}")


async def ask_for_facts(requester: Requester, service: Caller) -> None:
    began = time.perf_counter()
    answer = await requester.request_response(route="host.facts")
    milliseconds = (time.perf_counter() - began) * 1000
    facts = service.decode(answer, Facts)
    size = 0 if answer is None else len(answer.data)
    say("request_response host.facts", f"1 item, {size} bytes, {milliseconds:.1f} ms")
    memory = facts.memory_total / 2**30
    say("", f"{facts.hostname}: {facts.kernel}, {facts.cpus} CPUs, {memory:.1f} GiB")
    expect("the kernel", found=facts.kernel.split()[-1], wanted=_read("/proc/sys/kernel/osrelease"))


async def watch_the_load(requester: Requester, service: Caller) -> None:
    request = service.encode(LoadRequest(every=0.2))
    tally, busy = Tally(), []
    async with requester.request_stream(request, route="host.load", prefetch=2) as samples:
        async for payload in samples:
            tally.add(payload)
            busy.append(f"{service.decode(payload, Load).busy:.0%}")
            if tally.items == 5:
                break  # leaving the block cancels the stream: the server stops sampling
    say("request_stream   host.load every 0.2 s, 5", tally.result(samples.statistics()))
    say("", f"CPUs busy {', '.join(busy)}")


async def read_a_file(requester: Requester, service: Caller) -> None:
    tally, lines = Tally(), []
    name = service.encode(LARGEST)
    async with requester.request_stream(name, route="file.lines", prefetch=256) as stream:
        async for payload in stream:
            tally.add(payload)
            lines.append(service.decode(payload, str))
    say(f"request_stream   file.lines {LARGEST}", tally.result(stream.statistics()))
    expect(f"lines of {LARGEST}", found=len(lines), wanted=len(_lines(LARGEST)))
    expect(f"the text of {LARGEST}", found=lines == _lines(LARGEST), wanted=True)


async def read_slowly(requester: Requester, service: Caller) -> None:
    # The file has thousands of lines, and this reader takes one every 2 ms. The server waits for
    # it: at most one window of items is on the way.
    tally = Tally()
    name = service.encode(LARGEST)
    async with requester.request_stream(name, route="file.lines", prefetch=16) as stream:
        async for payload in stream:
            tally.add(payload)
            await trio.sleep(0.002)
            if tally.items == 200:
                break
    say("request_stream   the same, 200 read slowly", tally.result(stream.statistics()))


async def grep(requester: Requester, service: Caller) -> None:
    wanted = [Grep(LARGEST, "raise "), Grep("argparse.py", "raise "), Grep("typing.py", "deque")]
    tally, found = Tally(), list[tuple[str, str]]()
    patterns = [service.encode(one) for one in wanted]
    async with requester.request_channel(patterns, route="file.grep", prefetch=32) as matches:
        async for payload in matches:
            tally.add(payload)
            match = service.decode(payload, Match)
            found.append((match.file, match.line))
    say(
        f"request_channel  file.grep, {len(wanted)} patterns sent",
        tally.result(matches.statistics()),
    )
    here = [(one.file, line) for one in wanted for line in _lines(one.file) if one.pattern in line]
    expect("matching lines", found=len(found), wanted=len(here))
    expect("the text of the matching lines", found=found == here, wanted=True)


async def leave_notes(requester: Requester, service: Caller) -> None:
    before = await service.request_response("notes", returns=Notes)
    began = time.perf_counter()
    for number in range(NOTES):
        await service.fire_and_forget("note", f"note {number}")
    await requester.metadata_push(b"metadata of the client")
    # These messages have no response, so ask the service until it has received them.
    while True:
        after = await service.request_response("notes", returns=Notes)
        received = after.received - before.received
        pushes = after.metadata_pushes - before.metadata_pushes
        if (received, pushes) == (NOTES, 1):
            break
        await trio.sleep(0.01)
    rate = NOTES / (time.perf_counter() - began)
    say(f"fire_and_forget  note, {NOTES} times", f"all have arrived, {rate:,.0f} notes/s")
    say("metadata_push", "1 has arrived")


async def ask_for_what_is_not_there(requester: Requester, service: Caller) -> None:
    try:
        async with service.request_stream("file.lines", "../../etc/passwd") as stream:
            await stream.receive()
    except Invalid as error:
        say("request_stream   file.lines ../../etc/passwd", str(error))
    else:
        raise Unexpected("the server sent a file that is not available")


async def lose_the_connection(uri: str) -> None:
    """Read a stream, under a lease, that resumes over a new connection after a loss."""
    transports: list[FrameTransport] = []

    @asynccontextmanager
    async def dial() -> AsyncIterator[FrameTransport]:  # keeps the transports, to close one
        async with open_transport(uri) as transport:
            transports.append(transport)
            yield transport

    leases = LeaseOptions(Lease(100, 10))
    lines: list[str] = []
    async with connect(dial, data_mime_type=MIME, resume=ClientResume(), lease=leases) as requester:
        service = Caller(requester)
        async with service.request_stream("file.lines", LARGEST, returns=str) as stream:
            async for line in stream:
                lines.append(line)
                if len(lines) == 1000:
                    await transports[0].aclose()
    expect("the lines over two connections", found=lines, wanted=_lines(LARGEST))
    say("request_stream   cut and resumed", f"all {len(lines)} lines, each line once")


async def speak_the_draft(uri: str) -> None:
    """Use the service over the protocol of 2015, on the same address."""
    async with connect(uri, data_mime_type=MIME, protocol="reactivesocket") as requester:
        facts = await Caller(requester).request_response("host.facts", returns=Facts)
    say("request_response host.facts, ReactiveSocket draft", facts.kernel)


STEPS: Final = (
    ask_for_facts,
    watch_the_load,
    read_a_file,
    read_slowly,
    grep,
    leave_notes,
    ask_for_what_is_not_there,
)


async def main(uris: list[str]) -> None:
    for uri in uris:
        async with connect(uri, data_mime_type=MIME) as requester:
            print(f"\nclient over {uri}", flush=True)
            for step in STEPS:
                await step(requester, Caller(requester))
            expect("open streams", found=requester.statistics().open_streams, wanted=0)
        await lose_the_connection(uri)
        await speak_the_draft(uri)


def _lines(name: str) -> list[str]:
    with FILES[name].open(encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n") for line in file]


def _read(path: str) -> str:
    return Path(path).read_text().strip()


if __name__ == "__main__":
    try:
        trio.run(main, sys.argv[1:])
    except (RSocketError, trio.EndOfChannel, Unexpected) as error:
        sys.exit(f"{type(error).__name__}: {error}")
