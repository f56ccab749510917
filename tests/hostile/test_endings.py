"""Connections that end with many handlers, or with a long reason, do not delay others."""

from __future__ import annotations

import tracemalloc
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from rsocket_trio import Payload, Responder
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    MetadataPushFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import frame_peer_client

MIB = 2**20
REQUESTS = 2000
STEPS = 500
"""Too many steps for a turn of the loop: each cancelled one takes some hundred microseconds."""


class Turns(trio.abc.Instrument):
    """Counts the steps of tasks in each turn of the loop."""

    def __init__(self):
        self.longest = 0
        self.steps = 0

    def before_task_step(self, task):
        self.steps += 1
        self.longest = max(self.longest, self.steps)

    def before_io_wait(self, timeout):
        self.steps = 0


class Patient(Responder):
    """Has waiting handlers of all kinds, and counts those that have begun and ended."""

    def __init__(self):
        self.begun = 0
        self.ended = 0

    @contextmanager
    def counted(self):
        self.begun += 1
        try:
            yield
        finally:
            self.ended += 1

    async def wait(self):
        with self.counted():
            await trio.sleep_forever()

    async def request_response(self, payload):
        await self.wait()

    async def fire_and_forget(self, payload):
        await self.wait()

    async def metadata_push(self, metadata):
        await self.wait()

    async def request_stream(self, payload):
        with self.counted():
            yield Payload(b"x")
            while True:
                yield Payload(bytes(60_000))

    async def request_channel(self, payload, payloads):
        with self.counted():
            async for item in payloads:
                yield item
            await trio.sleep_forever()


KINDS = {
    "request_response": lambda i: RequestResponseFrame(i),
    "fire_and_forget": lambda i: RequestFnfFrame(i),
    "metadata_push": lambda _: MetadataPushFrame(b"m"),
    "request_stream without credit": lambda i: RequestStreamFrame(i, 1),
    "request_stream without room": lambda i: RequestStreamFrame(i, 1),
    "request_channel": lambda i: RequestChannelFrame(i, 1),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_handlers_are_cancelled_in_small_groups(kind):
    """Two thousand that wait are all cancelled, but not all in one turn of the loop."""
    responder = Patient()
    async with frame_peer_client(responder) as peer:
        for begin in range(1, 2 * REQUESTS, 200):
            await peer.send(*(KINDS[kind](i) for i in range(begin, begin + 200, 2)))
        with trio.fail_after(10):
            while responder.begun < REQUESTS:
                await trio.sleep(0.01)
        if "room" in kind:
            for begin in range(1, 2 * REQUESTS, 200):
                await peer.send(*(RequestNFrame(i, 9) for i in range(begin, begin + 200, 2)))
                await trio.sleep(0.01)
        turns = Turns()
        trio.lowlevel.add_instrument(turns)
        await peer.aclose()
        with trio.fail_after(10):
            while responder.ended < REQUESTS:
                await trio.sleep(0.01)
        await trio.testing.wait_all_tasks_blocked(0.01)
        trio.lowlevel.remove_instrument(turns)
    assert turns.longest < STEPS


async def test_a_reason_of_megabytes():
    """An ERROR of 8 MiB that ends a connection with 200 handlers is copied a few times only."""
    responder = Patient()
    async with frame_peer_client(responder) as peer:
        await peer.send(*(RequestResponseFrame(i) for i in range(1, 400, 2)))
        with trio.fail_after(10):
            while responder.begun < 200:
                await trio.sleep(0.01)
        error = ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"x" * (8 * MIB)).encode()
        tracemalloc.start()
        await peer.send(error)
        with trio.fail_after(10):
            while responder.ended < 200:
                await trio.sleep(0.01)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 64 * MIB
