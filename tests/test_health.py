"""Whether a process is ready: servers, checks, and what a page says of them."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import Condition, Health, Router, health_pages, lumberjack, rsio, serve, ttrpc

SERVERS = {
    "rsocket": partial(serve, Router(), "tcp://127.0.0.1:0"),
    "rsio": partial(rsio.serve, {}, "rsio://127.0.0.1:0"),
    "ttrpc": partial(ttrpc.serve, Router(), "tcp://127.0.0.1:0"),
    "lumberjack": partial(lumberjack.serve, lambda batch: None, "lumberjack://127.0.0.1:0"),
}


async def why(health):
    """The reasons why a process is not ready."""
    condition = await health.ready()
    assert condition.ready is (not condition.reasons)
    return dict(condition.reasons)


@pytest.mark.parametrize("wire", SERVERS)
async def test_a_server_of_each_wire_says_when_it_is_ready(wire, autojump_clock):
    """Before its start, while it runs, from the first moment of its stop on, and for good."""
    health = Health()
    assert "not started" in (await why(health))["server"]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(SERVERS[wire], health=health))
        assert await why(health) == {}
        server.stop(delay=5)
        assert "being stopped" in (await why(health))["server"]
        await server.aclose()
        assert trio.current_time() <= 7
    assert "being stopped" in (await why(health))["server"]


async def test_all_servers_have_to_be_up():
    """One of two that still starts, or that has failed, is enough for no."""
    health = Health()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(SERVERS["rsocket"], health=health))
        health._begins()
        assert "not started" in (await why(health))["server"]
        health._starts()
        assert await why(health) == {}
        scope = trio.CancelScope()

        async def other(*, task_status):
            with scope:
                await SERVERS["rsio"](health=health, task_status=task_status)

        await nursery.start(other)
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert "being stopped" in (await why(health))["server"]
        nursery.cancel_scope.cancel()


@pytest.fixture
async def health(nursery):
    health = Health()
    await nursery.start(partial(SERVERS["rsocket"], health=health))
    return health


async def test_checks(health, autojump_clock, caplog):
    """What each kind of failure is called; the log says when it begins and ends, and no more."""
    caplog.set_level(logging.INFO, logger="rsocket_trio")
    broken = True

    @health.check
    async def database():
        if broken:
            raise OSError("no route to 10.1.2.3")

    @health.check
    async def cache():
        return not broken

    @health.check
    async def slow():
        if broken:
            await trio.sleep_forever()

    expected = {
        "database": "OSError: no route to 10.1.2.3",
        "cache": "it returned False",
        "slow": "it took more than 1 s",
    }
    for _ in range(3):
        assert await why(health) == expected
        await trio.sleep(2)
    assert len(caplog.records) == 3
    broken = False
    assert await why(health) == {}
    texts = [each.getMessage() for each in caplog.records]
    assert sorted(texts[3:]) == [f"the check {name} passes again" for name in sorted(expected)]


async def test_a_thousand_probes_cost_as_much_as_one(health, autojump_clock):
    """An answer is used for a second; who comes meanwhile waits for it."""
    calls = 0

    @health.check
    async def database():
        nonlocal calls
        calls += 1
        await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(health.ready)
    assert calls == 1
    assert trio.current_time() == pytest.approx(0.5)
    await trio.sleep(1)
    await health.ready()
    assert calls == 2


async def test_a_probe_that_gives_up_leaves_nothing_behind(health, autojump_clock):
    """The next one runs the checks anew."""

    @health.check
    async def database():
        await trio.sleep(0.5)

    with trio.move_on_after(0.1):
        await health.ready()
    assert await why(health) == {}


@pytest.mark.parametrize("explain", [False, True])
async def test_pages(nursery, explain):
    """A stranger learns no reason, unless the application says so; a stop does not end `/live`."""
    health = Health(explain=explain)

    @health.check
    async def database():
        raise OSError("no route to 10.1.2.3\r\n")

    pages = health_pages(health)
    server = await nursery.start(partial(SERVERS["rsocket"], health=health))
    page = await pages["/ready"]()
    reason = b"database: OSError: no route to 10.1.2.3\\r\\n\n"
    assert (page.status, page.body) == (503, b"not ready\n" + (reason if explain else b""))
    await server.aclose()
    page = await pages["/live"]()
    assert (page.status, page.body) == (200, b"live\n")


def test_the_repr_of_a_condition_has_no_reason():
    assert "10.1.2.3" not in repr(Condition(False, {"database": "no route to 10.1.2.3"}))


async def test_wrong_arguments():
    for wrong in ({"patience": 0}, {"patience": float("inf")}, {"explain": 1}):
        with pytest.raises((TypeError, ValueError)):
            Health(**wrong)
    with pytest.raises(TypeError, match="function must be a function"):
        Health().check("database")
    with pytest.raises(TypeError, match="health must be of type Health"):
        health_pages(None)
    for start in SERVERS.values():
        with pytest.raises(TypeError, match="health must be of type Health or None, not dict"):
            await start(health={})
        with pytest.raises(TypeError, match="max_age must be of type ConnectionAge or None"):
            await start(max_age=60)
