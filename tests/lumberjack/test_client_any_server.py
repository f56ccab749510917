"""Any behaviour of servers and callers: every event arrives, and no acknowledged one again."""

from __future__ import annotations

from unittest import mock

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.lumberjack import ShipperConfig, connect
from tests.lumberjack.shipping import HOST, OTHER, RETRY, Network, counted, numbers

actions = st.one_of(
    st.tuples(st.just("ack"), st.integers(1, 9)),  # So many events, or the whole window.
    st.sampled_from([("all",), ("keep-alive",), ("close",), ("garbage",), ("silence",), ("more",)]),
)
connections = st.lists(st.lists(actions, max_size=6), max_size=6)
calls = st.lists(
    st.tuples(
        st.integers(1, 12),  # Events.
        st.integers(0, 40),  # When it begins.
        st.none() | st.integers(1, 20),  # When it is cancelled.
    ),
    min_size=1,
    max_size=5,
)


class Servers:
    """Follow the scripts, one for each connection, and then acknowledge everything."""

    def __init__(self, network, scripts):
        self.network = network
        self.scripts = list(scripts)
        self.received = []  # Of each connection: the numbers, in order.
        self.acknowledged = set()

    async def run(self, nursery):
        while True:
            peer = await self.network.peer()
            script = self.scripts.pop(0) if self.scripts else None
            nursery.start_soon(self.serve, peer, script)

    async def serve(self, peer, script):
        mine = []
        self.received.append(mine)
        try:
            while (batch := await peer.batch()) is not None:
                found = numbers(batch)
                assert not self.acknowledged & {*found}, "an acknowledged event came again"
                mine += found
                await self.answer(peer, found, script)
                if script == []:
                    await peer.close()
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client has closed it.

    async def answer(self, peer, found, script):
        done = 0
        while done < len(found):
            action = script.pop(0) if script else ("all",)
            if action[0] in {"ack", "all"}:
                done = max(done, min(action[1], len(found)) if len(action) > 1 else len(found))
                await peer.ack(done)
                self.acknowledged |= {*found[:done]}
                # A close must not overtake the ACK in memory.
                await trio.testing.wait_all_tasks_blocked()
            elif action[0] == "keep-alive":
                await peer.ack(0)
                await trio.sleep(5.25)  # Never at the moment of a deadline.
            elif action[0] == "silence":
                await trio.sleep(25.25)
                await peer.ack(0)
            else:
                if action[0] == "garbage":
                    await peer.stream.send_all(b"2J")
                elif action[0] == "more":
                    await peer.ack(len(found) + 1000)
                await trio.testing.wait_all_tasks_blocked()
                await peer.close()
                await peer.ack(0)  # Raises: this connection is over.


async def play(use, load_balance, scripts, planned, window):
    network = Network(HOST, OTHER)
    servers = Servers(network, scripts)
    config = ShipperConfig(
        retry=RETRY, ack_timeout=20, ack_deadline=60, load_balance=load_balance,
        initial_window=window, max_window=8,
    )  # fmt: skip
    use(network)
    wanted = set()

    async def call(first, count, begin, patience):
        await trio.sleep(begin)
        with trio.move_on_after(float("inf") if patience is None else patience) as scope:
            await shipper.send(counted(*range(first, first + count)))
            assert {*range(first, first + count)} <= servers.acknowledged
        if not scope.cancelled_caught:
            wanted.update(range(first, first + count))

    async with trio.open_nursery() as background:
        background.start_soon(servers.run, background)
        async with connect([HOST, OTHER], config=config) as shipper:
            async with trio.open_nursery() as nursery:
                for index, (count, begin, patience) in enumerate(planned):
                    nursery.start_soon(call, 100 * index, count, begin, patience)
            statistics = shipper.statistics()
            assert statistics.waiting == 0
            assert shipper._intake.kept == 0
        await trio.testing.wait_all_tasks_blocked()
        background.cancel_scope.cancel()
    assert wanted <= servers.acknowledged
    assert wanted >= {100 * n for n, (_, _, patience) in enumerate(planned) if patience is None}
    for mine in servers.received:
        assert len(mine) == len({*mine})  # Never twice on one connection.


@settings(max_examples=200, deadline=None)
@given(st.booleans(), connections, calls, st.integers(1, 8))
def test_any_servers(load_balance, scripts, planned, window):
    """At least once; never again behind an ACK; calls return, also if connections are lost."""
    with mock.patch("rsocket_trio.lumberjack.client.connector.dial") as dial:

        def use(network):
            dial.side_effect = network.dial

        async def main():
            with trio.fail_after(10_000):
                await play(use, load_balance, scripts, planned, window)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
