"""Leases between this package and peers that grant and keep them.

rsocket-py enforces none: its responder answers each request, so the wire between the two shows
whether this package sends requests beyond a lease.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

import rsocket_trio
from rsocket_trio import (
    InvalidSetup,
    Lease,
    LeaseGranter,
    LeaseOptions,
    Payload,
    UnsupportedSetup,
)
from rsocket_trio.frames import RequestResponseFrame, SetupFrame

pytestmark = pytest.mark.interop

ONCE_2 = "2/3600"

REFUSALS = {
    "rsocket-py": UnsupportedSetup,
    # Protocol.md, "Error Codes": an unsupported extension is UNSUPPORTED_SETUP.
    "rsocket-java": InvalidSetup,
}


ON_TCP = ["rsocket-py-tcp", "rsocket-java-tcp"]


def find(harness, name):
    (stack,) = (each for each in harness.stacks() if str(each) == name)
    harness.require(stack.package)
    return stack


@pytest.fixture(params=[*ON_TCP, "rsocket-java-ws"])
def leasing(request, harness):
    """A peer that knows leases, over one transport."""
    return find(harness, request.param)


@pytest.fixture(params=ON_TCP)
def leasing_on_tcp(request, harness):
    """A peer that knows leases, over TCP, where its frames can be recorded."""
    return find(harness, request.param)


def granted_two(lease):
    """Return whether it is the lease `ONCE_2`; rsocket-java adds empty metadata to its leases."""
    return not lease.metadata and (lease.requests, lease.time_to_live) == (2, 3600.0)


async def two_of_five(requester, nursery):
    """Send five requests, and wait until two are answered and no frame comes."""
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
    assert requester.leases.waiting_requests == 3


async def test_leases_of_the_peer_are_kept(leasing_on_tcp, wire_to):
    """Of five requests the two that its lease allows leave, and are answered."""
    async with (
        leasing_on_tcp.serve(0, ONCE_2) as (uri, _),
        wire_to(uri) as wire,
        rsocket_trio.connect(wire.uri, lease=LeaseOptions()) as requester,
        trio.open_nursery() as nursery,
    ):
        await two_of_five(requester, nursery)
        assert len(wire.frames("client", RequestResponseFrame)) == 2
        assert wire.frames("client", SetupFrame)[0].lease
        assert granted_two(requester.leases.received_lease)
        assert requester.leases.sendable_requests == 0
        nursery.cancel_scope.cancel()


async def test_a_peer_without_leases_refuses(leasing):
    """Its refusal of a SETUP with leases arrives here with its code."""
    async with leasing.serve() as (uri, _):
        with pytest.raises(REFUSALS[leasing.package]):
            async with rsocket_trio.connect(uri, lease=LeaseOptions()):
                pass


async def test_the_peer_keeps_our_leases(serving, leasing):
    """Its requests wait for our leases, and each leaves when its lease has come."""
    source = LeaseGranter()
    options = LeaseOptions(source)
    async with serving(leasing, 20_000, 0, ONCE_2, lease=options) as (client, responder):
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
            assert leases.statistics().requests_left == 0
        assert leases.statistics().rejected == 0


async def test_a_server_keeps_its_clients_leases(serving, leasing):
    """Our server's requests to its client keep to the lease that the client grants."""
    async with (
        serving(leasing, 20_000, 0, ONCE_2, lease=LeaseOptions()) as (client, responder),
        trio.open_nursery() as nursery,
    ):
        await client.response(b"so that the connection is there")
        await two_of_five(responder.requester, nursery)
        assert granted_two(responder.requester.leases.received_lease)
        nursery.cancel_scope.cancel()
