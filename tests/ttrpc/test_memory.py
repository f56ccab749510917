"""What a hostile peer may cost: the memory of a server under floods stays within its limits."""

from __future__ import annotations

import gc
import tracemalloc
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.ttrpc import (
    Method,
    MethodKind,
    ResourceExhausted,
    Service,
    TtrpcConfig,
    TtrpcLimits,
    serve_stream,
)
from rsocket_trio.ttrpc.wire.frames import HEADER, MAX_BODY
from tests.ttrpc.scenes import SERVICE, data, opening, pair, request

LIMITS = TtrpcLimits(
    max_active_requests=100,
    max_requests_size=2**20,
    max_stream_size=2**18,
    max_unread_size=2**20,
    max_outbox_size=2**16,
    max_answers_size=2**20,
    max_control_size=2**16,
    max_unsent_control_size=2**17,
)
"""Small limits, so that a bound that is kept differs from one that is not."""

AFFORDABLE = 4 * 2**20
"""The bytes that an attack may cost under `LIMITS`, with the objects around the bytes."""

MIB = 2**20


def waiting() -> Service:
    """A service that never answers: the worst case."""
    refused: list[None] = []

    async def never(_request):
        await trio.sleep_forever()

    async def never_stream(_request):
        await trio.sleep_forever()
        yield b""

    async def echo(request):
        return request

    async def large(_request):
        await trio.testing.wait_all_tasks_blocked()  # until all calls run
        return bytes(2**16)

    async def large_stream(_request):
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(20):
            try:
                yield bytes(2**16)
            except ResourceExhausted:  # a handler that goes on is stopped all the same
                refused.append(None)
                assert len(refused) <= 100

    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Never"), never)
    service.add(Method.raw(SERVICE, "Count", MethodKind.SERVER_STREAM), never_stream)
    service.add(Method.raw(SERVICE, "Join", MethodKind.CLIENT_STREAM), never)
    service.add(Method.raw(SERVICE, "Echo"), echo)
    service.add(Method.raw(SERVICE, "Large"), large)
    service.add(Method.raw(SERVICE, "Larges", MethodKind.SERVER_STREAM), large_stream)
    return service


@asynccontextmanager
async def attacked(affordable: int = AFFORDABLE, **settings):
    """Serve one connection; yields a function that sends and notes what it has cost at most."""
    settings.setdefault("limits", LIMITS)
    config = TtrpcConfig(**settings)
    here, there = pair("socket")
    most = before = 0
    async with here, trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stream, waiting(), there, config=config))
        await trio.testing.wait_all_tasks_blocked()

        async def send(*frames: bytes) -> bool:
            """Return whether the server still reads."""
            nonlocal most
            with trio.move_on_after(0.3) as scope:
                try:
                    await here.send_all(b"".join(frames))
                except trio.BrokenResourceError:
                    return False
            del frames
            most = max(most, tracemalloc.get_traced_memory()[0] - before)
            return not scope.cancelled_caught

        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            yield send
            assert most < affordable, f"the attack has cost {most / MIB:.1f} MiB"
        finally:
            tracemalloc.stop()
            nursery.cancel_scope.cancel(reason="the test is over")


@pytest.mark.limits_row("ttrpc: calls")
@pytest.mark.parametrize("method", ["Never", "Count", "Join"])
async def test_a_flood_of_requests(method):
    """Of 2000 with 10 KiB each, those within the limits are kept."""
    async with attacked() as send:
        for start in range(1, 4000, 20):
            payload = bytes(10 * 1024)
            if not await send(
                *(opening(each, method, payload=payload) for each in range(start, start + 20, 2))
            ):
                break


@pytest.mark.limits_row("ttrpc: messages that are not read")
async def test_a_flood_of_tiny_messages():
    """Each costs more as an object than its bytes: it counts as more."""
    async with attacked(overflow="pause") as send:
        await send(opening(1))
        tiny = data(1, b"x") * 1000
        sent = 0
        while sent < 300 and await send(tiny):
            sent += 1
        assert sent < 300, "the server must stop to read"


async def test_messages_of_4_mib_to_many_streams():
    """The first of each fits; together they are limited."""
    limits = TtrpcLimits(max_unread_size=12 * MIB)
    async with attacked(24 * MIB, limits=limits, overflow_patience=0.01) as send:
        body = bytes(MAX_BODY)
        for stream_id in range(1, 61, 2):
            if not await send(opening(stream_id), data(stream_id, body)):
                break


@pytest.mark.limits_row("ttrpc: refusals that are not read")
async def test_unknown_ids_and_junk():
    """Refusals that are not read end the connection."""
    async with attacked() as send:
        sent = 0
        for start in range(1, 2 * 10**6, 20_000):
            if not await send(*(data(each, b"x") for each in range(start, start + 20_000, 2))):
                break
            sent += 1
        assert sent < 100


async def test_answers_that_are_not_read():
    """Requests whose answers are large, from a peer that never reads."""
    async with attacked() as send:
        sent = 0
        for start in range(1, 20_000, 20):
            ids = range(start, start + 20, 2)
            if not await send(*(request(each, payload=bytes(10_000)) for each in ids)):
                break
            sent += 1
        assert sent < 500


@pytest.mark.limits_row("ttrpc: answers and messages that the client does not read")
@pytest.mark.parametrize("method", ["Large", "Larges"])
async def test_answers_of_handlers_that_run_together(method):
    """All have begun when the first of them fills the outbox: what they make is bounded."""
    async with attacked(3 * MIB) as send:
        await send(*(request(each, method) for each in range(1, 200, 2)))
        await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked(0.05)
        await send()


@pytest.mark.limits_row("ttrpc: a message that is not whole, or is too long")
@pytest.mark.parametrize("reserved", [False, True])
async def test_bodies_that_are_too_long(reserved):
    """They are dropped in pieces, and never kept."""
    length = 2**24 if reserved else 2**24 - 1
    async with attacked(2 * MIB) as send:
        for stream_id in range(1, 11, 2):
            if not await send(HEADER.pack(length, stream_id, 1, 0)):
                break
            piece = bytes(2**16)
            for _ in range(2**8):
                if not await send(piece):
                    break


async def test_a_body_that_never_ends():
    """A header promises 4 MiB: memory grows with what arrives."""
    async with attacked(MIB) as send:
        await send(HEADER.pack(MAX_BODY, 1, 1, 0), bytes(1000))


async def test_names_and_metadata():
    """Long names of services that do not exist are not remembered."""
    async with attacked() as send:
        for start in range(1, 4000, 20):
            frames = [
                request(each, f"m{each}" * 20, service=f"s{each}." * 100)
                for each in range(start, start + 20, 2)
            ]
            if not await send(*frames):
                break
