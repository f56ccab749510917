"""An application on free ports, for the length of a test: `serving`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TypedDict, Unpack

import trio

from ..config import ConnectionConfig
from ..connection.resume_options import ServerResume
from ..health import Health
from ..interactions.block import Block, ungrouped
from ..lease import LeaseOptions, LeaseSource
from ..responder import Acceptor, Responder
from ..routing.router import Router
from ..server import Server, serve
from ..sockets.allowed import Allowed
from ..sockets.goodbyes import ConnectionAge

__all__ = ["ServeOptions", "running", "serving"]


class ServeOptions(TypedDict, total=False):
    """The options of `rsocket_trio.serve`."""

    config: ConnectionConfig
    ssl_context: ssl.SSLContext | None
    resume: ServerResume | None
    lease: LeaseOptions | LeaseSource | None
    protocols: Collection[str]
    max_connections: int | None
    max_age: ConnectionAge | None
    allowed_origins: Collection[str] | None
    allow: Allowed | None
    health: Health | None
    reuse_port: bool


@asynccontextmanager
async def serving(
    responder: Responder | Acceptor,
    *uris: str,
    override: Mapping[type, object] | None = None,
    **options: Unpack[ServeOptions],
) -> AsyncIterator[Server]:
    """Serve an application on real sockets, with its lifespan.

    ``async with serving(router) as server, connect(server.uris[0]) as requester: ...``

    Args:
        responder: The application.
        uris: Where to listen; by default a free port of ``tcp://127.0.0.1``.
        override: What is provided in place of what, as by `Router.override`: a type, and an object
            or a provider.
        options: As for `rsocket_trio.serve`.

    Yields:
        The server. It is stopped at the end of the block, and its lifespan is left.

    Raises:
        TypeError: ``override`` is for a `Router`; and as `rsocket_trio.serve`.
        ValueError: As `rsocket_trio.serve`.
        LookupError: As `Router.override`.
        OSError: It cannot listen there.

    Checkpoint: on entering and on leaving.
    If cancelled: the server ends at once.
    """
    with ExitStack() as stack:
        for kind, source in (override or {}).items():
            if not isinstance(responder, Router):
                raise TypeError("override= is for a Router")
            stack.enter_context(responder.override(kind, source))
        addresses = uris or ("tcp://127.0.0.1:0",)
        async with running() as nursery:
            start = partial(serve, responder, *addresses, **options)
            server: Server = await nursery.start(start)
            try:
                yield server
            finally:
                await server.aclose()


@asynccontextmanager
async def running() -> AsyncIterator[trio.Nursery]:
    """Give a nursery and wait for its tasks; cancel them if the block fails, whose error is raised.

    Checkpoint: if there are tasks, at the end of the block.
    If cancelled: the tasks are cancelled.
    """
    block, own = Block(), list[BaseException]()
    with ungrouped(own), block.around():
        async with trio.open_nursery() as nursery:
            with block.body():
                yield nursery
            if block.error is not None:
                own.append(block.error)
                nursery.cancel_scope.cancel(reason="the block beside it failed")
