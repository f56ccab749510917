"""Connect by ttrpc and make one call: `run_call`. Errors become exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import trio

from rsocket_trio import ttrpc
from rsocket_trio.errors import ConnectFailed, ConnectionClosed, ProtocolError
from rsocket_trio.escapes import escaped

from .exits import PEER_ERROR, unreachable
from .interrupt import Interruption, interruptible
from .logs import log_to_stderr
from .output import json_line
from .standard_streams import print_error_bytes
from .ttrpc_messages import Messages

if TYPE_CHECKING:
    import argparse

__all__ = ["run_call"]


def run_call(
    args: argparse.Namespace, messages: Messages, call: Callable[[ttrpc.Client], Awaitable[int]]
) -> int:
    """Connect to the peer, run ``call`` within ``--deadline``, and close the connection.

    Returns:
        The result of ``call``, 1 after an error of the peer or the deadline, which are printed, or
        128 plus the number of the signal that stopped it.

    Raises:
        Failure: There is no connection, or it was lost.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    log_to_stderr(args)

    async def connected(stop: Interruption) -> int:
        status = PEER_ERROR
        async with ttrpc.connect(args.uri) as client:
            with stop.work(prints=args.module == "ttrpc_stream"):
                limit = float("inf") if args.deadline is None else args.deadline
                with trio.move_on_after(limit) as scope:
                    status = await call(client)
                if scope.cancelled_caught:
                    raise ttrpc.DeadlineExceeded(f"the call did not end within {limit:g} s")
        return status

    try:
        return trio.run(interruptible, connected)
    except ttrpc.CallError as error:
        _print_error(error, messages, as_json=args.json)
        return PEER_ERROR
    except (ConnectFailed, ConnectionClosed, ProtocolError) as error:
        raise unreachable(args.uri, error) from error


def _print_error(error: ttrpc.CallError, messages: Messages, *, as_json: bool) -> None:
    details = [messages.detail(each.type_url, each.value) for each in error.details]
    if as_json:
        code = error.code
        fields: dict[str, Any] = {
            "code": int(code),
            "status": code.name if isinstance(code, ttrpc.StatusCode) else None,
            "message": error.message,
            "details": details,
        }
        print_error_bytes(json_line({"error": fields}))
        return
    # The text is one of the peer, which must not control the terminal.
    print(f"rsocket-trio: error: {escaped(str(error))}", file=sys.stderr)
    for detail in details:
        print_error_bytes(b"rsocket-trio: detail: " + json_line(detail))
