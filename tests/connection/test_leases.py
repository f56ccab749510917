"""The sources of leases, and when they are called.

Modules of rsocket_trio.connection: leases, granting.
"""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import connect, serve
from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import Rejected
from rsocket_trio.frames import LeaseFrame, PayloadFrame, RequestFnfFrame, RequestResponseFrame
from rsocket_trio.lease import Lease, LeaseGranter, LeaseOptions
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client
from rsocket_trio.testing.peer import KnownAnswers


def granting(source, responder=None):
    return frame_peer_client(responder or KnownAnswers(), lease=LeaseOptions(source))


async def send_fnf(peer, count, first=1):
    await peer.send(*(RequestFnfFrame(first + 2 * number, data=b"x") for number in range(count)))


async def leases_of(peer):
    """The leases that have arrived, as (time, n)."""
    return [each.number_of_requests for each in await peer.drain() if isinstance(each, LeaseFrame)]


async def test_a_lease_is_a_rate(autojump_clock):
    """A plain lease is granted again when it has expired, and not when it is used up."""
    async with granting(Lease(2, 1.0)) as peer:
        assert await leases_of(peer) == [2]
        await send_fnf(peer, 3)
        assert await leases_of(peer) == []
        await trio.sleep(0.9)
        assert await leases_of(peer) == []
        await trio.sleep(0.1)
        assert await leases_of(peer) == [2]
        await trio.sleep(3)
        assert await leases_of(peer) == [2, 2, 2]


async def test_a_function_is_called_when_a_lease_ends(autojump_clock):
    """It is called at the start, when a lease is used up, and when it has expired."""
    questions = []

    def source(statistics):
        questions.append((trio.current_time(), statistics.requests_left, statistics.expires_in))
        return Lease(len(questions), 10.0)

    start = trio.current_time()
    async with granting(source) as peer:
        assert await leases_of(peer) == [1]
        await trio.sleep(5)
        await send_fnf(peer, 1)
        assert await leases_of(peer) == [2]
        await trio.sleep(10)
        assert await leases_of(peer) == [3]
    assert [(time - start, left, pytest.approx(expires)) for time, left, expires in questions] == [
        (0, 0, 0),
        (5, 0, 5),
        (15, 0, 0),
    ]


async def test_a_source_may_be_an_async_function(autojump_clock):
    """The function may wait for a lease."""

    async def source(statistics):
        await trio.sleep(1)
        return Lease(7, 10.0)

    async with granting(source) as peer:
        assert await leases_of(peer) == []
        await trio.sleep(1)
        assert await leases_of(peer) == [7]


async def test_a_function_that_returns_none(autojump_clock):
    """None for a used lease: called again when that expires. None for no lease: never again."""
    questions = []
    answers = iter([Lease(1, 10.0), None, Lease(1, 10.0), None, None])

    def source(statistics):
        questions.append(trio.current_time())
        return next(answers)

    start = trio.current_time()
    async with granting(source) as peer:
        await peer.receive(LeaseFrame)
        await send_fnf(peer, 1)
        await trio.sleep(1)
        await send_fnf(peer, 5)  # beyond the lease
        await trio.sleep(9)
        assert await leases_of(peer) == [1]
        await send_fnf(peer, 1)
        await trio.sleep(40)
    assert [time - start for time in questions] == [0, 0, 10, 10, 20]


async def test_a_lease_of_no_requests_lasts_its_time(autojump_clock):
    """A lease of no requests is not used up: the source is called when it expires."""
    questions = []

    def source(statistics):
        questions.append(trio.current_time())
        return Lease(0, 10.0) if len(questions) < 3 else Lease(5, 0)

    start = trio.current_time()
    async with granting(source) as peer:
        await trio.sleep(35)
        assert await leases_of(peer) == [0, 0, 5]  # The last lease is a stop without an end.
    assert [time - start for time in questions] == [0, 10, 20]


async def test_the_arguments_of_a_function(autojump_clock):
    """Running requests, requests beyond the lease, and how long request_response takes."""
    told = []

    class Slow(Responder):
        async def request_response(self, payload):
            await trio.sleep(float(payload.data))
            return payload

        async def fire_and_forget(self, payload):
            await trio.sleep_forever()

    def source(statistics):
        told.append(statistics)
        return Lease(3, 10.0)

    async with granting(source, Slow()) as peer:
        await peer.receive(LeaseFrame)
        await peer.send(RequestResponseFrame(1, data=b"2"), RequestResponseFrame(3, data=b"4"))
        await peer.send(RequestFnfFrame(5), RequestFnfFrame(7), RequestFnfFrame(9))
        await trio.sleep(25)
    first, used_up, expired, again = told
    assert (first.active_requests, first.rejected, first.mean_latency) == (0, 0, None)
    assert (used_up.active_requests, used_up.rejected, used_up.mean_latency) == (3, 2, None)
    assert (expired.active_requests, expired.mean_latency) == (1, pytest.approx(3))
    assert again.mean_latency is None
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        again.rejected = 0


