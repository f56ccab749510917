"""The implementation under test, and one run of one rule against it: `Subject`, `Trial`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import attrs
import trio

from . import octets
from .ledger import Incoming, Outgoing
from .probe import Probe, Role
from .verdicts import Skipped, check

__all__ = ["Counters", "Subject", "Trial"]

_PATIENCE: Final = 10.0
_QUIET: Final = 0.1


class Subject(Protocol):
    """How to reach the implementation under test.

    Attributes:
        role: What it is: "server" if we dial, "client" if it dials to us.
        pid: The number of its process, or ``None`` if that is not known.
        encrypted: Whether connections have TLS.
    """

    @property
    def role(self) -> Role:
        """See above."""

    @property
    def pid(self) -> int | None:
        """See above."""

    @property
    def encrypted(self) -> bool:
        """See above."""

    async def connect(self) -> trio.abc.Stream:
        """Return a new connection, or raise `Failed`."""
        ...


@attrs.frozen
class Counters:
    """What the control fixture ``subscribers`` says.

    Attributes:
        current: The subscriptions that are alive.
        total: All since the start.
        failed: Those that ended with an error.
    """

    current: int
    total: int
    failed: int


@attrs.define
class Trial:
    """One run of one rule.

    Attributes:
        subject: The implementation under test.
        patience: How long to wait for what has to happen, in seconds.
        quiet: How long to wait for what must not happen, in seconds.
    """

    subject: Subject
    patience: float = _PATIENCE
    quiet: float = _QUIET
    _probes: list[Probe] = attrs.field(factory=list, init=False)

    @property
    def is_server(self) -> bool:
        """Whether the implementation under test is the server."""
        return self.subject.role == "server"

    @property
    def pid(self) -> int:
        """The process of the implementation under test.

        Raises:
            Skipped: It is not known, or runs elsewhere.
        """
        if self.subject.pid is None:
            raise Skipped("the memory of the process is not known: give --pid")
        return self.subject.pid

    @property
    def transcript(self) -> str:
        """The last octets of the last connection."""
        return self._probes[-1].transcript if self._probes else ""

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Probe]:
        """Connect, and send nothing."""
        ours: Role = "client" if self.is_server else "server"
        stream = await self.subject.connect()
        probe = Probe(stream, ours, patience=self.patience, quiet=self.quiet)
        self._probes.append(probe)
        try:
            yield probe
        finally:
            await probe.close()

    @asynccontextmanager
    async def greeted(self, extensions: tuple[int, ...] = ()) -> AsyncIterator[Probe]:
        """Connect, and exchange hellos."""
        async with self.connected() as probe:
            await probe.greet(extensions)
            yield probe

    @asynccontextmanager
    async def reflecting(
        self, prefetch: int = 16, more: str = "", *, size: int = 0, demand: int = 1000
    ) -> AsyncIterator[tuple[Probe, Incoming, Outgoing]]:
        """Have the peer subscribe to our publisher "x", and republish its elements to us.

        Yields:
            The connection, what we get back, and the subscription of the peer, which has its
            ``subscribed``.
        """
        async with self.greeted() as probe:
            back, there = await self.reflect(
                probe, "x", 1, prefetch, more, size=size, demand=demand
            )
            yield probe, back, there

    async def reflect(
        self,
        probe: Probe,
        name: str,
        subscriber: int,
        prefetch: int = 16,
        more: str = "",
        *,
        size: int = 0,
        demand: int = 1000,
    ) -> tuple[Incoming, Outgoing]:
        """Do the same on a connection that is open."""
        fixture = f"reflect?name={name}&prefetch={prefetch}{more}"
        back = await probe.subscribe(fixture, subscriber, demand)
        there = await probe.taken(name)
        await probe.send(octets.subscribed(there.id, size))
        return back, there

    async def refuses(self, wrong: bytes, *, after: bytes | None = None) -> str:
        """Check that the peer answers octets with goodbye, and closes.

        Args:
            wrong: The octets.
            after: What precedes them, instead of a hello.

        Returns:
            The reason of the goodbye.
        """
        async with self.connected() as probe:
            if after is None:
                await probe.greet()
            else:
                await probe.send(after, track=False)
            await probe.send(wrong, track=False)
            return await probe.refused()

    async def counters(self, fixture: str) -> Counters:
        """Ask the peer for its subscriptions to a fixture, on another connection."""
        async with self.greeted() as probe:
            stream = await probe.subscribe(f"subscribers?of={fixture}", 0, 1)
            await probe.ended(stream)
            check(stream.elements, f"'subscribers' has no element; {stream.error}")
            numbers = stream.elements[0].split()
            check(len(numbers) == 3, f"'subscribers' says {stream.elements[0]!r}")
            return Counters(*map(int, numbers))

    async def until_counters(self, fixture: str, current: int) -> Counters:
        """Ask until this many subscriptions to a fixture are alive.

        Raises:
            Failed: That does not happen in time.
        """
        deadline = trio.current_time() + self.patience
        pause = 0.02
        counters = await self.counters(fixture)
        while counters.current != current:
            text = f"{counters.current} subscriptions to {fixture!r} are alive, not {current}"
            check(trio.current_time() < deadline, text)
            await trio.sleep(pause)
            pause = min(2 * pause, 1)
            counters = await self.counters(fixture)
        return counters

    def open_files(self) -> int | None:
        """Return how many files the process of the peer has open, if that can be known."""
        try:
            return len(os.listdir(f"/proc/{self.subject.pid}/fd"))
        except OSError:
            return None
