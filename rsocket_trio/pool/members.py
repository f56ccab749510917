"""The targets of a pool, and where its requests begin: `Roster`, `Member`, `Turn`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import random
from typing import TYPE_CHECKING, Final

import trio

from ..connection.reconnect import ConnectionState
from ..connection.succession import Succession
from ..entrance import Home, get_ident, not_at_home
from ..errors import (
    ApplicationError,
    ConnectionClosed,
    CustomError,
    Invalid,
    RemoteProtocolError,
    StreamError,
)
from ..log_policy import logger
from ..protocol.circuit import PATIENCE, Outlier
from .choosing import FAILURE, LEAST, Choice, PeakLatency, part_of
from .options import PoolOptions, Target, TargetStatistics

if TYPE_CHECKING:
    from ..client import Connecting
    from ..connection.connection import Connection
    from ..connection.patient_requests import Place
    from ..connection.reconnect import Reconnect
    from ..lease import LeaseOptions

__all__ = ["Member", "Roster", "Turn"]

_ANSWERS: Final = (ApplicationError, Invalid, CustomError)
"""Errors with which a target that is well answers."""

_FAILURES: Final = (StreamError, RemoteProtocolError, ConnectionClosed)

_SLOW: Final = 10
"""A deadline of so many times what an answer takes, or of `PATIENCE` where that is less, gives a
target the time to answer. One of less says nothing about it."""

_TYPICAL: Final = 0.05
"""The weight of each answer in the latency that is expected of a new target."""


class Member:
    """One target: the sessions of its client, and how it does.

    Args:
        roster: The pool.
        target: The target.

    Attributes:
        target: As above.
        client: Its client.
        succession: Its sessions.
        connection: The connection of the present session, if requests begin there.
        in_flight: The number of open requests.
        turn: See `rsocket_trio.pool.choosing.Candidate`.
        outlier: Whether it is put aside.
        removed: Whether the source does not name it any more.
    """

    def __init__(self, roster: Roster, target: Target) -> None:
        self.target = target
        self.client = roster.connecting.client()
        self.connection: Connection | None = None
        self.in_flight = 0
        self.turn = -random()
        self.answered = 0
        self.failed = 0
        self.removed = False
        self._roster = roster
        self._leave = trio.Event()
        self._dial = roster.connecting.dialler(target.at, target.address)
        self.begin_anew()
        self.succession = self._succession()

    def _succession(self) -> Succession:
        roster, connecting = self._roster, self._roster.connecting
        succession = Succession(
            roster.options, connecting.resume, self._dial, connecting.config, self.client
        )
        succession.on_change = self._changed
        return succession

    def begin_anew(self) -> None:
        """Forget how it did: it is another process now, or was tested and is well."""
        self.latency = PeakLatency()
        self.outlier = Outlier(self._roster.pool_options.circuit)
        self._roster.aside.discard(self)

    def _changed(self) -> None:
        connection = self.succession.usable
        if connection is not self.connection:
            self.connection = connection
            if connection is not None:
                self.begin_anew()
                if connection.leases is not None:
                    connection.leases.on_lease.append(self._roster.change)
            self._roster.ready_changed(lost=connection is None and not self.removed)
        self._roster.change()

    async def run(self) -> None:
        """Keep a session, until the target is removed and has nothing open, or the pool closes.

        Checkpoint: as its sessions do.
        If cancelled: its connections are closed.
        """
        roster, longest = self._roster, self._roster.pool_options.circuit.longest
        try:
            while True:
                await self.succession.run()
                if not self._goes_on():
                    return
                why = self.succession.failure
                text = "pool: no session with %s, tried again in %g s: %s"
                logger.warning(text, self.target, longest, why)
                with trio.move_on_after(longest):
                    await self._leave.wait()
                if not self._goes_on():
                    return
                self.succession = self._succession()
        finally:
            roster.forget(self)

    def _goes_on(self) -> bool:
        return not self.removed and not self._roster.ended.is_set()

    def retire(self, reason: str, grace: float) -> None:
        """Let what is open finish, and then end."""
        self.removed = True
        self.succession.retire(reason, grace)
        self._leave.set()

    def close(self) -> None:
        """End now; the pool has ended."""
        self.succession.close()
        self._leave.set()

    @property
    def runs(self) -> bool:
        """Whether it has a session, or there may be one soon."""
        return not self.succession.ended.is_set()

    @property
    def has_lease(self) -> bool:
        """Whether a request may leave now, as far as leases are concerned."""
        leases = None if self.connection is None else self.connection.leases
        return leases is None or leases.sendable_requests > leases.waiting_requests

    def latency_at(self, now: float) -> float:
        """See `Candidate.latency_at`. A new target is to be tried soon, and not by all requests."""
        return self.latency.at(now) if self.latency.known else self._roster.typical / 2

    def statistics(self) -> TargetStatistics:
        """Return where the pool stands with it."""
        now = trio.current_time()
        return TargetStatistics(
            target=self.target,
            state=self.succession.state,
            removed=self.removed,
            aside_for=max(0.0, self.outlier.until - now),
            has_lease=self.has_lease,
            in_flight=self.in_flight,
            latency=self.latency.at(now) if self.latency.known else None,
            answered=self.answered,
            failed=self.failed,
        )


class Turn:
    """One try of a request at a member: the `rsocket_trio.connection.patient_requests.Place`."""

    __slots__ = (
        "_began",
        "_in_flight",
        "_judged",
        "_outlier",
        "_roster",
        "_ticket",
        "connection",
        "member",
    )

    def __init__(self, roster: Roster, member: Member, connection: Connection, now: float) -> None:
        self.member = member
        self.connection = connection
        self._roster = roster
        self._began = now
        self._outlier = outlier = member.outlier
        self._ticket = outlier.admit(now)
        self._judged = False
        self._in_flight = True
        member.in_flight += 1

    @property
    def over(self) -> bool:
        """Whether no requests begin on its connection any more."""
        return self.member.connection is not self.connection

    def answered(self) -> None:
        """Take note of the response, or of the first item of a stream."""
        now = trio.current_time()
        took = now - self._began
        roster = self._roster
        typical = roster.typical
        # The first answer counts as it is.
        roster.typical = took if typical == LEAST else typical + (took - typical) * _TYPICAL
        self._well(now)
        self.member.latency.add(took, now)

    def _well(self, now: float) -> None:
        roster, member, outlier = self._roster, self.member, self._outlier
        self._judged = True
        member.answered += 1
        if self._ticket is not None:
            outlier.succeeded(self._ticket, now)
            if member in roster.aside and outlier is member.outlier and outlier.well:
                member.begin_anew()

    def failed(self, error: BaseException) -> None:
        """Take note of an error in place of that."""
        now = trio.current_time()
        took = now - self._began
        if isinstance(error, _ANSWERS):
            # Who only answers with errors must not look best, either.
            self._well(now)
            self.member.latency.add(max(took, self._roster.typical), now)
            return
        if isinstance(error, trio.Cancelled):
            typical = self._roster.typical
            patience = PATIENCE if typical == LEAST else min(PATIENCE, _SLOW * typical)
            if error.source != "deadline":
                return
            if not self._outlier.silent(self._began, now, patience):
                self.member.latency.at_least(took, now)
                return
        elif not (isinstance(error, _FAILURES) and error.sent):
            return
        self._judged = True
        member = self.member
        member.failed += 1
        member.latency.add(max(took, FAILURE), now)
        if isinstance(error, ConnectionClosed) or self._ticket is None:
            return  # without a connection it gets no requests anyway
        if self._outlier.failed(self._ticket, now) and self._outlier is member.outlier:
            self._roster.put_aside(member, error)

    def left(self, *, well: bool = False) -> None:
        """Take note of the end of the try. It comes last, and may come twice."""
        if not self._in_flight:
            return
        self._in_flight = False
        self.member.in_flight -= 1
        if well and not self._judged:  # nobody has waited for the first item
            self._well(trio.current_time())
        elif self._ticket is not None and not self._outlier.well:
            self._outlier.left(self._ticket, trio.current_time())


class Roster:
    """The targets of a pool. It is the `rsocket_trio.connection.patient_requests.Places`.

    Args:
        connecting: The arguments of each client.
        options: How each client connects, and how requests wait.
        pool_options: The settings of the pool.
        bind: Lets what the requester sends next begin on a connection.

    Attributes:
        connecting: As above.
        options: As above.
        pool_options: As above.
        home: The thread of the pool.
        ended: Set when the pool is closed.
        changed: Set, and replaced by another event, when a target may take requests now.
        lost: Set, and replaced by another event, when a target has lost its connection.
        aside: The targets that were put aside.
        typical: The latency that is expected of a new target, in seconds.
    """

    def __init__(
        self,
        connecting: Connecting,
        options: Reconnect,
        pool_options: PoolOptions,
        bind: Callable[[Connection], None],
    ) -> None:
        self.connecting = connecting
        self.options = options
        self.pool_options = pool_options
        self.home = Home()
        self._thread = self.home.thread
        self._lease = connecting.lease
        self.ended = trio.Event()
        self.changed = trio.Event()
        self.lost = trio.Event()
        self.aside: set[Member] = set()
        self.typical = LEAST
        self._bind = bind
        self._client_id = pool_options.client_id or f"{random()}"
        self._choose = Choice(pool_options.choose, random).among
        self._members: dict[Target, Member] = {}
        self._removed: dict[Member, None] = {}  # in the order of their removal
        self._ready: list[Member] = []
        self._nursery: trio.Nursery | None = None
        self._emptying = trio.CancelScope()
        self._emptying.cancel()

    # -- the targets --------------------------------------------------------------------------

    def open(self, nursery: trio.Nursery) -> None:
        """Begin: from now on targets may be set."""
        self._nursery = nursery

    def close(self) -> None:
        """End all connections."""
        self.ended.set()
        for member in (*self._members.values(), *self._removed):
            member.close()
        self._emptying.cancel(reason="the pool closes")
        self.change()

    def set_targets(self, targets: Iterable[Target]) -> None:
        """Go over to a complete set of targets. An empty one has its effect later."""
        wanted = part_of(targets, self._client_id, self.pool_options.max_targets)
        if wanted or not self._members:
            self._emptying.cancel(reason="there are targets")
            self._reconcile(wanted)
        elif self._emptying.cancel_called:  # else it is under way
            assert self._nursery is not None
            self._emptying = trio.CancelScope()
            self._nursery.start_soon(self._empty, self._emptying)

    async def _empty(self, scope: trio.CancelScope) -> None:
        seconds = self.pool_options.empty_after
        logger.warning("pool: the source names no targets; the last ones stay for %g s", seconds)
        with scope:
            await trio.sleep(seconds)
            scope.cancel(reason="it is done")
            self._reconcile([])

    def _reconcile(self, wanted: list[Target]) -> None:
        if self.ended.is_set():
            return
        new = [Member(self, target) for target in wanted if target not in self._members]
        for target in self._members.keys() - set(wanted):
            self._remove(self._members.pop(target))
        assert self._nursery is not None
        for member in new:
            self._members[member.target] = member
            self._nursery.start_soon(member.run)
        self.change()

    def _remove(self, member: Member) -> None:
        self._removed[member] = None
        member.retire("the target was removed from the pool", self.pool_options.grace)
        for oldest in list(self._removed)[: -self.pool_options.max_targets]:
            oldest.retire("many targets were removed after this one", 0)

    def forget(self, member: Member) -> None:
        """Take note that nothing of a removed target is open any more."""
        self._removed.pop(member, None)
        self.aside.discard(member)

    def ready_changed(self, *, lost: bool) -> None:
        """Take note that a member takes requests, or does not any more."""
        self._ready = [each for each in self._members.values() if each.connection is not None]
        self._limit_aside()
        if lost:
            event, self.lost = self.lost, trio.Event()
            event.set()

    def change(self) -> None:
        """Wake the requests that wait."""
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    def put_aside(self, member: Member, error: BaseException) -> None:
        """Take note that a member has failed too often."""
        seconds = member.outlier.until - trio.current_time()
        logger.warning("pool: %s is put aside for %.3g s: %s", member.target, seconds, error)
        self.aside.add(member)
        self._limit_aside()

    def _limit_aside(self) -> None:
        """Take back those that are put aside beyond half, the ones whose time ends first."""
        if not self.aside:
            return
        out = sorted(self.aside & set(self._ready), key=lambda member: member.outlier.until)
        for member in out[: max(0, len(out) - len(self._ready) // 2)]:
            logger.warning("pool: %s is used again: too many targets fail", member.target)
            member.begin_anew()

    # -- the requests -------------------------------------------------------------------------

    def begin(self, other_than: Place | None) -> Place | None:
        """See `Places.begin`."""
        if get_ident() != self._thread:
            raise not_at_home("this pool")
        candidates = self._ready
        if other_than is not None:
            assert isinstance(other_than, Turn)
            failed = other_than
            candidates = [m for m in candidates if m is not failed.member] or [
                m for m in candidates if m.connection is not failed.connection
            ]
        if not candidates:
            return None
        now = trio.current_time()
        if self._lease is not None:
            leased = [each for each in candidates if each.has_lease]
            if not leased and self._lease.wait:
                return None  # it goes to whichever gets a lease first
            candidates = leased or candidates
        if self.aside:
            candidates = self._well(candidates, now)
        member = self._choose(candidates, now)
        connection = member.connection
        assert connection is not None
        self._bind(connection)
        return Turn(self, member, connection, now)

    def _well(self, candidates: list[Member], now: float) -> list[Member]:
        for each in candidates:
            if each in self.aside and each.outlier.may_admit(now):
                return [each]  # this request tests it
        return [each for each in candidates if each not in self.aside] or candidates

    def goes_elsewhere(self, place: Place) -> bool:
        """See `Places.goes_elsewhere`."""
        assert isinstance(place, Turn)
        others = [each for each in self._ready if each is not place.member]
        # Where none has a lease, it waits for whichever gets one first, as a first try does.
        waits = bool(others) and not place.member.has_lease
        return place.over or waits or any(each.has_lease for each in others)

    def hopeless(self) -> str:
        """See `Places.hopeless`."""
        if self.ended.is_set():
            return "none will follow"
        if self._members and not any(each.runs for each in self._members.values()):
            return f"none of {len(self._members)} targets will accept one soon"
        return ""

    def leases(self) -> LeaseOptions | None:
        """See `Places.leases`."""
        lacking = self._ready and not any(each.has_lease for each in self._ready)
        return self._lease if lacking else None

    @property
    def failure(self) -> Exception | None:
        """Why there is no connection: what the first target has failed with that has."""
        if self.ended.is_set():
            return None
        failures = (each.succession.failure for each in self._members.values())
        return next((each for each in failures if each is not None), None)

    @property
    def ready(self) -> list[Member]:
        """The members that take requests."""
        return self._ready

    @property
    def state(self) -> ConnectionState:
        """The best state of a target."""
        if self.ended.is_set():
            return ConnectionState.CLOSED
        if self._ready:
            return ConnectionState.CONNECTED
        states = {each.succession.state for each in self._members.values()}
        for state in (ConnectionState.DRAINING, ConnectionState.CONNECTING):
            if state in states:
                return state
        return ConnectionState.WAITING if self._members else ConnectionState.CONNECTING

    def members(self) -> list[Member]:
        """Return the targets, and behind them the removed ones that have something open."""
        return [*self._members.values(), *self._removed]
