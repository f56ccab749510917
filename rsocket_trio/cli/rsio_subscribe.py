"""``rsio subscribe``: print the elements of a publisher as they arrive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import trio

from rsocket_trio import rsio
from rsocket_trio.errors import ConnectFailed, ConnectionClosed
from rsocket_trio.escapes import escaped
from rsocket_trio.reactive_streams import open_iter
from rsocket_trio.uri import without_query

from .certificates import client_context
from .exits import DONE, PEER_ERROR, USAGE, Failure, unreachable
from .interrupt import Interruption, interruptible
from .logs import log_to_stderr
from .output import json_line, text_or_hex
from .standard_streams import print_error_bytes
from .stdio import Writer

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Subscribe, and print the elements until the end, or ``--take`` of them.

    Returns:
        0, or 1 after an error of the publisher, which is printed, or 128 plus the number of the
        signal that stopped it.

    Raises:
        Failure: There is no connection, or it was lost.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    log_to_stderr(args)
    context = client_context(
        args, "rsios:// and rsio+wss://", encrypted=rsio.rsio_uri(args.uri).is_encrypted
    )
    config = rsio.RsioConfig(
        connect_timeout=args.timeout, hello_timeout=args.timeout, goodbye_timeout=1.0
    )

    async def connected(stop: Interruption) -> int:
        async with rsio.connect(args.uri, config=config, ssl_context=context) as connection:
            with stop.work(prints=True):
                await _print(connection, args)
        return DONE

    try:
        return trio.run(interruptible, connected)
    except rsio.PublisherError as error:
        _print_error(error, args.name, as_json=args.json)
        return PEER_ERROR
    except (ConnectFailed, ConnectionClosed) as error:
        raise unreachable(rsio.rsio_uri(args.uri), error) from error


async def _print(connection: rsio.Connection, args: argparse.Namespace) -> None:
    writer = Writer()
    try:
        publisher = connection.publisher(args.name)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    async with open_iter(publisher, args.prefetch, limit=args.take) as elements:
        async for element in elements:
            await writer.write(_line(element, as_json=args.json))


def _line(element: bytes, *, as_json: bool) -> bytes:
    if not as_json:
        return element + b"\n"
    return json_line(text_or_hex("data", element))


def _print_error(error: rsio.PublisherError, name: str, *, as_json: bool) -> None:
    if as_json:
        print_error_bytes(json_line({"error": {"message": error.text}}))
        return
    # The text is one of the peer, which must not control the terminal.
    print(
        f"rsocket-trio: error: publisher {without_query(name)!a}: {escaped(error.text)}",
        file=sys.stderr,
    )
