"""A connection at rest keeps none of the frames and payloads that passed through it."""

from __future__ import annotations

import gc
import socket
import tracemalloc
from contextlib import contextmanager

import pytest
import trio
import trio.testing
from wsproto.connection import Connection, ConnectionType

from rsocket_trio import ConnectionConfig, Payload, Responder, connect, serve
from rsocket_trio.sockets.direct import direct
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.transports import ByteStreamTransport, TransportInfo, WsprotoTransport

SIZE = 4_000_000


class Echo(Responder):
    def __init__(self):
        self.told = trio.Event()

    async def request_response(self, payload):
        return payload

    async def fire_and_forget(self, payload):
        self.told.set()

    async def request_stream(self, payload):
        yield payload

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield item


async def exchange(requester, interaction, echo):
    """Exchange a payload of this size each way, and keep none of it."""
    large = Payload(bytes(SIZE))
    if interaction == "request_response":
        await requester.request_response(large)
    elif interaction == "fire_and_forget":
        await requester.fire_and_forget(large)
        await echo.told.wait()
    elif interaction == "request_stream":
        async with requester.request_stream(large) as items:
            await items.receive()
    else:
        async with requester.request_channel([large]) as items:
            await items.receive()


@contextmanager
def without_collector():
    """Cycles stay in memory for long: the collector counts objects, not bytes."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("fragment_size", [65536, 0xFFFFFF])
@pytest.mark.parametrize(
    "interaction", ["request_response", "fire_and_forget", "request_stream", "request_channel"]
)
@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_a_connection_at_rest_keeps_no_payload(scheme, interaction, fragment_size):
    """Neither end keeps the last frame it has read, nor the last payload."""
    config = ConnectionConfig(fragment_size=fragment_size)
    echo = Echo()
    tracemalloc.start()
    try:
        async with trio.open_nursery() as nursery:

            async def begin(task_status):
                address = f"{scheme}://127.0.0.1:0"
                await serve(echo, address, config=config, task_status=task_status)

            server = await nursery.start(begin)
            async with connect(server.uris[0], config=config) as requester:
                await requester.request_response(Payload(b"warm"))
                with without_collector():
                    before, _ = tracemalloc.get_traced_memory()
                    await exchange(requester, interaction, echo)
                    await trio.testing.wait_all_tasks_blocked()
                    after, _ = tracemalloc.get_traced_memory()
                    assert after - before < SIZE / 2
            nursery.cancel_scope.cancel()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("interaction", ["request_stream", "request_channel"])
async def test_a_failed_reader_keeps_no_frames(interaction):
    """The error is kept for the next reader, but not the frames that it was raised for."""

    class Item(bytearray):
        """An item of the reader's; its collection is noted."""

        def __del__(self):
            gone.append(self[0])

    class Fails(Responder):
        async def request_stream(self, payload):
            raise KeyError
            yield

        async def request_channel(self, payload, payloads):
            raise KeyError
            yield

    async def read(number):
        held = Item([number])  # noqa: F841 - only this frame of the stack holds it
        try:
            await items.receive()
        except Exception as error:
            seen.append(len(list(frames_of(error))))

    def frames_of(error):
        place = error.__traceback__
        while place is not None:
            yield place
            place = place.tb_next

    gone, seen = [], []
    async with connected_pair(Fails()) as requester:
        opened = (
            requester.request_stream()
            if interaction == "request_stream"
            else requester.request_channel([Payload()])
        )
        async with opened as items:
            with without_collector():
                for number in range(3):
                    await read(number)
                assert gone == [0, 1, 2]
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("scheme", ["tcp", "ws", "memory stream", "unread"])
async def test_a_transport_that_is_closed_in_the_middle_of_a_frame(scheme):
    """It keeps nothing, as the collector may come late: peers could fill the memory with halves."""
    info = TransportInfo(scheme="test")
    there, here = trio.testing.memory_stream_pair()
    if scheme == "ws":
        transport = WsprotoTransport(here, Connection(ConnectionType.SERVER), info=info)
        # RFC 6455, section 5.2: a masked binary message, its length in 8 bytes
        head = b"\x82\xff" + (SIZE + 1).to_bytes(8, "big") + bytes(4)
    else:
        head = (SIZE + 1).to_bytes(3, "big")
        if scheme != "memory stream":
            one, other = socket.socketpair()
            here = direct(trio.SocketStream(trio.socket.from_stdlib_socket(one)))
            there = trio.SocketStream(trio.socket.from_stdlib_socket(other))
        transport = ByteStreamTransport(here, info=info)
    tracemalloc.start()
    try:
        with without_collector():
            before, _ = tracemalloc.get_traced_memory()
            if scheme == "unread":
                assert not transport.send_frames_nowait([bytes(SIZE)])
            else:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(transport.receive_frames)
                    await there.send_all(head)
                    for _ in range(SIZE // 50_000):
                        await there.send_all(bytes(50_000))
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    nursery.cancel_scope.cancel()
            middle, _ = tracemalloc.get_traced_memory()
            assert middle - before > SIZE / 2
            await transport.aclose()
            await there.aclose()
            after, _ = tracemalloc.get_traced_memory()
            assert after - before < SIZE / 4
            with pytest.raises(trio.ClosedResourceError):
                await transport.receive_frames()
    finally:
        tracemalloc.stop()
