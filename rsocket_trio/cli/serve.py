"""``serve``: serve a target until a signal stops it. A second signal stops it at once."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from rsocket_trio import Allow, Lease, LeaseOptions, Router, ServerResume, serve
from rsocket_trio.lifespan import served_within
from rsocket_trio.responder import Responder, lifespan_of
from rsocket_trio.sockets.shared import check_reuse_port, check_unshared
from rsocket_trio.sockets.workplace import workplace
from rsocket_trio.uri import Uri, parse_uri
from rsocket_trio.wires import wire_of

from .certificates import asks_certificates, server_context
from .exits import USAGE, Failure
from .logs import log_to_stderr
from .serving import (
    Deployment,
    RunningServer,
    allowed,
    asks_nobody,
    serve_until_stopped,
    warn_of_open,
)
from .target import load_target

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_ENCRYPTED: Final = "tls://, wss://, rsios:// and rsio+wss://"


def run(args: argparse.Namespace) -> int:
    """Serve the target on every ``--listen`` address, those of rsio beside those of RSocket.

    Returns:
        0 after a graceful stop, else 128 plus the number of the signal that stopped it at once.

    Raises:
        Failure: The target or the certificate cannot be loaded, or an address cannot be used.
    """
    place = workplace()
    log_to_stderr(args, normally=logging.INFO, worker=None if place is None else place.number)
    if args.workers is not None and place is None:
        return _supervise(args)
    rsio = [uri for uri in args.listen if wire_of([uri]) == "rsio"]
    plain = [uri for uri in args.listen if uri not in rsio]
    encrypted = [uri for uri in args.listen if _parsed(uri).is_encrypted]
    for uris in filter(None, (plain, rsio)):
        _check_shared(args, [*map(_parsed, uris)])
    context = server_context(args, encrypted, _ENCRYPTED)
    of_rsio = server_context(args, encrypted, _ENCRYPTED) if rsio else None  # has its own ALPN
    deployment = Deployment(args)
    options: dict[str, Any] = {
        "max_connections": args.max_connections,
        "allow": _allow(args),
        "reuse_port": args.reuse_port,
        **deployment.options,
    }
    web = _web_options(args)
    target = load_target(args.target, rsocket=bool(plain), rsio=bool(rsio))
    served = target.accept if plain and rsio else target  # one application has one lifespan
    starts = []
    if plain:
        starts.append(
            partial(
                serve,
                served,
                *plain,
                ssl_context=context if _any_encrypted(plain) else None,
                lease=_lease(args),
                resume=_resume(args),
                **(web if _any_websocket(plain) else {}),
                **options,
            )
        )
    elif _lease(args) is not None or args.resume is not None:
        raise Failure("--lease and --resume work only with addresses of RSocket", USAGE)
    if rsio:
        starts.append(
            partial(
                _serve_rsio,
                served,
                rsio,
                ssl_context=of_rsio if _any_encrypted(rsio) else None,
                **(web if _any_websocket(rsio) else {}),
                **options,
            )
        )
    start = starts[0] if len(starts) == 1 else partial(_serve_all, target, starts)
    if asks_nobody(target):
        warn_of_open(
            (
                uri
                for uri in map(_parsed, args.listen)
                if not (uri.is_encrypted and asks_certificates(args))
            ),
            "anybody who can connect is served: give the Router an authenticate= function, or ask"
            " for certificates (--ca)",
        )
    contexts = [context, of_rsio]

    if args.access_log is not None and not isinstance(target, Router):
        kind = type(target).__name__
        raise Failure(f"--access-log needs a Router, and the target is a {kind}", USAGE)
    with deployment.observing(target):
        return trio.run(serve_until_stopped, start, deployment, "running streams", None, contexts)


def _supervise(args: argparse.Namespace) -> int:
    """Serve by several processes, each of which runs this command."""
    # Importing it takes time, which one process does not need.
    from .serve_workers import supervise_until_stopped

    uris = [_parsed(uri) for uri in args.listen]
    return trio.run(supervise_until_stopped, args, uris)


async def _serve_rsio(
    target: Any, uris: list[str], *, task_status: trio.TaskStatus[Any], **options: Any
) -> None:
    # Importing it takes time, which servers of RSocket do not need.
    from rsocket_trio.rsio import serve as serve_rsio

    await serve_rsio(target, *uris, **options, task_status=task_status)


class _Servers:
    """Several servers as one.

    Attributes:
        uris: The addresses of all.
        servers: Each of them.
    """

    def __init__(self, servers: list[RunningServer]) -> None:
        self.uris = [uri for each in servers for uri in each.uris]
        self.servers = servers

    async def aclose(self, **phases: float) -> None:
        """Stop all of them gracefully, at the same time.

        Checkpoint: always.
        If cancelled: they still stop.
        """
        async with trio.open_nursery() as nursery:
            for each in self.servers:
                nursery.start_soon(partial(each.aclose, **phases))


async def _serve_all(
    target: Responder,
    starts: Sequence[Callable[..., Awaitable[None]]],
    *,
    task_status: trio.TaskStatus[_Servers],
) -> None:
    servers: list[Any] = []

    async def serve_each() -> None:
        refused: OSError | None = None
        async with trio.open_nursery() as nursery:
            try:
                servers.extend([await nursery.start(each) for each in starts])
            except OSError as error:  # raised below: the nursery would wrap it in a group
                refused = error
                nursery.cancel_scope.cancel(reason="an address cannot be listened on")
            else:
                task_status.started(_Servers(servers))
        if refused is not None:
            raise refused

    def stop() -> None:
        for each in servers:
            each.stop()

    await served_within(lifespan_of(target), serve_each, stop)


def _parsed(uri: str) -> Uri:
    return parse_uri(uri, wire_of([uri]))


def _any_encrypted(uris: list[str]) -> bool:
    return any(_parsed(uri).is_encrypted for uri in uris)


def _any_websocket(uris: list[str]) -> bool:
    return any(_parsed(uri).is_websocket for uri in uris)


def _allow(args: argparse.Namespace) -> Allow | None:
    return allowed(args.allow, [_parsed(uri) for uri in args.listen])


def _web_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `serve` that only WebSocket has a use for."""
    if args.allow_origin is not None and not _any_websocket(args.listen):
        raise Failure("--allow-origin works only with ws:// and wss:// addresses", USAGE)
    return {"allowed_origins": args.allow_origin}


