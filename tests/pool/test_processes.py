"""Pools of clients while the processes of their servers are killed, stopped and replaced."""

from __future__ import annotations

import signal
import sys
import textwrap
from contextlib import AsyncExitStack

import pytest
import trio

from rsocket_trio import (
    Caller,
    ConnectionConfig,
    ConnectionLost,
    PoolOptions,
    Reconnect,
    Retry,
    connect_pool,
)
from tests.programs import environment

APPLICATION = """
    import os
    import trio
    from rsocket_trio import Router

    router = Router()

    @router.request_response("who")
    async def who(number: int) -> tuple[int, int]:
        with open("begun", "a") as file:
            print(number, file=file)
        await trio.sleep(0.01)
        return number, os.getpid()
"""
RECONNECT = Reconnect(retry=Retry(initial_delay=0.05, max_delay=0.2, jitter=1), spread=0.1)
CONFIG = ConnectionConfig(keepalive_interval=1, max_lifetime=3)


class Fleet:
    """Three processes, each at a Unix socket of its own."""

    def __init__(self, directory, nursery):
        (directory / "app.py").write_text(textwrap.dedent(APPLICATION))
        self.uris = [f"unix://{directory}/socket{number}" for number in range(3)]
        self._directory = directory
        self._nursery = nursery
        self.processes = [None] * 3

    async def start(self, number):
        """Start a process; it listens later."""
        command = [sys.executable, "-m", "rsocket_trio", "serve", "app.py"]
        self.processes[number] = await self._nursery.start(
            lambda task_status: trio.run_process(
                [*command, "--listen", self.uris[number]],
                cwd=self._directory,
                env=environment(),
                check=False,
                capture_stdout=True,
                capture_stderr=True,
                task_status=task_status,
            )
        )


class Load:
    """Requests of some clients, one after the other, and what has become of them."""

    def __init__(self):
        self.asked = 0
        self.answered = set()
        self.failed = {}
        self.pids = set()

    async def ask(self, caller):
        while True:
            number = self.asked
            self.asked += 1
            idempotent = number % 2 == 0
            try:
                got, pid = await caller.request_response(
                    "who", number, returns=tuple[int, int], idempotent=idempotent
                )
            except ConnectionLost as error:
                self.failed[number] = (idempotent, error.sent, error.unprocessed)
            else:
                assert got == number
                self.answered.add(number)
                self.pids.add(pid)
            await trio.sleep(0.005)


async def until(condition):
    while not condition():
        await trio.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
async def test_a_rolling_restart(how, tmp_path):
    """Each server in turn is ended and started again, while three pools send requests.

    Under SIGTERM nothing fails. Under SIGKILL only what was sent and may not be repeated does, and
    under SIGSTOP what was sent before its connection is lost.
    """
    load = Load()
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
            fleet = Fleet(tmp_path, nursery)
            for number in range(3):
                await fleet.start(number)
            options = PoolOptions(choose="round_robin")
            pools = [
                await stack.enter_async_context(
                    connect_pool(fleet.uris, options=options, reconnect=RECONNECT, config=CONFIG)
                )
                for _ in range(3)
            ]

            def connected(count):
                return lambda: all(
                    sum(each.state.value == "connected" for each in pool.targets()) == count
                    for pool in pools
                )

            await until(connected(3))
            async with trio.open_nursery() as asking:
                for pool in pools:
                    for _ in range(3):
                        asking.start_soon(load.ask, Caller(pool))
                for number in range(3 if how is signal.SIGTERM else 1):
                    asked = load.asked
                    await until(lambda asked=asked: load.asked > asked + 50)
                    process = fleet.processes[number]
                    process.send_signal(how)
                    await until(connected(2))
                    if how is signal.SIGSTOP:
                        asked = load.asked
                        await until(lambda asked=asked: load.asked > asked + 50)
                        process.send_signal(signal.SIGCONT)
                    else:
                        await process.wait()
                        await fleet.start(number)
                    await until(connected(3))
                asked = load.asked
                await until(lambda: load.asked > asked + 50)
                asking.cancel_scope.cancel()
            await stack.aclose()
            for process in fleet.processes:
                process.kill()
    begun = [int(line) for line in (tmp_path / "begun").read_text().split()]
    assert load.asked - len(load.answered | set(load.failed)) <= 9
    assert load.answered <= set(begun)
    assert len(load.pids) >= (6 if how is signal.SIGTERM else 3)
    for number in set(begun):
        assert begun.count(number) <= (2 if number % 2 == 0 else 1)
    assert set(load.failed.values()) <= {(False, True, False)}
    if how is signal.SIGTERM:
        assert not load.failed
