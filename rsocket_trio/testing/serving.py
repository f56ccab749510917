"""An application on free ports, for the length of a test: `serving`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Final

from ..config import ConnectionConfig
from ..connection.resume_options import ServerResume
from ..lease import LeaseOptions, LeaseSource
from ..responder import Acceptor, Responder
from ..routing.router import Router
from ..server import Server, serve
from .in_memory import running

__all__ = ["serving"]

_DEFAULTS: Final = ConnectionConfig()


@asynccontextmanager
async def serving(
    responder: Responder | Acceptor,
    *uris: str,
    override: Mapping[type, object] | None = None,
    config: ConnectionConfig = _DEFAULTS,
    ssl_context: ssl.SSLContext | None = None,
    resume: ServerResume | None = None,
    lease: LeaseOptions | LeaseSource | None = None,
    max_connections: int | None = None,
) -> AsyncIterator[Server]:
    """Serve an application on real sockets, with its lifespan.

    ``async with serving(router) as server, connect(server.uris[0]) as requester: ...``

    Args:
        responder: The application.
        uris: Where to listen; by default a free port of ``tcp://127.0.0.1``.
        override: What is provided in place of what, as by `Router.override`: a type, and an object
            or a provider.
        config: As for `rsocket_trio.serve`; so are the next four.
        ssl_context: For ``tls`` and ``wss``.
        resume: Resumption.
        lease: Leases.
        max_connections: The most connections at once.

    Yields:
        The server. It is stopped at the end of the block, and its lifespan is left.

    Raises:
        TypeError: ``override`` is for a `Router`.
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
            start = partial(
                serve,
                responder,
                *addresses,
                config=config,
                ssl_context=ssl_context,
                resume=resume,
                lease=lease,
                max_connections=max_connections,
            )
            server: Server = await nursery.start(start)
            try:
                yield server
            finally:
                await server.aclose()
