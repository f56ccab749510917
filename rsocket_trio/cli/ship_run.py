"""One run of ``lumberjack ship``: `ShipRun`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio import ReloadableContext
from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.logfiles import (
    FilesMissing,
    Following,
    Reading,
    Registry,
    Shipment,
    Source,
    max_open_files,
)
from rsocket_trio.lumberjack import Shipper, ShipperConfig, connect
from rsocket_trio.os_support import STOP_SIGNALS

from .exits import DONE, LOCAL_IO, UNREACHABLE, USAGE, Failure
from .hangup import reload_at_hangup
from .ship_status import ShipStatus

if TYPE_CHECKING:
    import argparse

__all__ = ["ShipRun"]

_SPARE: Final = 2
"""Batches that are read while as many as the servers can take are on the way."""


class ShipRun:
    """Ships files until they end, a signal comes, or nothing is acknowledged in time.

    Args:
        args: The parsed arguments.
        sources: The files.
        registry: What is acknowledged already.
        registry_file: Where the registry is, for texts.
        reading: How files are read.
        following: How they are followed, if they are.
        config: How events are sent.
        ssl_context: For TLS. SIGHUP loads it again.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        sources: Sequence[Source],
        *,
        registry: Registry,
        registry_file: Path | None,
        reading: Reading,
        following: Following | None,
        config: ShipperConfig,
        ssl_context: ReloadableContext | None,
    ) -> None:
        self._args = args
        self._config = config
        self._ssl_context = ssl_context
        self._shipper: Shipper | None = None
        hosts = len(set(args.to)) if config.load_balance else 1
        self._shipment = Shipment(
            sources,
            self._send,
            registry=registry,
            reading=reading,
            following=following,
            in_flight=config.pipelining * hosts + _SPARE,
            max_open=max_open_files(),
        )
        self._status = ShipStatus(self._shipment, registry_file, args)
        self._signal: int | None = None
        self._failure: Exception | None = None
        self._missing: Failure | None = None
        self._everything = trio.CancelScope()

    async def run(self) -> int:
        """Ship.

        Returns:
            The exit status.

        Raises:
            Failure: See `rsocket_trio.cli.lumberjack_ship.run`.
            BrokenPipeError: The reader of the output has closed the pipe.

        Checkpoint: where it waits.
        If cancelled: what is acknowledged is remembered.
        """
        done = False
        with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_signals, signals)
                await nursery.start(reload_at_hangup, [self._ssl_context], self._stop)
                nursery.start_soon(self._guarded, self._status.run)
                nursery.start_soon(self._watch_time)
                with self._everything:
                    try:
                        done = await self._ship()
                    except Exception as error:  # raised below: the nursery would wrap it in a group
                        self._failure = self._failure or error
                nursery.cancel_scope.cancel(reason="the run is over")
        if self._failure is not None:
            raise self._failure
        if self._missing is None or self._shipment.counts.opened:
            await self._status.finish(done=done)
        if self._missing is not None:
            raise self._missing
        stopped = self._signal is not None and not (done and self._args.follow)
        return DONE if not stopped else 128 + (self._signal or 0)

    async def _ship(self) -> bool:
        try:
            async with connect(
                self._args.to, config=self._config, ssl_context=self._ssl_context
            ) as self._shipper:
                self._status.shipper = self._shipper
                return await self._shipment.run()
        except FilesMissing as error:  # raised by `run`, behind the status
            self._missing = Failure(str(error), USAGE)
            return True
        except LocalProtocolError as error:
            raise Failure(str(error), USAGE) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            text = f"a log file or the registry failed: {where}{error.strerror or error}"
            raise Failure(text, LOCAL_IO) from error

    async def _send(self, events: list[bytes]) -> None:
        assert self._shipper is not None
        await self._shipper.send(events)

    async def _watch_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._stop(number)

    def _stop(self, number: int) -> None:
        if self._signal is None:
            self._signal = number
            self._status.state = "stopping"
            self._shipment.stop(self._args.grace)
        else:
            self._everything.cancel(reason="a second signal came")

    async def _watch_time(self) -> None:
        """End the run if nothing is acknowledged for ``--timeout``, although something waits."""
        if self._args.timeout is None:
            return
        counts = self._shipment.counts
        while True:
            before = counts.acknowledged_lines
            if counts.waiting == 0:
                await trio.sleep(min(0.1, self._args.timeout))
                continue
            await trio.sleep(self._args.timeout)
            if counts.waiting and counts.acknowledged_lines == before:
                self._fail(
                    Failure(
                        f"gave up: nothing was acknowledged for {self._args.timeout:g} s"
                        f" (--timeout); lines that wait: {counts.waiting}; {self._connected()}",
                        UNREACHABLE,
                    )
                )
                return

    def _connected(self) -> str:
        if self._shipper is not None and self._shipper.statistics().connections:
            return (
                "a server is connected, but acknowledges nothing: its disk or spool may be full, as"
                " its log says then, or it does not speak Lumberjack"
            )
        return "no server is connected; -v logs each attempt"

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (Failure, OSError) as error:  # raised by `run`: the nursery would wrap it
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._everything.cancel(reason="the run failed")
