"""What one peer may do in one turn of the loop, and what its streams may hold together."""

from __future__ import annotations

import itertools

import trio
import trio.testing

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import MAX_DEMAND, never
from rsocket_trio.rsio.connection.send_queue import TURNS, SendQueue
from rsocket_trio.rsio.wire.messages import Subscribe
from tests.rsio.engine_scenes import stranger_to_server
from tests.rsio.test_hostile_peers import Endless, settle


async def test_many_streams_of_short_elements_of_one_size_share_a_bound():
    source = Endless(b"12345678")
    target = {"forever": rsio.fixed_size(source, 8)}
    async with stranger_to_server(target, lockstep=True) as stranger:
        for number in range(500):
            await stranger.send(Subscribe("forever", number, MAX_DEMAND))
        await settle()
        assert 8 * source.made < 2 * 2**20


async def test_elements_without_octets_are_requested_many_at_once():
    requests = []

    class Empties:
        def subscribe(self, to):
            self.to = to
            to.on_subscribe(self)

        def request(self, n):
            requests.append(n)
            for _ in range(n):
                self.to.on_next(b"")

        def cancel(self):
            pass

    async with stranger_to_server({"empties": Empties()}) as stranger:
        await stranger.send(Subscribe("empties", 0, 5000))
        await settle()
        assert sum(requests) == 5000
        assert max(requests) > 50


async def test_a_write_has_a_bounded_number_of_turns():
    class Short:
        scheduled = False
        has_more = False

        def write(self, pieces, budget):
            pieces.append(b"x")
            return 1

    queue = SendQueue(1000)
    for _ in range(10 * TURNS):
        queue.schedule(Short())
    writes = []

    async def send(pieces):
        writes.append(len(pieces))
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run, send)
        await settle()
        nursery.cancel_scope.cancel()
    assert writes == [TURNS] * 10


async def test_other_tasks_run_between_many_subscriptions_that_come_at_once():
    found = 0
    seen = [0]

    def resolve(_name, _connection):
        nonlocal found
        found += 1
        return never()

    async def look():
        while True:
            seen.append(found)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        async with stranger_to_server(resolve) as stranger:
            nursery.start_soon(look)
            await stranger.send(*[Subscribe("any", number) for number in range(1000)])
            while found < 1000:
                await trio.lowlevel.checkpoint()
            seen.append(found)
        nursery.cancel_scope.cancel()
    # 256 at once; trio may run the reader twice before the other task.
    assert max(b - a for a, b in itertools.pairwise(seen)) <= 512
