"""What carries frames: byte streams, WebSocket, memory. Nothing here looks inside a frame."""

from contextlib import asynccontextmanager

import trio

from ..errors import ConnectFailed
from ..uri import parse_uri
from .base import TransportInfo
from .byte_stream import ByteStreamTransport
from .tcp import *
from .tcp import bound_uri, connect_tcp, listen_tcp, socket_addresses


@asynccontextmanager
async def open_transport(uri, *, headers=(), ssl_context=None, max_frame_size):
    uri = parse_uri(uri) if isinstance(uri, str) else uri
    try:
        s = await connect_tcp(uri)
    except OSError as e:
        raise ConnectFailed(f"cannot connect to {uri}: {e}") from e
    async with ByteStreamTransport(
        s, info=TransportInfo(scheme="tcp"), max_frame_size=max_frame_size
    ) as t:
        yield t


async def serve_listener(
    uri,
    handle,
    *,
    ssl_context=None,
    max_frame_size,
    handshake_timeout,
    handler_nursery,
    task_status,
):
    ls = await listen_tcp(uri)

    async def h(s):
        await handle(
            ByteStreamTransport(s, info=TransportInfo(scheme="tcp"), max_frame_size=max_frame_size)
        )

    async with trio.open_nursery() as n:
        await n.start(
            lambda task_status: trio.serve_listeners(
                h, ls, handler_nursery=handler_nursery, task_status=task_status
            )
        )
        task_status.started([bound_uri(uri, l) for l in ls])
