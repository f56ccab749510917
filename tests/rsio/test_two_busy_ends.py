"""Two honest ends that both ask for much at once never wait for each other without an end.

Reading does not stop because of answers that wait: the peer may read only after we have read.
"""

from __future__ import annotations

import socket
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import collect, from_iterable, never
from tests.rsio.engine_scenes import Recorder, numbers
from tests.waiting import until

FLOOD = 2500
NAME = "never?" + "x" * 500

CONFIG = rsio.RsioConfig(max_control_size=2**16, max_unsent_control_size=2**18)
"""Far less than what the answers to all that is asked for have: an end answers before it asks."""


def lockstep():
    return trio.testing.lockstep_stream_pair()


def unix_socket():
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for each in (here, there):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return here, there


def publishers(name, _connection):
    return never() if name.startswith("never") else from_iterable(numbers(20))


async def leave_again(connection):
    """Subscribe and cancel many times in one turn."""
    for _ in range(FLOOD):
        recorder = Recorder(1)
        connection.publisher(NAME).subscribe(recorder)
        recorder.subscription.cancel()


async def ask_for_too_much(connection):
    """Subscribe in one turn to more than the peer allows."""
    recorders = [Recorder(1) for _ in range(2 * FLOOD)]
    for each in recorders:
        connection.publisher(NAME).subscribe(each)
    refused = 2 * FLOOD - rsio.RsioLimits().max_subscriptions
    await until(lambda: sum(each.ended for each in recorders) == refused)
    for each in recorders:
        each.subscription.cancel()


async def mix(connection):
    """Subscribe, request, cancel and read in many turns."""
    for round_number in range(30):
        recorders = [Recorder() for _ in range(100)]
        for each in recorders:
            connection.publisher(NAME).subscribe(each)
        if round_number % 3:
            await trio.lowlevel.checkpoint()
        for each in recorders:
            each.subscription.request(5)
            each.subscription.cancel()
        if not round_number % 10:
            assert await collect(connection.publisher("count")) == numbers(20)


@pytest.mark.parametrize("use", [leave_again, ask_for_too_much, mix])
@pytest.mark.parametrize("streams", [lockstep, unix_socket])
async def test_two_ends_that_ask_for_much_at_once_are_both_answered(streams, use):
    here, there = streams()
    finished = [trio.Event(), trio.Event()]

    async def one_end(connection, number=0):
        await use(connection)
        assert await collect(connection.publisher("count")) == numbers(20)
        finished[number].set()
        for each in finished:
            await each.wait()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            serve = partial(
                rsio.serve_stream, publishers, there, config=CONFIG, on_connection=one_end
            )
            nursery.start_soon(serve)
            async with rsio.connect(here, config=CONFIG, publish=publishers) as connection:
                await one_end(connection, 1)
