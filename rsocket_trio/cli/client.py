"""Connect as the options say and run a command: `run_client`.

Options become arguments of `rsocket_trio.connect`, and its errors become exit statuses. Signals
end the command in order (`rsocket_trio.cli.interrupt`).
"""

from __future__ import annotations

import logging
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from rsocket_trio import (
    Budget,
    ClientResume,
    ConnectionConfig,
    ConnectionState,
    LeaseOptions,
    Payload,
    Reconnect,
    Repeats,
    Retry,
    connect,
)
from rsocket_trio.errors import (
    ConnectFailed,
    ConnectionClosed,
    LocalProtocolError,
    MetadataError,
    ProtocolError,
    RejectedResume,
    SetupError,
    StreamError,
)
from rsocket_trio.uri import Uri, parse_uri, shown

from .certificates import client_context
from .data_types import DataType, hint
from .exits import PEER_ERROR, TIMED_OUT, UNREACHABLE, USAGE, Failure, unreachable
from .interrupt import Interruption, interruptible
from .logs import log_to_stderr, logger
from .metadata import setup_metadata
from .payloads import read_bytes

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Requester

__all__ = ["run_client"]

_NAMES: Final = (62, 64)
"""What OpenSSL finds in a certificate for another host, another IP address (``x509_vfy.h``)."""


def run_client(args: argparse.Namespace, work: Callable[[Requester], Awaitable[int]]) -> int:
    """Connect as the options say, run ``work`` with the requester, close the connection.

    Returns:
        The result of ``work``, or 128 plus the number of the signal that stopped it.

    Raises:
        Failure: There is no connection, it was lost, the peer answered with an error, the time
            was over, or the options are wrong.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    log_to_stderr(args, normally=logging.INFO if args.reconnect else logging.WARNING)
    opened = partial(
        connect,
        args.uri,
        setup=_setup(args),
        setup_metadata=setup_metadata(args),
        data_mime_type=args.data_mime,
        metadata_mime_type=args.metadata_mime,
        config=_config(args),
        headers=args.headers,
        ssl_context=_ssl_context(args, parse_uri(args.uri)),
        protocol=args.protocol,
        # The command itself bounds its concurrent requests, so all of them may wait.
        lease=LeaseOptions(max_waiting=sys.maxsize) if args.lease else None,
        resume=None if args.resume is None else ClientResume(session_lifetime=args.resume),
        reconnect=Reconnect() if args.reconnect else None,
        repeats=_repeats(getattr(args, "retry", None)),
    )

    async def connected(stop: Interruption) -> int:
        status = 0
        async with AsyncExitStack() as stack:
            try:
                requester = await stack.enter_async_context(opened())
            except ValueError as error:  # the parser has checked the URI, so it is a header
                raise Failure(f"--header: {error}", USAGE) from error
            if args.reconnect:
                stack.enter_context(stop.beside(_tell, requester, args.uri))
            with stop.work(prints=args.module == "stream"):
                status = await work(requester)
        return status

    try:
        return trio.run(interruptible, connected, args.timeout)
    except trio.TooSlowError as error:
        text = f"{shown(args.uri)}: not done within {args.timeout:g} s (--timeout)"
        raise Failure(text, TIMED_OUT) from error
    except StreamError as error:
        raise Failure(f"the peer answered {error}{hint(error, args)}", PEER_ERROR) from error
    except SetupError as error:
        text = f"the peer refused the connection: {error}{hint(error, args)}"
        raise Failure(text, UNREACHABLE) from error
    except RejectedResume as error:
        raise Failure(f"the peer did not resume the session: {error}", UNREACHABLE) from error
    except (LocalProtocolError, MetadataError) as error:
        raise Failure(str(error), USAGE) from error
    except (ConnectFailed, ConnectionClosed, ProtocolError) as error:
        raise unreachable(parse_uri(args.uri), error, _hint(error)) from error


def _repeats(times: int | None) -> Repeats | None:
    if times is None:
        return None
    # One request has no load that a budget or a circuit could bound.
    retry = Retry(jitter=1, max_attempts=times)
    return Repeats(retry=retry, budget=Budget(per_second=times), circuit=None)


async def _tell(requester: Requester, uri: str) -> None:
    async for state in requester.states():
        if state is not ConnectionState.CLOSED:  # the error of the command says so
            logger.info("%s: %s", shown(uri), state.value)


def _hint(error: Exception) -> str:
    """Return which options help, or an empty text."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__
    if cause is None:
        return ""
    other = "--tls-server-name, if it is of another name; " if cause.verify_code in _NAMES else ""
    return f" ({other}--insecure accepts every certificate)"


def _setup(args: argparse.Namespace) -> Payload:
    data = DataType(args.data_mime, raw=args.raw).read(args.setup_data or "")
    return Payload(data, None if args.setup_metadata is None else read_bytes(args.setup_metadata))


def _config(args: argparse.Namespace) -> ConnectionConfig:
    config = ConnectionConfig(confirm_setup=not args.no_confirm_setup)
    try:
        if args.keepalive is not None:
            config = attrs.evolve(config, keepalive_interval=args.keepalive)
        if args.max_lifetime is not None:
            config = attrs.evolve(config, max_lifetime=args.max_lifetime)
    except ValueError as error:
        raise Failure(f"--keepalive, --max-lifetime: {error.args[0]}", USAGE) from error
    return config


def _ssl_context(args: argparse.Namespace, uri: Uri) -> ssl.SSLContext | None:
    if args.headers and not uri.is_websocket:
        raise Failure("--header works only with ws:// and wss:// addresses", USAGE)
    return client_context(args, "tls:// and wss://", encrypted=uri.is_encrypted)