async def test_a_source_may_be_an_async_iterable(autojump_clock):
    """Each lease is granted when it comes, also before the last one has ended."""

    async def source():
        for number in range(3):
            yield Lease(number, 100.0)
            await trio.sleep(1)

    async with granting(source()) as peer:
        assert await leases_of(peer) == [0]
        await trio.sleep(10)
        assert await leases_of(peer) == [1, 2]


async def test_an_iterable_that_never_waits():
    """It neither starves the connection nor fills memory if the peer does not read."""
    given = []

    async def source():
        while True:
            given.append(1)
            yield Lease(len(given), 100.0)

    config = ConnectionConfig(limits=Limits(max_control_size=2000))
    options = LeaseOptions(source())
    async with frame_peer_client(KnownAnswers(), setup=False, config=config, lease=options) as peer:
        await peer.setup(lease=True)
        await trio.testing.wait_all_tasks_blocked()
        assert len(given) < 100_000
        assert isinstance(await peer.receive(), LeaseFrame)


async def leave_scope(statistics):
    scope = trio.CancelScope()
    scope.__enter__()
    scope.cancel()


async def raise_base_exception(statistics):
    raise GeneratorExit


async def raise_a_kept_cancellation(statistics):
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept = error
            raise
    raise kept


@pytest.mark.parametrize(
    "source",
    [
        lambda statistics: 1 / 0,
        lambda statistics: "a lease",
        lambda: None,
        raise_base_exception,
        raise_a_kept_cancellation,
        leave_scope,
    ],
    ids=[
        "raises",
        "gives a wrong lease",
        "takes no argument",
        "raises a BaseException",
        "raises a cancellation",
        "leaves a cancel scope open",
    ],
)
async def test_a_source_that_fails_is_logged(source, caplog):
    """The connection lives, and leases granted by hand still work."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return KnownAnswers()

    async with granting(source, acceptor) as peer:
        await peer.expect_alive()
        assert "source of leases failed" in caplog.text
        requesters[0].leases.grant(Lease(1, 10.0))
        assert (await peer.receive(LeaseFrame)).number_of_requests == 1
        await peer.send(RequestResponseFrame(1, data=b"x"))
        assert (await peer.receive(PayloadFrame)).data == b"x"


async def test_a_lease_by_hand_replaces_the_current_one(autojump_clock):
    """When it has ended, the source is called again."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return KnownAnswers()

    async with granting(lambda statistics: Lease(5, 100.0), acceptor) as peer:
        assert await leases_of(peer) == [5]
        requesters[0].leases.grant(Lease(1, 10.0))
        assert await leases_of(peer) == [1]
        await trio.sleep(10)
        assert await leases_of(peer) == [5]
        requesters[0].leases.grant(Lease(0, 10.0))
        await trio.sleep(9)
        assert await leases_of(peer) == [0]
        await trio.sleep(1)
        assert await leases_of(peer) == [5]


async def test_an_acceptor_may_choose_the_source(autojump_clock):
    """An acceptor sets the source of its connection, or grants its first lease by hand."""

    async def chooses(setup, requester):
        requester.leases.source = Lease(9, 10.0)
        return KnownAnswers()

    async with granting(Lease(5, 10.0), chooses) as peer:
        assert await leases_of(peer) == [9]

    async def grants(setup, requester):
        requester.leases.grant(Lease(8, 10.0))
        return KnownAnswers()

    async with granting(Lease(5, 10.0), grants) as peer:
        assert await leases_of(peer) == [8]
        await trio.sleep(10)
        assert await leases_of(peer) == [5]


async def test_one_source_may_serve_all_connections(autojump_clock):
    """A lease granted with it goes to every connection; later ones begin with the last lease."""
    source = LeaseGranter()
    async with granting(source) as one, granting(source) as other:
        await one.expect_nothing()
        source.grant(Lease(5, 10.0))
        assert await leases_of(one) == await leases_of(other) == [5]
        source.grant(Lease(6, 10.0))
        assert await leases_of(one) == await leases_of(other) == [6]
        async with granting(source) as late:
            assert await leases_of(late) == [6]
        source.grant(Lease(7, 10.0))
        assert await leases_of(one) == [7]
        assert source.last == Lease(7, 10.0)


