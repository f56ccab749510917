"""Leases between this package and rsocket-py, which grants and keeps them, but enforces none.

Its own responder answers whatever comes, so that nothing beyond a lease leaves here is seen on the
wire between the two.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

import rsocket_trio
from rsocket_trio import Lease, LeaseOptions, LeaseSource, Payload, UnsupportedSetup
from rsocket_trio.frames import RequestResponseFrame, SetupFrame

pytestmark = pytest.mark.interop

ONCE_2 = "2/3600"


@pytest.fixture
def py(harness):
    """rsocket-py over TCP."""
    (stack,) = (each for each in harness.stacks() if each.package == "rsocket-py")
    return stack


async def two_of_five(requester, nursery):
    """Ask five times, and wait until two are answered and it is quiet."""
    send, receive = trio.open_memory_channel(5)

    async def ask(number):
        send.send_nowait((await requester.request_response(Payload(b"%d" % number))).data)

    for number in range(5):
        nursery.start_soon(ask, number)
        await trio.testing.wait_all_tasks_blocked()
    # As a set: answers of one read wake their tasks in any order.
    assert {await receive.receive(), await receive.receive()} == {b"0", b"1"}
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert receive.statistics().current_buffer_used == 0
    assert requester.leases.waiting == 3


async def test_its_leases_are_kept(py, wire_to):
    """Of five requests the two that its lease allows leave, and are answered."""
    async with (
        py.serve(0, ONCE_2) as (uri, _),
        wire_to(uri) as wire,
        rsocket_trio.connect(wire.uri, lease=LeaseOptions()) as requester,
        trio.open_nursery() as nursery,
    ):
        await two_of_five(requester, nursery)
        assert len(wire.frames("client", RequestResponseFrame)) == 2
        assert wire.frames("client", SetupFrame)[0].lease
        assert requester.leases.last_lease == Lease(2, 3600.0)
        assert requester.leases.left == 0
        nursery.cancel_scope.cancel()


async def test_one_without_leases_refuses(py):
    """Its refusal of a SETUP that asks for leases is `UnsupportedSetup` here."""
    async with py.serve() as (uri, _):
        with pytest.raises(UnsupportedSetup):
            async with rsocket_trio.connect(uri, lease=LeaseOptions()):
                pass


async def test_it_keeps_ours(serving, py, harness):
    """Its requests wait for our leases, and each goes through when its time has come."""
    harness.require("rsocket-py")
    source = LeaseSource()
    options = LeaseOptions(source)
    async with serving(py, 20_000, 0, ONCE_2, lease=options) as (client, responder):
        source.grant(Lease(1, 3600.0))
        await client.response(b"so that the connection is there")
        leases = responder.requester.leases
        calls = [await client.start("request_response", b"%d" % number) for number in range(5)]
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not any(map(client.pending, calls))
        for first, last in (0, 2), (2, 5):
            source.grant(Lease(last - first, 3600.0))
            for number in range(first, last):
                assert (await client.next_item(calls[number]))[0] == b"%d" % number
            assert leases.statistics().left == 0
        assert leases.statistics().rejected == 0


async def test_a_server_keeps_its_clients_leases(serving, py, harness):
    """Our server's requests to its client are held to the lease that client grants."""
    harness.require("rsocket-py")
    async with (
        serving(py, 20_000, 0, ONCE_2, lease=LeaseOptions()) as (client, responder),
        trio.open_nursery() as nursery,
    ):
        await client.response(b"so that the connection is there")
        await two_of_five(responder.requester, nursery)
        assert responder.requester.leases.last_lease == Lease(2, 3600.0)
        nursery.cancel_scope.cancel()
