"""``ttrpc serve``: serve services until a signal stops it. A second signal stops it at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from rsocket_trio.responder import Responder
from rsocket_trio.ttrpc import Service, ServiceBase, serve
from rsocket_trio.ttrpc.addresses import ttrpc_uri
from rsocket_trio.ttrpc.server.service import as_services

from .exits import USAGE, Failure
from .logs import log_to_stderr
from .serving import Deployment, allowed, asks_nobody, serve_until_stopped, warn_of_open
from .target import check_provided, load_object

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_Services: TypeAlias = Service | ServiceBase | Sequence[Service | ServiceBase]
_Served: TypeAlias = _Services | Responder


def run(args: argparse.Namespace) -> int:
    """Serve the target on every ``--listen`` address.

    Returns:
        0 after a graceful stop, else 128 plus the number of the signal that stopped it at once.

    Raises:
        Failure: The target cannot be loaded, an address cannot be used, or ``--allow`` lets nobody
            connect to one.
    """
    log_to_stderr(args, normally=logging.INFO)
    target = load_object(args.target, _served)
    allow = allowed(args.allow, map(ttrpc_uri, args.listen))
    if asks_nobody(target):
        warn_of_open(
            map(ttrpc_uri, args.listen),
            "anybody who can connect is served: give it a Router with an authenticate= function",
        )
    deployment = Deployment(args)
    with deployment.observing(target) as middleware:
        start = partial(
            serve,
            target,
            *args.listen,
            middleware=middleware,
            allow=allow,
            max_connections=args.max_connections,
            **deployment.options,
        )
        return trio.run(serve_until_stopped, start, deployment, "running calls")


def _served(found: object, target: str) -> _Served:
    if isinstance(found, type) and issubclass(found, Service | ServiceBase | Responder):
        raise Failure(f"{target!r} is a class; name an instance of that class", USAGE)
    if isinstance(found, Responder):
        check_provided(found, target)
        return found
    if isinstance(found, Service | ServiceBase):
        return _checked(found, target)
    if isinstance(found, list | tuple) and found:
        for each in found:
            if not isinstance(each, Service | ServiceBase):
                text = f"{target!r} is a list with an object of type {type(each).__name__!r}"
                raise Failure(f"{text}, which is no service", USAGE)
        return _checked(found, target)
    text = f"{target!r} is neither a service, nor a list of services, nor a Router"
    raise Failure(f"{text}, but an object of type {type(found).__name__!r}", USAGE)


def _checked(found: _Services, target: str) -> _Services:
    try:
        as_services(found)
    except (TypeError, ValueError) as error:  # e.g. two services have one name
        raise Failure(f"{target!r}: {error}", USAGE) from error
    return found
