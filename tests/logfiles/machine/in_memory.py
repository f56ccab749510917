"""The shipper of the machine as a task of the test, and a receiver in memory."""

from __future__ import annotations

from contextlib import nullcontext
from math import inf

import trio

from rsocket_trio.logfiles import (
    FileKey,
    Following,
    Registry,
    Shipment,
    Source,
    shipment,
)
from tests.logfiles.shipping import Receiver, reading


class InMemory:
    """Runs shipments in a nursery. A kill is an end after which nothing is written any more."""

    pace = 0.03

    def __init__(self, nursery, monkeypatch):
        self._nursery = nursery
        self._monkeypatch = monkeypatch
        self._now = shipment.now
        self._world = None
        self._receiver = None
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._shipment = None
        self._registry = None
        self._wrong = None

    def take_part(self, world):
        self._world = world
        self._receiver = Receiver(jitter=world.rng.random())

    async def start(self, source, *, run, most, jump):
        self._monkeypatch.setattr(shipment, "now", lambda: self._now() + jump)
        world = self._world
        self._registry = Registry(world.registry)
        self._shipment = Shipment(
            [Source.of(source)],
            self._send,
            registry=self._registry,
            reading=reading(max_events=world.rng.choice([5, 100]), fields={"run": str(run)}),
            following=Following(poll=0.003, close_after=world.close_after),
            in_flight=4,
            max_open=inf if most is None else most,
        )
        self._ended = trio.Event()
        self._scope = trio.CancelScope()
        self._nursery.start_soon(self._ship, self._shipment, self._registry, self._ended)

    async def _ship(self, shipment, registry, ended):
        try:
            with self._scope:
                await shipment.run()
        finally:
            registry.close()
            ended.set()

    async def _send(self, events):
        await self._receiver.send(events)
        self._world.arrived.acknowledged.update(self._receiver.messages)

    async def stop(self, how):
        if how == "kill":
            self._registry.store = lambda positions: None
            self._scope.cancel()
        else:
            self._shipment.stop(0.02 if self._receiver.hold else 5)
        await self._ended.wait()
        self.check()

    def check(self):
        for event in self._receiver.seen:
            self._world.arrived.check(event)
        self._receiver.seen.clear()
        self._receiver.events.clear()

    def has_open(self, key):
        return FileKey(*key) in self._shipment._files

    def short(self, spare):
        """This process has files of its own: only the machine with programs is short of them."""
        return nullcontext()

    async def away(self):
        self._receiver.hold = True

    async def back(self):
        self._receiver.hold = False
