"""``bench``: measure the throughput and the latency of a peer."""

from __future__ import annotations

import sys
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio import Payload
from rsocket_trio.errors import StreamError
from rsocket_trio.escapes import escaped
from rsocket_trio.uri import shown

from .bench_operations import OPERATIONS
from .client import run_client
from .data_types import DataType
from .exits import DONE, PEER_ERROR
from .output import json_line
from .pace import Pace
from .progress import Progress
from .standard_streams import print_bytes
from .tally import Tally

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Requester

__all__ = ["run"]

_PROGRESS_INTERVAL: Final = 0.5


def run(args: argparse.Namespace) -> int:
    """Measure for ``--duration`` seconds after ``--ramp`` and ``--warmup``; print the figures."""
    kind = DataType(args.data_mime, raw=args.raw)
    # What handlers of text and of bytes take; zeros are neither CBOR nor JSON.
    data = kind.sent(b"x" * args.size) if args.data is None else kind.read(args.data)
    return run_client(args, partial(_bench, args, Payload(data)))


async def _bench(args: argparse.Namespace, payload: Payload, requester: Requester) -> int:
    tally = Tally()
    operation = partial(OPERATIONS[args.interaction], requester, payload, args, tally)
    failure: Exception | None = None
    pace = None if args.rate is None else Pace(args.rate, args.ramp)

    async def worker(number: int) -> None:
        nonlocal failure
        try:
            if pace is None:
                await trio.sleep(args.ramp * number / args.concurrency)
            while True:
                sent = perf_counter_ns() if pace is None else await pace.next()
                try:
                    await operation(sent)
                except StreamError as error:
                    tally.error(error)
        except Exception as error:  # ends the bench; the nursery would wrap it in a group
            failure = failure or error
            nursery.cancel_scope.cancel(reason="a request failed")

    try:
        async with trio.open_nursery() as nursery:
            progress = Progress(sys.stderr, quiet=args.quiet)
            if progress.shown:
                nursery.start_soon(_show_progress, tally, progress)
            for number in range(args.concurrency):
                nursery.start_soon(worker, number)
            await trio.sleep(args.ramp + args.warmup)
            tally.start()
            await trio.sleep(args.duration)
            tally.stop()
            nursery.cancel_scope.cancel(reason="the measurement is over")
    finally:
        # Also what was measured until the connection was lost, or until Ctrl-C.
        if tally.phase == "measuring":
            _print(tally, pace, args)
    if failure is not None:
        raise failure
    return PEER_ERROR if tally.errors else DONE


def _print(tally: Tally, pace: Pace | None, args: argparse.Namespace) -> None:
    whole = tally.stopped
    tally.stop()
    figures = _figures(tally, args)
    if pace is not None:
        figures |= {"intended_per_second": args.rate, "not_begun": pace.late}
    figures |= {"whole": whole, "latency_ms": tally.latencies_ms()}
    print_bytes(json_line(figures) if args.json else _table(figures))
    if tally.first_error is not None and not args.quiet:
        print(f"first error: {escaped(str(tally.first_error))}", file=sys.stderr)


async def _show_progress(tally: Tally, progress: Progress) -> None:
    try:
        while True:
            await trio.sleep(_PROGRESS_INTERVAL)
            rate, items = tally.per_second(tally.requests), tally.per_second(tally.items)
            progress.show(f"{tally.phase}: {rate:,.0f} requests/s, {items:,.0f} items/s")
    finally:
        progress.clear()


def _figures(tally: Tally, args: argparse.Namespace) -> dict[str, object]:
    return {
        "uri": shown(args.uri),
        "interaction": args.interaction,
        "concurrency": args.concurrency,
        "seconds": round(tally.seconds, 3),
        "requests": tally.requests,
        "requests_per_second": round(tally.per_second(tally.requests), 1),
        "items": tally.items,
        "items_per_second": round(tally.per_second(tally.items), 1),
        "errors": dict(tally.errors),
    }


def _table(figures: dict[str, object]) -> bytes:
    lines: list[str] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            shown = "  ".join(f"{key} {_number(item)}" for key, item in value.items()) or "none"
        else:
            shown = _number(value)
        lines.append(f"{name.replace('_', ' '):20} {shown}\n")
    return "".join(lines).encode()


def _number(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