async def test_a_grantor_may_have_a_source_behind_it(autojump_clock):
    """The source behind it begins, and goes on when a lease by hand has ended."""
    source = LeaseGranter(Lease(5, 10.0))
    async with granting(source) as peer:
        assert await leases_of(peer) == [5]
        source.grant(Lease(1, 20.0))
        assert await leases_of(peer) == [1]
        await trio.sleep(19)
        assert await leases_of(peer) == []
        await trio.sleep(1)
        assert await leases_of(peer) == [5]


async def test_a_stop_holds_for_later_connections(autojump_clock):
    """Once requests are stopped by hand, the source behind lets no new connection through."""
    source = LeaseGranter(Lease(5, 10.0))
    source.grant(Lease(0, 0))
    async with granting(source) as peer:
        await trio.sleep(50)
        assert await leases_of(peer) == [0]
        source.grant(Lease(1, 10.0))
        await trio.sleep(10)
        assert await leases_of(peer) == [1, 5]


async def test_the_metadata_of_a_lease_must_fit_its_frame():
    """A lease may have as much metadata as its frame has room for, and not a byte more."""
    largest = Lease(1, 1.0, bytes(2**24 - 15))
    with pytest.raises(ValueError, match="from 0 to 16777201 bytes, not 16777202"):
        Lease(1, 1.0, bytes(2**24 - 14))
    async with frame_peer_client(KnownAnswers(), lease=largest) as peer:
        assert (await peer.receive(LeaseFrame)).metadata == largest.metadata


async def test_the_default_lease_is_the_largest():
    """Without a source each side grants the largest lease that a frame can carry."""
    async with connected_pair(
        KnownAnswers(), lease=LeaseOptions(), client_lease=LeaseOptions()
    ) as client:
        await client.request_response(Payload(b"x"))
        assert client.leases.sendable_requests == 2**31 - 2
        assert client.leases.received_lease == Lease(2**31 - 1, (2**31 - 1) / 1000)


@pytest.mark.parametrize("kind", ["tcp", "unix", "ws"])
async def test_leases_work_on_every_transport(kind, tmp_path):
    """Leases are granted, kept and enforced on every transport."""
    uri = {
        "tcp": "tcp://127.0.0.1:0",
        "unix": f"unix://{tmp_path}/socket",
        "ws": "ws://127.0.0.1:0/path",
    }[kind]
    async with trio.open_nursery() as nursery:
        start = partial(serve, KnownAnswers(), uri, lease=LeaseOptions(Lease(2, 3600.0)))
        server = await nursery.start(start)
        async with connect(server.uris[0], lease=LeaseOptions()) as requester:
            for _ in range(2):
                await requester.request_response(Payload(b"x"))
            with trio.move_on_after(0.05) as scope:
                await requester.request_response(Payload(b"x"))
            assert scope.cancelled_caught
            # This client breaks the rule: it sends without a lease.
            requester.leases._leases.held.replace(1, 3600, trio.current_time())
            with pytest.raises(Rejected, match="beyond the lease"):
                await requester.request_response(Payload(b"x"))
        nursery.cancel_scope.cancel()


async def test_an_iterable_is_closed_with_the_connection():
    """A generator of leases ends with its connection; later leases have no effect."""
    ended = []

    async def source():
        try:
            yield Lease(5, 10.0)
            await trio.sleep_forever()
        finally:
            ended.append(True)

    async with connected_pair(
        KnownAnswers(), lease=LeaseOptions(), client_lease=LeaseOptions(source())
    ) as client:
        await client.request_response(Payload(b"x"))
    assert ended
    queued = client.statistics().queued_size
    client.leases.grant(Lease(5, 10.0))
    assert client.statistics().queued_size == queued


async def test_an_iterator_that_is_no_generator_is_closed_with_the_connection():
    """A cancellation ends a generator that waits, but only ``aclose`` ends another iterator."""

    class Endless:
        closed = 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            return Lease(5, 10.0)

        async def aclose(self):
            self.closed += 1

    source = Endless()
    async with connected_pair(
        KnownAnswers(), lease=LeaseOptions(), client_lease=LeaseOptions(source)
    ) as client:
        await client.request_response(Payload(b"x"))
        assert not source.closed
    assert source.closed == 1
