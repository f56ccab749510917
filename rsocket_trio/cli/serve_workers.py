"""``serve --workers N``: the parent of several processes that serve the same target."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from rsocket_trio.uri import Uri
from rsocket_trio.workers import Workers, WorkersFailed
from rsocket_trio.workers.parent import Job, supervise

from .exits import Failure
from .logs import logger
from .serving import Deployment, serve_until_stopped

if TYPE_CHECKING:
    import argparse

__all__ = ["supervise_until_stopped"]


class _Generations:
    """Starts the next generation of workers at SIGHUP, as other commands read files again."""

    workers: Workers | None = None

    def reload(self) -> None:
        """Start it, in a thread that belongs to the run of trio."""
        if self.workers is None:
            return
        try:
            trio.from_thread.run(self.workers.reload)
        except WorkersFailed as error:
            raise Failure(str(error), error.status) from error


async def supervise_until_stopped(args: argparse.Namespace, uris: Sequence[Uri]) -> int:
    """Serve by ``--workers`` processes, until signals stop them.

    Returns:
        As `serve_until_stopped`.

    Raises:
        Failure: An address cannot be used, or the workers do not start.

    Checkpoint: always.
    If cancelled: all workers are killed.
    """
    generations = _Generations()
    deployment = Deployment(args)
    job = Job(
        run="rsocket_trio.cli.main:main",
        arguments=[args.argv],
        spread=args.stop_spread,
        grace=args.grace,
    )

    async def start(*, task_status: trio.TaskStatus[Workers]) -> None:
        try:
            await supervise(
                job,
                uris,
                workers=args.workers,
                max_connections=args.max_connections,
                start_timeout=args.start_timeout,
                health=deployment.health,
                task_status=task_status,
            )
        except WorkersFailed as error:
            raise Failure(str(error), error.status) from error

    async def work(workers: Workers) -> None:
        generations.workers = workers
        with trio.open_signal_receiver(signal.SIGUSR1) as signals:
            async for _ in signals:
                await _report(workers)

    with deployment.observing(None, lines=False):  # each worker writes those of its own calls
        return await serve_until_stopped(start, deployment, "running streams", work, [generations])


async def _report(workers: Workers) -> None:
    for each in workers.status():
        logger.info(
            "worker %d: generation %d, pid %d, %s, connections %d of %d",
            each.number,
            each.generation,
            each.pid,
            each.state,
            each.connections,
            each.accepted,
        )
    report = await workers.report()
    report.pop("by_route", None)  # these are many; `--metrics` has them
    logger.info("all workers: %s", json.dumps(report))
