"""Two workers against one, with 64 connections: ``python -m benchmarks.workers``.

What counts is the processor time of the server's processes, so neither the client nor other
programs of the machine falsify it: the requests that two free cores would answer in a second, one
of them for each worker, and the parent on both in turn. Each connection has one request in flight,
and all of them are sent at once: a client that is slower than the server would give it its work in
small pieces, and each piece costs a turn of the loop.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio

from benchmarks.ours_server import Echo
from benchmarks.raw_connection import Raw, Requests
from rsocket_trio import serve
from rsocket_trio.workers import Workers, serve_workers

ADDRESS = "tcp://127.0.0.1:0"
TICKS = os.sysconf("SC_CLK_TCK")


async def main() -> None:
    """Serve: the function of a worker."""
    await serve(Echo(), ADDRESS)


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def parent(workers: int) -> None:
    """Run the parent: it prints its address and its workers, and serves until it is killed."""
    async with trio.open_nursery() as nursery:
        run = partial(serve_workers, "benchmarks.workers:main", ADDRESS, workers=workers)
        running: Workers = await nursery.start(run)
        print(running.uris[0], *(each.pid for each in running.status()), flush=True)


@contextmanager
def served(workers: int) -> Iterator[tuple[str, int, list[int]]]:
    """Start a parent; yield the address, its process and the workers'."""
    command = [sys.executable, "-m", "benchmarks.workers", "--parent", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            uri, *pids = process.stdout.readline().split()
            yield uri, process.pid, [int(each) for each in pids]
        finally:
            process.terminate()


def measure(workers: int, connections: int, rounds: int) -> float:
    """Return the requests that two free cores would answer in a second."""
    with served(workers) as (uri, pid, pids):
        raws = [Raw(uri) for _ in range(connections)]
        requests = [Requests(b"\0\0\0" + b"x" * 128) for _ in raws]

        def ask_all() -> None:
            # The workers begin when all is there, as it is where they are the slower part.
            for each in pids:
                os.kill(each, signal.SIGSTOP)
            for raw, queue in zip(raws, requests, strict=True):
                raw.socket.sendall(queue.take(1))
            for each in pids:
                os.kill(each, signal.SIGCONT)
            for raw in raws:
                raw.receive_frame()

        for _ in range(rounds // 5):
            ask_all()
        before = [processor_time(each) for each in (pid, *pids)]
        for _ in range(rounds):
            ask_all()
        time.sleep(0.05)  # the servers end their last turns
        used = [
            processor_time(each) - earlier
            for each, earlier in zip((pid, *pids), before, strict=True)
        ]
        for raw in raws:
            raw.socket.close()
    # A run of less than a tick has no measure.
    busiest = max(*used[1:], sum(used) / min(workers, 2), 1 / TICKS)
    return rounds * connections / busiest


def run() -> None:
    """Measure in turns, and print medians."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    options.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--rounds", type=int, default=2000)
    options.add_argument("--connections", type=int, default=64)
    given = options.parse_args()
    if given.parent is not None:
        trio.run(parent, given.parent)
        return
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(given.pairs):
        for workers, found in rates.items():
            found.append(measure(workers, given.connections, given.rounds))
            print(f"{workers} workers: {found[-1]:.0f} requests/s on two cores", flush=True)
    ratios = [two / one for one, two in zip(rates[1], rates[2], strict=True)]
    print(f"two workers against one: {statistics.median(ratios):.2f} times")


if __name__ == "__main__":
    run()
