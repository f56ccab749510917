"""Two workers against one, with 64 connections: ``python -m benchmarks.workers``.

``--peers go java`` asks servers of other stacks, too, by the same client.

What counts is the processor time of the server's processes, so neither the client nor other
programs of the machine falsify it: the requests that two free cores would answer in a second, one
of them for each worker, and the parent on both in turn. Each connection has one request in flight,
and all of them are sent at once: a client that is slower than the server would give it its work in
small pieces, and each piece costs a turn of the loop. A peer is one process whose threads use both
cores.
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
from benchmarks.stacks import STACKS
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
def served(command: list[str]) -> Iterator[tuple[str, list[int]]]:
    """Start a server that says its address; yield it, and the processes whose time counts."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            uri, *pids = process.stdout.readline().removeprefix("READY ").split()
            yield uri, [process.pid, *map(int, pids)]
        finally:
            process.terminate()


def measure(given: argparse.Namespace, command: list[str], cores: int, warm_up: float) -> float:
    """Return the requests that two free cores would answer in a second.

    Args:
        given: The options.
        command: Starts the server.
        cores: How many of them it can use.
        warm_up: The seconds of processor time after which its code is compiled.
    """
    rounds, connections, in_flight = given.rounds, given.connections, given.in_flight
    with served(command) as (uri, pids):
        raws = [Raw(uri) for _ in range(connections)]
        requests = [Requests(b"\0\0\0" + b"x" * 128) for _ in raws]

        def ask_all() -> None:
            # The servers begin when all is there, as it is where they are the slower part.
            for each in pids:
                os.kill(each, signal.SIGSTOP)
            for raw, queue in zip(raws, requests, strict=True):
                raw.socket.sendall(queue.take(in_flight))
            for each in pids:
                os.kill(each, signal.SIGCONT)
            for raw in raws:
                for _ in range(in_flight):
                    raw.receive_frame()

        for _ in range(rounds // 5):
            ask_all()
        while sum(map(processor_time, pids)) < warm_up:
            ask_all()
        before = [processor_time(each) for each in pids]
        for _ in range(rounds):
            ask_all()
        time.sleep(0.05)  # the servers end their last turns
        used = [processor_time(each) - earlier for each, earlier in zip(pids, before, strict=True)]
        for raw in raws:
            raw.socket.close()
    # A worker is on one core at a time; a run of less than a tick has no measure.
    busiest = max(*used[1:], sum(used) / cores, 1 / TICKS)
    return float(rounds * connections * in_flight / busiest)


def run() -> None:
    """Measure in turns, and print medians."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    options.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--rounds", type=int, default=2000)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--in-flight", type=int, default=1, help="requests on each connection")
    options.add_argument(
        "--peers", nargs="+", choices=["go", "java"], default=[], help="servers of other stacks"
    )
    given = options.parse_args()
    if given.parent is not None:
        trio.run(parent, given.parent)
        return
    itself = [sys.executable, "-m", "benchmarks.workers", "--parent"]
    servers = {
        "one worker": ([*itself, "1"], 1, 0.0),
        "two workers": ([*itself, "2"], 2, 0.0),
    }
    for stack in STACKS:
        if stack.name in given.peers:
            why = stack.missing()
            if why is not None:
                sys.exit(f"{stack.title}: {why}")
            servers[stack.title] = ([*stack.server, "tcp"], 2, stack.warm_up)
    rates: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(given.pairs):
        for name, server in servers.items():
            rates[name].append(measure(given, *server))
            print(f"{name}: {rates[name][-1]:.0f} requests/s on two cores", flush=True)
    two = rates.pop("two workers")
    for name, found in rates.items():
        ratios = [ours / each for ours, each in zip(two, found, strict=True)]
        print(f"two workers against {name}: {statistics.median(ratios):.2f} times")


if __name__ == "__main__":
    run()