def _check_shared(args: argparse.Namespace, uris: Sequence[Uri]) -> None:
    """Refuse what does not go together, in the words of the options, before anything is begun."""
    try:
        check_reuse_port(args.reuse_port, uris)
        if args.resume is not None:
            check_unshared(uris, reuse_port=args.reuse_port, sole_process=args.sole_process)
    except ValueError as error:
        text = str(error).replace("ServerResume(sole_process=True)", "--sole-process")
        text = re.sub(r"\bresume\b", "--resume", text.replace("reuse_port", "--reuse-port"))
        raise Failure(text, USAGE) from error


def _resume(args: argparse.Namespace) -> ServerResume | None:
    if args.resume is None:
        return None
    return ServerResume(session_lifetime=args.resume, sole_process=args.sole_process)


def _lease(args: argparse.Namespace) -> LeaseOptions | None:
    if args.lease is None:
        for option in ("required", "enforced"):
            if getattr(args, f"lease_{option}"):
                raise Failure(f"--lease-{option} needs --lease N/SECONDS", USAGE)
        return None
    required, enforced = args.lease_required, args.lease_enforced
    try:
        return LeaseOptions(Lease(*args.lease), required=required, enforced=enforced)
    except ValueError as error:
        raise Failure(f"--lease: {error}", USAGE) from error
