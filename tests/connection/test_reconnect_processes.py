"""A client that lives on while processes of its server are stopped and killed."""

from __future__ import annotations

import signal
import sys
import textwrap

import pytest
import trio

from rsocket_trio import Caller, ConnectionLost, ConnectionState, Reconnect, Retry, connect
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


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_servers_that_are_replaced(how, tmp_path):
    """Each server is ended while requests run, and another one takes its Unix socket.

    Under SIGTERM no request fails; under SIGKILL the ones that had been sent do, or are repeated
    where that is allowed. None is handled twice without that.
    """
    (tmp_path / "app.py").write_text(textwrap.dedent(APPLICATION))
    uri = f"unix://{tmp_path}/socket"
    command = [sys.executable, "-m", "rsocket_trio", "serve", "app.py", "--listen", uri]
    pids = set()
    failed = {}
    answered = set()
    number = 0

    async def ask(caller, mine):
        idempotent = mine % 2 == 0
        try:
            got, pid = await caller.request_response(
                "who", mine, returns=tuple[int, int], idempotent=idempotent
            )
        except ConnectionLost as error:
            failed[mine] = (idempotent, error.sent, error.unprocessed)
        else:
            assert got == mine
            answered.add(mine)
            pids.add(pid)

    reconnect = Reconnect(retry=Retry(initial_delay=0.05, max_delay=0.2, jitter=1), spread=0.1)
    with trio.fail_after(60):
        async with trio.open_nursery() as servers:

            async def start() -> trio.Process:
                return await servers.start(
                    lambda task_status: trio.run_process(
                        command,
                        cwd=tmp_path,
                        env=environment(),
                        check=False,
                        capture_stdout=True,
                        capture_stderr=True,
                        task_status=task_status,
                    )
                )

            process = await start()
            async with connect(uri, reconnect=reconnect) as requester:
                caller = Caller(requester)
                async with trio.open_nursery() as asking:
                    for _ in range(3):
                        for _ in range(50):
                            asking.start_soon(ask, caller, number)
                            number += 1
                            await trio.sleep(0.002)
                        process.send_signal(how)
                        process = await start()
                        for _ in range(50):
                            asking.start_soon(ask, caller, number)
                            number += 1
                            await trio.sleep(0.002)
                assert requester.state is ConnectionState.CONNECTED
            process.kill()
    begun = [int(line) for line in (tmp_path / "begun").read_text().split()]
    assert answered | set(failed) == set(range(number))
    assert len(pids) > 1
    assert answered <= set(begun)
    for each in range(number):
        assert begun.count(each) <= (2 if each % 2 == 0 else 1)
    if how is signal.SIGTERM:
        assert not failed
    assert set(failed.values()) <= {(False, True, False)}
