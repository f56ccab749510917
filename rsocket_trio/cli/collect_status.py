"""``collect --status``: ask a collector, and print what it says; forget a consumer of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from rsocket_trio.collector import (
    CollectorClient,
    CollectorStatistics,
    SpoolInfo,
    connect_collector,
)
from rsocket_trio.errors import (
    Invalid,
    Rejected,
    RejectedSetup,
    RemoteProtocolError,
    RSocketError,
    SetupError,
    StreamError,
)
from rsocket_trio.uri import parse_uri, shown

from .certificates import client_context
from .collect_auth import given_grants
from .exits import DONE, PEER_ERROR, UNREACHABLE, USAGE, Failure, unreachable
from .interrupt import Interruption, interruptible
from .logs import log_to_stderr
from .output import json_line
from .standard_streams import print_bytes
from .status_table import moment, table

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_PATIENCE: Final = 30
"""Seconds for the whole answer."""


def run(args: argparse.Namespace) -> int:
    """Print one line for each number, or one JSON object.

    Raises:
        Failure: The collector cannot be reached, or does not answer.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    log_to_stderr(args)
    encrypted = parse_uri(args.status).is_encrypted
    context = client_context(args, "tls:// and wss://", encrypted=encrypted)
    grants = given_grants(args)
    if len(grants) > 1:
        raise Failure("--status needs one --auth-bearer or --auth-simple, not several", USAGE)
    found: list[tuple[SpoolInfo, CollectorStatistics]] = []
    connecting = partial(
        connect_collector, args.status, ssl_context=context, auth=grants[0].auth if grants else None
    )
    try:
        status = trio.run(
            interruptible,
            partial(_ask, connecting, args.forget, args.instance, args.force, found),
        )
    except Rejected as error:
        raise Failure(f"the collector refused: {error.message}", PEER_ERROR) from error
    except StreamError as error:
        raise Failure(f"the peer is no collector: it answered {error}", PEER_ERROR) from error
    except SetupError as error:
        unknown = isinstance(error, RejectedSetup) and not grants
        hint = " (--auth-bearer or --auth-simple)" if unknown else ""
        text = f"the collector refused the connection: {error}{hint}"
        raise Failure(text, UNREACHABLE) from error
    except RemoteProtocolError as error:
        raise Failure(f"the peer is no collector: {error}", PEER_ERROR) from error
    except RSocketError as error:
        raise unreachable(args.status, error) from error
    except trio.TooSlowError as error:
        text = f"{shown(args.status)}: the collector did not answer within {_PATIENCE} s"
        raise Failure(text, UNREACHABLE) from error
    for info, numbers in found:
        fields = _fields(info, numbers)
        if args.json:
            print_bytes(json_line(fields))
        else:
            lines = "  ".join(map(_subscription, fields["subscriptions"])) or "none"
            print_bytes(table(fields | {"subscriptions": lines}, 18))
    return status


async def _ask(
    connecting: Callable[[], AbstractAsyncContextManager[CollectorClient]],
    forget: str | None,
    instance: str | None,
    force: bool,
    found: list[tuple[SpoolInfo, CollectorStatistics]],
    stop: Interruption,
) -> int:
    with stop.work(), trio.fail_after(_PATIENCE):
        async with connecting() as collector:
            info = await collector.info(instances=True)
            if forget is not None:
                try:
                    await collector.forget(
                        forget, spool_id=info.spool_id, instance=instance, force=force
                    )
                    info = await collector.info(instances=True)
                except (Invalid, Rejected) as error:
                    raise Failure(f"--forget: {error.message}", PEER_ERROR) from error
            found.append((info, await collector.statistics()))
    return DONE


def _fields(info: SpoolInfo, numbers: CollectorStatistics) -> dict[str, Any]:
    return {
        "spool_id": info.spool_id,
        "oldest": info.oldest,
        "head": info.head,
        "events": info.head - info.oldest,
        "oldest_at": moment(info.oldest_at),
        "newest_at": moment(info.newest_at),
        "size": info.size,
        "max_size": info.max_size,
        "full": info.full,
        "trouble": info.trouble,
        "consumers": dict(info.positions),
        "instances": [attrs.asdict(each) for each in info.instances or ()],
        "connections": numbers.connections,
        "stored": numbers.stored,
        "lumberjack_events": numbers.lumberjack_events,
        "dropped": numbers.dropped,
        "pending_size": numbers.pending_size,
        "subscriptions": [attrs.asdict(each) for each in numbers.subscriptions],
    }


def _subscription(fields: dict[str, object]) -> str:
    text = f"{fields['subscription']} {fields['state']} {fields['events']:,}"
    return text if fields["trouble"] is None else f"{text} ({fields['trouble']})"
