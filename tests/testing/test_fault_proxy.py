"""A proxy with faults between a client and a server on real sockets; and what it has counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from rsocket_trio import Caller, ConnectionClosed, Router, RSocketError, connect
from rsocket_trio.frames import (
    PayloadFrame,
    SetupFrame,
)
from rsocket_trio.testing.fault_proxy import Fault, fault_proxy
from rsocket_trio.testing.serving import serving
from tests.waiting import PATIENCE


def application() -> Router:
    router = Router()

    @router.request_stream("count")
    async def count() -> AsyncIterator[int]:
        for n in range(6):
            yield n

    return router


async def items_through(faults, patience=PATIENCE):
    """What a client gets of six items, and the proxy."""
    got = []
    async with serving(application()) as server, fault_proxy(server.uris[0], faults) as proxy:
        async with connect(proxy.uri) as requester:
            async with Caller(requester).request_stream("count", returns=int) as items:
                with trio.move_on_after(patience):
                    async for each in items:
                        got.append(each)
    return got, proxy


def of_server(action, number, **more):
    """A fault of an item; numbers among the frames of the server, of which PAYLOADs are first."""
    return [Fault(action, kind=PayloadFrame, by="server", number=number, **more)]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("drop", [1, 2, 3, 4, 5]),
        ("duplicate", [0, 0, 1, 2, 3, 4, 5]),
        ("swap", [1, 0, 2, 3, 4, 5]),
        ("delay", [0, 1, 2, 3, 4, 5]),
        ("stall", []),
    ],
)
async def test_one_frame(action, expected):
    """The fault concerns that frame and no other; the first frame is the KEEPALIVE for SETUP."""
    got, proxy = await items_through(
        of_server(action, 2, seconds=0.01), 0.5 if action == "stall" else PATIENCE
    )
    assert got == expected
    assert proxy.faults == 1
    assert proxy.connections == 1
    assert [type(each) for each in proxy.log.frames("client", SetupFrame)] == [SetupFrame]


async def test_a_cut_is_a_reset():
    """The client loses its connection in the middle of the stream, and so does the server."""
    with pytest.raises(ConnectionClosed):
        await items_through(of_server("cut", 4))


async def test_a_script_of_ones_own():
    """It replaces frames, and its error is the error of the block."""

    async def doubled(frame):
        passed = frame.passed
        twice = passed.by == "server" and isinstance(passed.frame, PayloadFrame)
        return [passed.data] * (2 if twice and passed.frame.data else 1)

    got, _ = await items_through(doubled)
    assert got[:4] == [0, 0, 1, 1]

    async def fails(frame):
        raise KeyError("of the script")

    with pytest.raises(KeyError, match="of the script"):
        await items_through(fails)


async def test_cut_by_hand_and_again():
    """All that is open is cut; the next connection is served."""
    async with serving(application()) as server, fault_proxy(server.uris[0]) as proxy:
        for _ in range(2):
            with pytest.raises(RSocketError):
                async with connect(proxy.uri) as requester:
                    proxy.cut()
                    async with requester.request_stream(route="count") as items:
                        await items.receive()
        assert proxy.connections == 2


async def test_addresses_are_checked():
    """Only TCP, with a text that says so."""
    for wrong in ("unix:///tmp/x", "ws://127.0.0.1:1/"):
        with pytest.raises(ValueError, match="tcp://host:port"):
            async with fault_proxy(wrong):
                pass


@pytest.mark.parametrize(
    ("action", "options", "text"),
    [
        ("drp", {}, "action must be 'drop', "),
        ("drop", {"kind": "PAYLOAD"}, "kind must be a class of rsocket_trio.frames"),
        ("drop", {"by": "sever"}, "by must be 'client' or 'server'"),
        ("drop", {"number": 0}, "number must be"),
        ("drop", {"connection": 0}, "connection must be"),
        ("delay", {}, "needs seconds="),
        ("delay", {"seconds": -1}, "seconds must be"),
    ],
)
def test_a_fault_that_would_concern_nothing(action, options, text):
    """It is an error, and no test that passes without its fault."""
    with pytest.raises((TypeError, ValueError), match=text):
        Fault(action, **options)
