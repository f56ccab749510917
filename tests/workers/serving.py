"""What the workers of these tests serve, and how they are started."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from rsocket_trio import (
    Caller,
    CallMeter,
    ConnectionConfig,
    Health,
    Router,
    ServerResume,
    connect,
    rsio,
    serve,
)
from rsocket_trio.metrics import worker_metrics
from rsocket_trio.workers import Workers, serve_workers, this_worker

ADDRESS = "tcp://127.0.0.1:0"
RSIO = "rsio://127.0.0.1:0"

app = Router()


@app.request_response("who")
async def who() -> list[int]:
    """Say which process answers."""
    info = this_worker()
    assert info is not None
    return [os.getpid(), info.number, info.generation]


@app.request_stream("ticks")
async def ticks(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number
        await trio.sleep(0.01)


async def main() -> None:
    """Serve: the function of a worker."""
    await serve(app, ADDRESS)


async def measured() -> None:
    """Serve two wires, with metrics and a count of calls."""
    worker_metrics()
    router = Router(middleware=[CallMeter()])
    router.include(app)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve, {}, RSIO)
        await serve(router, ADDRESS)
        nursery.cancel_scope.cancel()


async def limited() -> None:
    await serve(app, ADDRESS, "ws://127.0.0.1:0/x", health=Health())


async def resumable() -> None:
    await serve(app, ADDRESS, resume=ServerResume())


async def patient() -> None:
    """Serve clients that send nothing for a while."""
    await serve(app, ADDRESS, config=ConnectionConfig(setup_timeout=100))


async def fails_if() -> None:
    """Fail at the start if there is a file."""
    if os.path.exists(os.environ["FAILS_IF"]):
        raise SystemExit(3)
    await serve(app, ADDRESS)


async def dies() -> None:
    """Fail at the start."""
    raise SystemExit(7)


async def never() -> None:
    """Never listen."""
    await trio.sleep_forever()


async def stubborn() -> None:
    """Serve, and do not end when the server does."""
    with trio.CancelScope(shield=True):
        await serve(app, ADDRESS)
        while True:
            await trio.sleep(1)


async def second_generation_fails() -> None:
    info = this_worker()
    assert info is not None
    if info.generation == 2:
        raise SystemExit(9)
    await serve(app, ADDRESS)


@asynccontextmanager
async def workers(name: str = "main", *uris: str, **options: Any) -> AsyncIterator[Workers]:
    """Start workers; they are killed with the block."""
    settings = {"workers": 2, "grace": 2.0} | options
    async with trio.open_nursery() as nursery:
        running = await nursery.start(
            partial(
                serve_workers, f"tests.workers.serving:{name}", *(uris or [ADDRESS]), **settings
            )
        )
        yield running
        nursery.cancel_scope.cancel()


async def ask(uri: str) -> list[int]:
    """Ask by a connection of its own which worker answers."""
    async with connect(uri) as requester:
        return await Caller(requester).request_response("who", returns=list[int])
