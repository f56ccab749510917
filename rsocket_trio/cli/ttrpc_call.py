"""``ttrpc call``: send one request and print the response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsocket_trio import ttrpc

from .exits import DONE, USAGE, Failure
from .payloads import read_value
from .stdio import Writer
from .ttrpc_client import run_call
from .ttrpc_messages import messages_of

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Call the method and print its response.

    Raises:
        Failure: The arguments are wrong, there is no connection, or it was lost.
    """
    if args.data is not None and args.data_option is not None:
        raise Failure("DATA and --data mean the same: give only one", USAGE)
    messages = messages_of(args, streaming=False)
    given = args.data_option if args.data is None else args.data
    request = messages.read(read_value(given or ""))

    async def call(client: ttrpc.Client) -> int:
        response = await client.unary(messages.method, request, metadata=args.metadata)
        await Writer().write(messages.line(response))
        return DONE

    return run_call(args, messages, call)
