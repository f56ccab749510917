"""Requests that wait for a lease, or for room."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import MissingLease
from rsocket_trio.frames import LeaseFrame, PayloadFrame, RequestFnfFrame, RequestResponseFrame
from rsocket_trio.lease import Lease, LeaseGranter, LeaseOptions
from rsocket_trio.payload import Payload
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_server
from rsocket_trio.testing.leaks import all_tasks
from rsocket_trio.testing.peer import KnownAnswers

NOTHING = LeaseGranter()


def once(lease):
    """A source that grants this lease at the start, and then no other."""
    answers = iter([lease])
    return LeaseOptions(lambda statistics: next(answers, None))


async def test_a_burst_within_the_lease_is_not_refused():
    """Requests that wait for room in the outbox do not count as waiting for a lease."""
    config = ConnectionConfig(limits=Limits(max_outbox_size=100))
    async with connected_pair(
        KnownAnswers(),
        config=config,
        lease=LeaseOptions(),
        client_lease=LeaseOptions(max_waiting=0),
    ) as client:
        await client.request_response(Payload(b"the lease is here"))
        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(client.request_response, Payload(b"x" * 90))


@pytest.mark.parametrize("wait", [True, False])
async def test_a_lease_that_ends_while_requests_wait_for_room(wait, autojump_clock):
    """A request that waits for room leaves only if the lease still allows it then."""
    config = ConnectionConfig(limits=Limits(max_outbox_size=1000), close_timeout=0.1)
    missed = []

    async def ask(payload):
        try:
            await requester.fire_and_forget(payload)
        except MissingLease as error:
            missed.append(error)

    lease = LeaseOptions(wait=wait)
    async with frame_peer_server(config=config, lease=lease) as (peer, requester):
        await peer.receive(LeaseFrame)
        await peer.send(LeaseFrame(1000, 100))
        await peer.expect_nothing()
        async with trio.open_nursery() as nursery:
            # The peer does not read, and this is more than all buffers on the way hold.
            for _ in range(60):
                nursery.start_soon(ask, Payload(bytes(5000)))
            await trio.sleep(2)
            sent = [each for each in await peer.drain() if isinstance(each, RequestFnfFrame)]
            assert 0 < len(sent) < 60
            assert requester.leases.waiting_requests == (60 - len(sent) if wait else 0)
            assert len(missed) == (0 if wait else 60 - len(sent))
            await peer.send(LeaseFrame(1000, 100))
            sent += [each for each in await peer.drain() if isinstance(each, RequestFnfFrame)]
            assert len(sent) + len(missed) == 60


async def test_waiting_requests_may_be_cancelled_at_any_point():
    """A cancelled request leaves no trace, and the requests behind it go on."""
    async with frame_peer_server(lease=LeaseOptions()) as (peer, requester):
        await peer.receive(LeaseFrame)
        stream_id = -1
        tasks = len(all_tasks())

        async def answer_all():
            nonlocal stream_id
            while True:
                frame = await peer.receive()
                if isinstance(frame, RequestResponseFrame):
                    stream_id = frame.stream_id
                    await peer.send(PayloadFrame(stream_id, next=True, complete=True, data=b"a"))

        async def operation():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.send, LeaseFrame(100_000, 1))
                await requester.request_response(Payload(b"r"))

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert requester.leases.waiting_requests == 0
            assert requester.statistics().open_streams == 0
            await peer.send(LeaseFrame(100_000, 1))
            await trio.testing.wait_all_tasks_blocked()
            await requester.request_response(Payload(b"after"))
            assert requester.leases.sendable_requests == 0
            assert len(all_tasks()) <= tasks + 2

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_all)
            places = await cancel_everywhere(operation, check, every_task=True)
            nursery.cancel_scope.cancel()
        assert places > 3


async def test_a_cancelled_request_gives_its_place_to_the_next():
    """The first request of the queue is cancelled: the next becomes the first."""
    async with frame_peer_server(lease=LeaseOptions()) as (peer, requester):
        await peer.receive(LeaseFrame)
        scopes = [trio.CancelScope() for _ in range(3)]

        async def ask(number):
            with scopes[number]:
                await requester.fire_and_forget(Payload(b"%d" % number))

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(ask, number)
                await trio.testing.wait_all_tasks_blocked()
            scopes[0].cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert requester.leases.waiting_requests == 2
            await peer.send(LeaseFrame(100_000, 1))
            assert (await peer.receive(RequestFnfFrame)).data == b"1"
            await peer.expect_nothing()
            nursery.cancel_scope.cancel()


async def test_both_ends_under_load(autojump_clock):
    """A thousand requests through a small rate: all are answered, none is rejected."""
    answered = []

    async with connected_pair(
        KnownAnswers(),
        lease=LeaseOptions(Lease(100, 1.0)),
        client_lease=LeaseOptions(max_waiting=1000),
    ) as client:

        async def ask(number):
            reply = await client.request_response(Payload(b"%d" % number))
            answered.append(int(reply.data))

        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(ask, number)
        assert sorted(answered) == list(range(1000))
        assert 9 <= trio.current_time() - start < 11


async def test_requests_after_the_end_fail_with_the_end():
    """On a closed connection a request fails with that, not with a missing lease."""
    async with connected_pair(
        KnownAnswers(), lease=LeaseOptions(), client_lease=LeaseOptions(NOTHING)
    ) as client:
        await client.request_response(Payload(b"x"))
    for size in (1, 100_000):
        with pytest.raises(trio.ClosedResourceError):
            await client.request_response(Payload(bytes(size)))


async def respond(requester):
    await requester.request_response(Payload(b"x"))


async def large(requester):
    await requester.request_response(Payload(b"x" * 300))


async def forget(requester):
    await requester.fire_and_forget(Payload(b"x" * 100))


async def stream(requester):
    async with requester.request_stream(Payload(b"3")) as items:
        assert len([item async for item in items]) == 3


async def channel(requester):
    async with requester.request_channel([Payload(b"a"), Payload(b"b")]) as items:
        assert len([item async for item in items]) == 2


@pytest.mark.parametrize("by_server", [False, True], ids=["client asks", "server asks"])
@pytest.mark.parametrize("interaction", [respond, large, forget, stream, channel])
async def test_each_interaction_may_be_cancelled_at_any_point(interaction, by_server):
    """A request cancelled while it waits for a lease, or after, leaves no trace."""
    leases = LeaseGranter()
    sides = []

    async def acceptor(setup, requester):
        sides.append(requester)
        return KnownAnswers()

    async with connected_pair(
        acceptor,
        client_responder=KnownAnswers(),
        config=ConnectionConfig(fragment_size=64),
        lease=LeaseOptions(leases),
        client_lease=LeaseOptions(leases),
    ) as client:
        sides.append(client)
        requester = sides[0 if by_server else 1]
        leases.grant(Lease(1000, 100.0))
        await interaction(requester)
        await trio.testing.wait_all_tasks_blocked()
        tasks = len(all_tasks())

        async def operation():
            leases.grant(Lease(0, 0))
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(interaction, requester)
                await trio.testing.wait_all_tasks_blocked()
                leases.grant(Lease(1000, 100.0))

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            leases.grant(Lease(1000, 100.0))
            for side in sides:
                assert side.leases.waiting_requests == 0
                assert side.statistics().open_streams == 0
                assert side.statistics().active_requests == 0
            assert len(all_tasks()) <= tasks + 8
            await interaction(requester)
            await trio.testing.wait_all_tasks_blocked()

        assert await cancel_everywhere(operation, check, every_task=True) > 3
