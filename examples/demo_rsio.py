"""The part of the demo with Reactive Streams: publishers of another process, over rsio.

As a program, ``demo_rsio.py`` is the server, with handlers of host_telemetry.py and a publisher of
numbers in blocks. The demo subscribes to them, and checks what comes.
"""

from __future__ import annotations

import json
import signal
import time
from array import array
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import host_telemetry
import trio
from demo_processes import Failed, addresses, python, running

from rsocket_trio import Router, RSocketError, rsio
from rsocket_trio.reactive_streams import Broadcast, Publisher, collect, pipe
from rsocket_trio.reactive_streams import operators as ops

MIME: Final = "application/json"
FILE: Final = "argparse.py"
NUMBERS: Final = 1_000_000
BLOCK: Final = 8192

router = Router()
router.request_stream("lines")(host_telemetry.lines)
router.request_stream("load")(host_telemetry.load)


@router.request_stream("numbers")
async def numbers() -> Publisher[bytes]:
    """Return a publisher of all numbers, each 8 octets. Its source makes them in blocks."""
    return rsio.fixed_size(blocks, 8, packed=True)


def blocks() -> Iterator[bytes]:
    for first in count(0, BLOCK):
        yield array("q", range(first, first + BLOCK)).tobytes()


# -- the server -----------------------------------------------------------------------------------


async def serve_publishers() -> None:
    """Serve until a signal stops the process."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            server = await nursery.start(_serve)
            print("listening on", *server.uris, flush=True)
            await anext(signals)
            await server.aclose()


async def _serve(*, task_status: trio.TaskStatus[rsio.RsioServer]) -> None:
    await rsio.serve(router, "rsio://127.0.0.1:0", data_mime_type=MIME, task_status=task_status)


# -- its client -----------------------------------------------------------------------------------


async def subscribe_over_rsio() -> None:
    """Start the server, and subscribe to its publishers."""
    async with running("rsio server", python(__file__)) as process:
        [uri] = await addresses("rsio server", process, 1)
        print(f"\npublishers over a network: {uri}", flush=True)
        try:
            async with rsio.connect(uri) as connection:
                await read_lines(connection)
                await share_one_source(connection)
                await add_up(connection)
                await subscribe_to_nothing(connection)
        except RSocketError as error:
            raise Failed(f"a publisher failed: {error}") from error


async def read_lines(connection: rsio.Connection) -> None:
    """The demand passes through the operators, the network and the handler, to the file."""
    classes = pipe(
        connection.publisher(f"lines?name={FILE}"),
        ops.map(json.loads),
        ops.filter(lambda line: line.startswith("class ")),
        ops.take(3),
    )
    found = await collect(classes)
    if len(found) != 3 or not all(line.startswith("class ") for line in found):
        raise Failed(f"the classes of {FILE} are {found}")
    say(f"the first classes of {FILE}", ", ".join(line.split()[1].strip(":(") for line in found))


async def share_one_source(connection: rsio.Connection) -> None:
    """One subscription over the network, two readers here."""
    shared: Broadcast[Any] = Broadcast()
    pipe(connection.publisher("load?every=0.2"), ops.map(json.loads), ops.take(3)).subscribe(shared)
    found: list[list[Any]] = [[], []]

    async def read(samples: list[Any]) -> None:
        samples += [sample async for sample in shared]

    async with trio.open_nursery() as nursery:
        for samples in found:
            nursery.start_soon(read, samples)
    if len(found[0]) != 3 or found[0] != found[1]:
        raise Failed(f"the readers of one source have got {found}")
    say("one source for two readers", "3 samples each, and the same ones")


async def add_up(connection: rsio.Connection) -> None:
    """Elements of a fixed size travel packed: nothing is done for each of them."""
    total, octets, began = 0, 0, time.perf_counter()
    publisher = connection.publisher("numbers")
    async with publisher.open_packed(limit=NUMBERS) as packed:
        async for block in packed:
            total += sum(block.array("q"))
            octets += len(block.data)
    seconds = time.perf_counter() - began
    if total != sum(range(NUMBERS)) or octets != 8 * NUMBERS:
        raise Failed(f"the sum of {octets // 8} numbers is {total}")
    say(f"{NUMBERS:,} packed numbers", f"{NUMBERS / seconds:,.0f} numbers/s; the sum is right")


async def subscribe_to_nothing(connection: rsio.Connection) -> None:
    try:
        await collect(connection.publisher("absent"))
    except rsio.PublisherError as error:
        say("a publisher that is not there", str(error))
    else:
        raise Failed("a publisher that does not exist has completed")


def say(what: str, result: str) -> None:
    print(f"  {what:<47} {result}", flush=True)


if __name__ == "__main__":
    trio.run(serve_publishers)
