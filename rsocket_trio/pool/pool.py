"""`connect_pool`, and the requester that it gives: `Pool`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from random import random
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from ..client import Connecting, SetupSource, running
from ..config import ConnectionConfig
from ..connection.dialling import Dial
from ..connection.patient_requests import PatientRequests
from ..connection.reconnect import ConnectionState, Reconnect, StateChanges
from ..connection.resume_options import ClientResume
from ..errors import ConnectionClosed, NotConnected
from ..field_checks import argument, instance_of
from ..interactions.block import Block, opened_by_block
from ..lease import LeaseOptions, LeaseSource
from ..log_policy import logger
from ..metadata.builder import Metadata
from ..metadata.mime_types import MIME
from ..payload import Payload
from ..protocol.repeats import Repeats
from ..requester import Requester
from ..responder import Acceptor, Responder, lifespan_of
from ..sealed import make
from ..tracing import Tracing
from ..transports.base import TransportInfo
from ..uri import AddressKind, Uri, as_uri, kind_of
from .members import Roster
from .options import PoolOptions, PoolStatistics, Target, TargetStatistics, as_target
from .sources import Watch, dns

if TYPE_CHECKING:
    from ..routing.outgoing import OutgoingMiddleware

__all__ = ["Pool", "PoolTargets", "connect_pool"]

_Targets: TypeAlias = Iterable[Target | Uri | str | Dial]
PoolTargets: TypeAlias = str | Uri | _Targets | AsyncIterable[_Targets]
"""The targets of a pool: an address that has several, a set, or a source of sets."""

_NO_SETUP: Final = Payload()
_CONFIG: Final = ConnectionConfig()
_RECONNECT: Final = Reconnect()
_OPTIONS: Final = PoolOptions()
_BETWEEN: Final = 0.05
"""Seconds between two sets of a source: it may be one that never waits."""


class Pool(Requester, given="connect_pool gives one"):
    """Sends each request to one of several targets. It is a `Requester` of all of them.

    A stream or channel stays where it was opened. What a `Requester` says of its one connection
    has a meaning here too:

    - ``state``: the best state of a target; `ConnectionState.CLOSED` behind the block;
    - ``closed``: whether the block is left; ``draining``: whether all connected targets drain;
    - ``transport``: that of the target of the last request;
    - ``leases``: ``None``: `targets` says who has a lease;
    - ``statistics()``: the sums over all connected targets, and how its source does.
    """

    def __init__(self, connecting: Connecting, reconnect: Reconnect, options: PoolOptions) -> None:
        super().__init__(None, *connecting.mime_types)
        self._roster = Roster(connecting, reconnect, options, self._rebind)
        self._connecting = connecting
        self._patient = PatientRequests(self._roster)
        self._following: _Following | None = None

    def _config(self) -> ConnectionConfig:
        return self._connecting.config

    def __repr__(self) -> str:
        members = self._roster.members()
        return f"<Pool of {len(members)} targets {self.state.value}>"

    def targets(self) -> list[TargetStatistics]:
        """Return where the pool stands with each target.

        Raises:
            RuntimeError: The caller is in another thread than the pool.
        """
        self._roster.home.check("this pool")
        return [each.statistics() for each in self._roster.members()]

    @property
    def transport(self) -> TransportInfo:
        """Facts about the connection of the last request; before it only the scheme ``pool``."""
        if "_connection" not in vars(self):
            return TransportInfo(scheme="pool")
        return super().transport

    @property
    def closed(self) -> bool:
        """Whether the block of the pool is left."""
        return self._roster.ended.is_set()

    @property
    def draining(self) -> bool:
        """Whether no target takes requests, and one that is going to end has some open."""
        return self.state is ConnectionState.DRAINING

    @property
    def state(self) -> ConnectionState:
        """The best state of a target."""
        return self._roster.state

    def states(self) -> AsyncIterator[ConnectionState]:
        """Return the states from now on, as `Requester.states` does."""
        roster = self._roster
        return StateChanges(lambda: roster.state, lambda: roster.changed, roster.home)

    @property
    def leases(self) -> None:
        """``None``: the leases belong to the targets, see `targets`."""
        return None

    async def metadata_push(self, metadata: bytes) -> None:
        """Send metadata about the connection to each target that takes requests now.

        It does not wait for others, as they have other connections later.

        Args:
            metadata: As for `Requester.metadata_push`.

        Raises:
            LocalProtocolError: It does not fit one frame.
            NotConnected: There is no such target.

        Checkpoint: always.
        If cancelled: some targets may have got it.
        """
        self._roster.home.check("this pool")
        sent = 0
        for member in list(self._roster.ready):
            requester = member.client.requester
            assert requester is not None
            try:
                await requester.metadata_push(metadata)
                sent += 1
            except (ConnectionClosed, trio.ClosedResourceError):
                logger.info("pool: %s has lost its connection before a push", member.target)
        if not sent:
            await trio.lowlevel.checkpoint()
            raise NotConnected("no target of the pool takes requests now")

    def statistics(self) -> PoolStatistics:
        """Return numbers about the pool, and the sums over all connected targets.

        Raises:
            RuntimeError: The caller is in another thread than the pool.
        """
        self._roster.home.check("this pool")
        requesters = (each.client.requester for each in self._roster.ready)
        each = [requester.statistics() for requester in requesters if requester is not None]
        following = self._following
        failure = "" if following is None else following.failure
        if following is None:
            source = "fixed"
        elif following.ended:
            source = "ended"
        else:
            source = "failing" if failure else "followed"
        return PoolStatistics(
            waiting_requests=self._patient.waiting,
            source=source,
            source_failure=failure if source == "failing" else "",
            open_streams=sum(one.open_streams for one in each),
            active_requests=sum(one.active_requests for one in each),
            queued_size=sum(one.queued_size for one in each),
            unread_size=sum(one.unread_size for one in each),
        )

    async def wait_draining(self) -> None:
        """Wait until no target takes requests.

        Raises:
            RuntimeError: The caller is in another thread than the pool.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._roster.home.check("this pool")
        await trio.lowlevel.checkpoint()
        while self._roster.ready:
            await self._roster.changed.wait()

    async def wait_closed(self) -> Exception:
        """Wait until the block of the pool is left.

        Returns:
            A `trio.ClosedResourceError`.

        Raises:
            RuntimeError: The caller is in another thread than the pool.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._roster.home.check("this pool")
        await self._roster.ended.wait()
        return trio.ClosedResourceError("the pool was closed here")


@opened_by_block
async def connect_pool(
    targets: PoolTargets,
    *,
    options: PoolOptions = _OPTIONS,
    responder: Responder | Acceptor | None = None,
    setup: Payload | SetupSource[Payload] = _NO_SETUP,
    setup_metadata: Metadata | SetupSource[Metadata] | None = None,
    data_mime_type: str = MIME.CBOR,
    metadata_mime_type: str = MIME.COMPOSITE_METADATA,
    config: ConnectionConfig = _CONFIG,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ssl_context: ssl.SSLContext | None = None,
    resume: ClientResume | None = None,
    reconnect: Reconnect = _RECONNECT,
    repeats: Repeats | None = None,
    lease: LeaseOptions | LeaseSource | None = None,
    tracing: Tracing | None = None,
    protocol: str = "rsocket",
    middleware: Iterable[OutgoingMiddleware] = (),
) -> AsyncIterator[Pool]:
    """Connect to several servers, and send each request to one of them.

    ``async with connect_pool(["tcp://a:7878", "tcp://b:7878"]) as pool: ...``

    Each target has a client that connects again (``reconnect``). The block is entered at once:
    requests wait for the first target that has accepted its SETUP. A target that drains, is lost or
    put aside gets no new requests, and its open streams go on. Leaving the block sends what is
    queued, and closes all connections, as that of `rsocket_trio.connect` does.

    A request that a target has not processed is repeated once on another one. All else is repeated
    only with ``idempotent=True``, once, if the connection ends or the target cancels it.

    Args:
        targets: One of three. A list of targets: addresses, functions that dial (as for
            `rsocket_trio.connect`), or a `Target`. Or one address: all IP addresses that its host
            has are targets, see `dns`. Or an async iterable of complete lists, such as `dns` or
            `target_file`. A target that is in the next list too goes on; one that is missing gets
            no new request, and has `PoolOptions.grace` for what is open. If the source fails, its
            last list stays, and it is iterated over again, by the schedule of ``reconnect`` at
            first and then each `Circuit.longest`; see `Pool.statistics`.
        options: How targets are chosen, and how many there may be.
        responder: Answers the requests of the servers, as for `rsocket_trio.connect`, and so all of
            the following: for each connection to a target.
        setup: See there.
        setup_metadata: See there.
        data_mime_type: See there.
        metadata_mime_type: See there.
        config: See there.
        headers: See there.
        ssl_context: See there.
        resume: See there.
        reconnect: See there; also how requests wait for a target, and how many.
        repeats: See there. Each try, and a hedge, prefers another target than the last one.
        lease: See there. A target without a lease for now is passed by while another has one.
        tracing: See there.
        protocol: See there.
        middleware: See there; around the requests to the pool, and so around their repeats.

    Yields:
        The pool.

    Raises:
        LocalProtocolError: The arguments do not fit a SETUP frame, or do not go together.
        MetadataError: ``setup_metadata`` cannot be encoded.
        TypeError: An argument is of a wrong type.
        ValueError: An address, the protocol or a header is wrong; or the list is empty.
        InternalError: On leaving: a task of a connection crashed. Please report it.

    Checkpoint: entering and leaving, always.
    If cancelled: the connections are closed.
    """
    argument("options", options, instance_of(PoolOptions))
    argument("reconnect", reconnect, instance_of(Reconnect))
    connecting = Connecting(
        responder=responder,
        setup=setup,
        setup_metadata=setup_metadata,
        data_mime_type=data_mime_type,
        metadata_mime_type=metadata_mime_type,
        config=config,
        headers=headers,
        ssl_context=ssl_context,
        resume=resume,
        repeats=repeats,
        lease=lease,
        tracing=tracing,
        protocol=protocol,
        middleware=middleware,
    )
    fixed, source = _source_of(targets)
    for target in fixed:
        connecting.dialler(target.at, target.address)  # to check it
    pool = make(Pool, connecting, reconnect, options)
    roster = pool._roster  # noqa: SLF001 - not for applications

    async def begin(nursery: trio.Nursery) -> None:
        roster.open(nursery)
        if source is None:
            roster.set_targets(fixed)
        else:
            pool._following = _Following(roster, source)  # noqa: SLF001 - as above
            nursery.start_soon(pool._following.run)  # noqa: SLF001 - as above
        await trio.lowlevel.checkpoint()

    block = Block()
    with block.around():
        async with (
            lifespan_of(responder),
            running(begin, roster.close, lambda: pool.transport),
        ):
            connecting.finish(pool, pool._patient)  # noqa: SLF001 - as above
            with block.body():
                yield pool


def _source_of(targets: PoolTargets) -> tuple[list[Target], AsyncIterable[_Targets] | None]:
    """Return the fixed targets, or their source.

    Raises:
        TypeError: They are neither.
        ValueError: An address is wrong; or there is none.
    """
    if isinstance(targets, str | Uri):
        uri = as_uri(targets)
        if kind_of(uri) is AddressKind.INTERNET:
            return [], dns(uri)
        return [as_target(uri)], None
    if isinstance(targets, AsyncIterable):
        return [], targets
    if not isinstance(targets, Iterable):
        raise TypeError(
            "connect_pool needs a list of targets, an address or an async iterable of lists, not "
            f"{type(targets).__name__}"
        )
    fixed = [as_target(each) for each in targets]
    if not fixed:
        raise ValueError("a pool needs a target: the list is empty")
    return fixed, None


class _Following:
    """Takes over the sets of a source, until the pool closes.

    Attributes:
        ended: Whether the source has.
    """

    def __init__(self, roster: Roster, source: AsyncIterable[_Targets]) -> None:
        self.ended = False
        self._roster = roster
        self._source = source
        self._watch: Watch | None = None
        self._failure = ""

    @property
    def failure(self) -> str:
        """Why there are no sets now; empty if there are."""
        return self._failure or ("" if self._watch is None else self._watch.failure)

    async def run(self) -> None:
        """Iterate over the source, again and again if it fails.

        Checkpoint: as the source does.
        If cancelled: its iterator is closed.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_closed, nursery.cancel_scope)
            roster = self._roster
            longest = roster.pool_options.circuit.longest
            delays = roster.options.retry.delays(random)
            while not self.ended:
                try:
                    async with AsyncExitStack() as stack:
                        sets = aiter(self._source)
                        if isinstance(sets, AsyncGenerator):
                            stack.push_async_callback(sets.aclose)
                        if isinstance(sets, Watch):
                            self._watch = sets
                            hurrying = await stack.enter_async_context(trio.open_nursery())
                            stack.callback(hurrying.cancel_scope.cancel)
                            hurrying.start_soon(self._hurry, sets)
                        while True:
                            each = await anext(sets)
                            delays = roster.options.retry.delays(random)
                            self._take(each)
                            await trio.sleep(_BETWEEN)
                except StopAsyncIteration:
                    logger.info("pool: the source of targets has ended; the last targets stay")
                    self.ended = True
                except Exception as error:  # of the application's source
                    delay = next(delays, longest)
                    self._failure = f"{type(error).__name__}: {error}"
                    logger.exception(
                        "pool: the source of targets has failed, asked again in %.3g s; the last "
                        "targets stay",
                        delay,
                    )
                    await trio.sleep(delay)
            nursery.cancel_scope.cancel(reason="the source of targets has ended")

    def _take(self, targets: _Targets) -> None:
        """Take over a set, unless the application has made a mistake in it."""
        try:
            self._roster.set_targets([as_target(target) for target in targets])
        except (TypeError, ValueError) as error:
            self._failure = str(error)
            logger.exception("the targets of a source are wrong; the last targets stay")
        else:
            self._failure = ""

    async def _until_closed(self, scope: trio.CancelScope) -> None:
        await self._roster.ended.wait()
        scope.cancel(reason="the pool closes")

    async def _hurry(self, source: Watch) -> None:
        while True:
            await self._roster.lost.wait()
            source.hurry()
