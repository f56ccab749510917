"""The server that takes results from Spark, and shows them: to any client, and on a page.

    python examples/pipeline/alerts_server.py --listen tcp://127.0.0.1:7800 --http 8000
    rsocket-trio stream tcp://127.0.0.1:7800 --route alerts

Spark writes to the route ``results``, in batches that arrive once. The streams ``minutes`` and
``alerts`` give the results so far, and then each new one. The page uses them over WebSocket.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import attrs
import trio

from rsocket_trio import Router, Server, serve
from rsocket_trio.spark import CommittedBatch, sink_receiver

sys.path.append(str(Path(__file__).parents[1]))

from web_page import Site, start_page

from pipeline import bundle
from pipeline.history import History
from pipeline.minute import Minute

MINUTES_KEPT: Final = 10_000
ALERTS_KEPT: Final = 1000
FIELDS: Final = tuple(field.name for field in attrs.fields(Minute))


class Results:
    """The latest minutes and alerts."""

    def __init__(self) -> None:
        self.minutes: History[Minute] = History(MINUTES_KEPT)
        self.alerts: History[Minute] = History(ALERTS_KEPT)

    async def take(self, batch: CommittedBatch) -> None:
        """Take a batch that Spark has committed."""
        rows = [Minute(**{name: row.get(name) for name in FIELDS}) async for row in batch.rows()]
        rows.sort(key=lambda row: (row.minute, row.service))
        self.minutes.add(rows)
        self.alerts.add([row for row in rows if row.alert])

    def router(self) -> Router:
        """Return a router with the streams."""
        router = Router()

        @router.request_stream("minutes")
        async def minutes() -> AsyncIterator[Minute]:
            return self.minutes.follow()

        @router.request_stream("alerts")
        async def alerts() -> AsyncIterator[Minute]:
            return self.alerts.follow()

        return router


def site(results: Results, modules: Path) -> Site:
    """Return the page, which gets no other route than the streams."""
    files = {name: (bundle.PAGE / name).read_bytes() for name in ("index.html", "page.css")}
    files["bundle.js"] = bundle.bundled(modules)
    return Site(files, results.router())


async def main(listen: str, http_port: int, modules: Path) -> None:
    results = Results()
    router = results.router()
    page = await trio.to_thread.run_sync(site, results, modules)
    async with sink_receiver(router, "results", results.take), trio.open_nursery() as nursery:
        nursery.start_soon(until_stopped, nursery.cancel_scope)
        server: Server = await nursery.start(serve, router, listen)
        url = await start_page(nursery, page, http_port)
        print(f"listening on {server.uris[0]}\nlistening on {url}", flush=True)


async def until_stopped(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take results from Spark, and show them.")
    parser.add_argument("--listen", default="tcp://127.0.0.1:7800", help="address for RSocket")
    parser.add_argument("--http", type=int, default=8000, help="port of the page; 0: any free port")
    parser.add_argument(
        "--modules",
        type=Path,
        default=bundle.PAGE / "node_modules",
        help="directory with rsocket-js and esbuild, for the page",
    )
    args = parser.parse_args()
    try:
        trio.run(main, args.listen, args.http, args.modules)
    except* OSError as errors:
        sys.exit(f"cannot listen: {errors.exceptions[0]}")
