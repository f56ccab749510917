"""A shipment in a temporary directory, with a receiver in memory."""

from __future__ import annotations

import json
import os
import random
from contextlib import asynccontextmanager
from functools import partial
from math import inf

import trio

from rsocket_trio.logfiles import EventWriter, Following, Reading, Registry, Shipment, Source
from tests.waiting import until

FOLLOWING = Following(poll=0.003, close_after=0.05)


class Receiver:
    """Takes events, and acknowledges them as a test says.

    Attributes:
        events: All events that were acknowledged, decoded, in the order of their acknowledgement.
        seen: All events that came, in the order of their arrival.
        hold: Keeps acknowledgements back while it is set.
    """

    def __init__(self, *, jitter=None):
        self.events = []
        self.seen = []
        self.hold = False
        self.most_at_once = 0
        self._at_once = 0
        self._random = random.Random(jitter) if jitter is not None else None

    async def send(self, events):
        decoded = [json.loads(event) for event in events]
        self.seen += decoded
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self._random is not None:
                await trio.sleep(self._random.random() * 0.004)
            while self.hold:
                await trio.sleep(0.001)
            self.events += decoded
        finally:
            self._at_once -= 1

    @property
    def messages(self):
        return [event["message"] for event in self.events]

    async def until(self, condition):
        await until(lambda: condition(self))


def reading(*, multiline=None, max_events=100, max_line=1000, refuse_wide=False, **options):
    return Reading(
        refuse_wide=refuse_wide,
        max_events=max_events,
        max_line=max_line,
        multiline=multiline,
        writer=partial(EventWriter, **{"host": "h", "fields": {}} | options),
    )


def shipment_of(
    directory,
    receiver,
    *names,
    registry,
    following=FOLLOWING,
    in_flight=4,
    max_open=inf,
    **options,
):
    return Shipment(
        [Source.of(os.path.join(directory, name)) for name in names],
        receiver.send,
        registry=registry,
        reading=reading(**options),
        following=following,
        in_flight=in_flight,
        max_open=max_open,
    )


async def ship_once(directory, receiver, *names, **options):
    """Ship files to their ends; return whether everything was acknowledged, and the counts."""
    registry = Registry(directory / "registry.json")
    try:
        shipment = shipment_of(
            directory, receiver, *names, registry=registry, following=None, **options
        )
        done = await shipment.run()
    finally:
        registry.close()
    return done, shipment.counts


def positions(directory):
    """What the registry file has."""
    registry = Registry(directory / "registry.json")
    registry.close()
    return registry.positions()


@asynccontextmanager
async def following(directory, receiver, *names, grace=5, **options):
    """Follow files for the block, then stop gracefully."""
    registry = Registry(directory / "registry.json")
    try:
        shipment = shipment_of(directory, receiver, *names, registry=registry, **options)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shipment.run)
            try:
                yield shipment
            finally:
                shipment.stop(grace)
    finally:
        registry.close()


async def looked(shipment, times=2):
    """Wait until the files were looked at again."""
    wanted = shipment.counts.looks + times
    with trio.fail_after(20):
        while shipment.counts.looks < wanted:
            await trio.sleep(0.001)
