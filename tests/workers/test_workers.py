"""Several processes at one address: shares, generations, and processes that fail, hang and die."""

from __future__ import annotations

import errno
import os
import random
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from rsocket_trio import (
    Caller,
    ClientResume,
    ConnectFailed,
    ConnectionClosed,
    Health,
    Reconnect,
    connect,
)
from rsocket_trio.metrics import workers_page
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.workers import Workers, WorkersFailed, parent, serve_workers
from tests.kills import kills
from tests.programs import ROOT
from tests.waiting import until
from tests.workers.serving import ADDRESS, RSIO, ask, workers

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT)


def state_of(running: Workers) -> list[tuple[int, int, str]]:
    return sorted((each.number, each.generation, each.state) for each in running.status())


def is_there(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def host_and_port(uri: str) -> tuple[str, int]:
    host, _, port = uri.rpartition("//")[2].rpartition(":")
    return host, int(port)


async def test_shares_are_exact() -> None:
    """Each worker has as many of the connections that stay, where a shared socket gave 184 to 8.

    A worker that has 32 to take yet gets no more, so they are fewer than that for each.
    """
    count = 100
    async with workers("patient", workers=4) as running:
        place = host_and_port(running.uris[0])
        held = [await trio.open_tcp_stream(*place) for _ in range(count)]
        await until(lambda: sum(each.accepted for each in running.status()) == count)
        assert [each.connections for each in running.status()] == [count // 4] * 4
        # Those of one worker leave: the next ones are for it.
        owners = dict.fromkeys(range(1, 5), 0)
        for each in held[: count // 2]:
            await each.aclose()
        await until(lambda: sum(each.connections for each in running.status()) == count // 2)
        held += [await trio.open_tcp_stream(*place) for _ in range(count // 2)]
        await until(lambda: sum(each.connections for each in running.status()) == count)
        for status in running.status():
            owners[status.number] = status.connections
        assert list(owners.values()) == [count // 4] * 4
        for each in held:
            await each.aclose()


async def test_workers_answer_and_stop() -> None:
    """Each says who it is; the report is the sum of theirs; a stop ends all, gracefully."""
    async with workers() as running:
        assert state_of(running) == [(1, 1, "ready"), (2, 1, "ready")]
        async with connect(running.uris[0]) as one, connect(running.uris[0]) as other:
            answers = [
                await Caller(each).request_response("who", returns=list[int])
                for each in (one, other)
            ]
            assert sorted(answer[1:] for answer in answers) == [[1, 1], [2, 1]]
            report = await running.report()
            assert (report["connections"], report["accepted"]) == (2, 2)
            pids = [each.pid for each in running.status()]
            assert sorted(answer[0] for answer in answers) == sorted(pids)
            await running.aclose()
        assert running.status() == ()
        assert not any(map(is_there, pids))
        with pytest.raises(WorkersFailed, match="being stopped"):
            await running.reload()


async def test_their_metrics_are_one_page() -> None:
    """Of all wires and all workers; no counter goes back at a new generation or a kill."""
    seen: dict[str, float] = {}

    async def scrape() -> dict[str, float]:
        body = (await page()).body.decode()
        families = {each.name: each for each in text_string_to_metric_families(body)}
        found = {}
        for family in families.values():
            for each in family.samples:
                name = f"{each.name}{sorted(each.labels.items())}"
                found[name] = each.value
                if family.type != "gauge":
                    assert each.value >= seen.get(name, 0)
        assert seen.keys() <= found.keys()
        seen.update(found)
        return found

    calls = (
        "rsocket_trio_calls_started_total[('interaction', 'request_response'), ('route', 'who')]"
    )
    async with workers("measured", ADDRESS, RSIO) as running:
        page = workers_page(running)
        for generation in (1, 2):
            async with connect(running.uris[0]) as one, connect(running.uris[0]) as other:
                for each in (one, other):
                    answer = await Caller(each).request_response("who", returns=list[int])
                    assert answer[2] == generation
                found = await scrape()
                assert found["rsocket_trio_connections[('wire', 'rsocket')]"] == 2
                assert found["rsocket_trio_connections[('wire', 'rsio')]"] == 0
                assert found[calls] == 3 * generation - 1
                rows = (await running.report())["by_route"]
                assert [(each["route"], each["begun"]) for each in rows] == [("who", 2)]
                await Caller(one).request_response("who", returns=list[int])
                await running.reload()
            await until(lambda: len(running.status()) == 2)
            assert (await scrape())[calls] == 3 * generation  # the last words say the last one
        os.kill(running.status()[0].pid, signal.SIGKILL)
        await until(lambda: len(running.status()) == 1)
        assert (await scrape())[calls] == 6


async def get(uri: str, path: str) -> int:
    """Ask a port of WebSocket for a page; the status of the answer."""
    async with await trio.open_tcp_stream(*host_and_port(uri.removesuffix("/x"))) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return int(bytes(await stream.receive_some()).split()[1])


async def test_a_stop_that_is_delayed() -> None:
    """Only probes are told, by the parent and by a worker; nothing is started anew."""
    health = Health()
    uris = (ADDRESS, "ws://127.0.0.1:0/x")
    options: dict[str, Any] = {"workers": 1, "health": health}
    async with workers("limited", *uris, **options) as running, trio.open_nursery() as nursery:
        assert (await health.ready()).ready
        assert await get(running.uris[1], "/ready") == 200
        running.stop(delay=3600)
        assert not (await health.ready()).ready
        assert await get(running.uris[1], "/ready") == 503
        assert await get(running.uris[1], "/live") == 200
        assert (await ask(running.uris[0]))[1:] == [1, 1]
        with pytest.raises(WorkersFailed, match="being stopped"):
            await running.reload()
        nursery.start_soon(running.aclose)
    with pytest.raises(ValueError, match="delay"):
        running.stop(delay=float("inf"))


@asynccontextmanager
async def load(uri: str, clients: int) -> AsyncIterator[list[str]]:
    """Keep clients that reconnect busy in the block; the errors that they have met."""
    failures: list[str] = []
    asked = 0

    async def keep_asking() -> None:
        nonlocal asked
        reconnect = Reconnect(spread=0.05, retry=Retry(jitter=1, max_delay=0.2))
        async with connect(uri, reconnect=reconnect) as requester:
            caller = Caller(requester)
            while not over.is_set():
                try:
                    await caller.request_response("who", returns=list[int])
                except Exception as error:
                    failures.append(repr(error))
                asked += 1
                await trio.sleep(0.005)

    async def keep_dialling() -> None:
        while not over.is_set():
            try:
                stream = await trio.open_tcp_stream(*host_and_port(uri))
            except OSError as error:
                failures.append(f"refused: {error!r}")
            else:
                await stream.aclose()
            await trio.sleep(0.01)

    over = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(keep_asking)
        nursery.start_soon(keep_dialling)
        await until(lambda: asked > clients)
        yield failures
        over.set()


async def roll(generations: int, clients: int) -> None:
    async with workers(start_timeout=60) as running:
        async with load(running.uris[0], clients) as failures:
            for number in range(2, generations + 2):
                await running.reload()
                generation = (await ask(running.uris[0]))[2]
                assert generation == number
                await until(lambda: len(running.status()) == 2)
                assert state_of(running) == [(1, number, "ready"), (2, number, "ready")]
        assert failures == []


async def test_new_generations_refuse_nobody() -> None:
    """Clients that reconnect lose no request, and nobody's dial is refused."""
    await roll(2, clients=4)


@pytest.mark.bad_days
@pytest.mark.seconds(600)
async def test_twenty_generations_refuse_nobody() -> None:
    """The same again and again, with more clients."""
    await roll(20, clients=40)


@pytest.mark.parametrize(
    ("name", "why", "status"),
    [
        ("dies", "has not started: it ended with the status 7", 7),
        ("never", "was not ready within 2 s", 1),
        ("missing", "has not started: it ended with the status 1", 1),
    ],
)
async def test_a_first_start_that_fails(name: str, why: str, status: int, capfd) -> None:
    """It ends the whole, with the error of the worker."""
    timeout = 2 if name == "never" else 60
    with pytest.raises(WorkersFailed, match=why) as caught:
        await serve_workers(
            f"tests.workers.serving:{name}", ADDRESS, workers=2, start_timeout=timeout
        )
    assert caught.value.status == status


async def test_a_second_generation_that_fails() -> None:
    """The present one goes on, and loses no connection."""
    async with workers("second_generation_fails") as running:
        async with connect(running.uris[0]) as requester:
            for _ in range(2):
                with pytest.raises(WorkersFailed, match=r"generation 2.*the status 9") as caught:
                    await running.reload()
                assert caught.value.status == 9
            await until(lambda: state_of(running) == [(1, 1, "ready"), (2, 1, "ready")])
            caller = Caller(requester)
            assert (await caller.request_response("who", returns=list[int]))[2] == 1
        assert (await ask(running.uris[0]))[2] == 1


async def test_workers_that_are_killed() -> None:
    """Each is replaced; the connections of the other one stay, and nobody's dial is refused."""
    async with workers(workers=2) as running:
        for _ in range(kills(2)):
            async with connect(running.uris[0]) as one, connect(running.uris[0]) as other:
                first, second = [
                    (await Caller(each).request_response("who", returns=list[int]))[0]
                    for each in (one, other)
                ]
                assert first != second
                os.kill(first, signal.SIGKILL)
                with pytest.raises(ConnectionClosed):
                    while True:
                        await Caller(one).request_response("who", returns=list[int])
                assert (await Caller(other).request_response("who", returns=list[int]))[0] == second
                await ask(running.uris[0])
            await until(lambda: state_of(running) == [(1, 1, "ready"), (2, 1, "ready")])


async def test_a_worker_that_hangs() -> None:
    """It gets no more than its share; the others serve, and a stop does not wait for it."""
    async with workers(workers=2, grace=0.5) as running:
        hanging = running.status()[0].pid
        os.kill(hanging, signal.SIGSTOP)
        place = host_and_port(running.uris[0])
        held = [await trio.open_tcp_stream(*place) for _ in range(200)]
        await until(lambda: sum(each.accepted for each in running.status()) == 200)
        shares = {each.pid: each.connections for each in running.status()}
        assert shares[hanging] == 32
        report = await running.report()  # of the other one
        assert "connections" in report
        for each in held:
            await each.aclose()
        await running.aclose()
        assert not is_there(hanging)


async def test_a_worker_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed when its time is over, at a new generation as at a stop."""
    monkeypatch.setattr(parent, "_KILL_AFTER", 0.5)
    async with workers("stubborn", workers=1, grace=0.2) as running:
        first = running.status()[0].pid
        await running.reload()
        await until(lambda: not is_there(first))
        await running.aclose()
        assert running.status() == ()


async def test_no_descriptor_is_left_for_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as one that does not start: while others serve, it is tried again."""

    def refuse(*_: object) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", refuse)
    with pytest.raises(WorkersFailed, match=r"worker 1 .* has not started"):
        await serve_workers("tests.workers.serving:main", ADDRESS, workers=1)


async def test_cancelled_workers_are_gone() -> None:
    """Nothing of them is left, wherever the parent is."""
    async with workers() as running:
        pids = [each.pid for each in running.status()]
        with trio.move_on_after(0.2):
            await running.reload()
        assert state_of(running)[0][1] == 1
    await until(lambda: not any(map(is_there, pids)))


async def test_replacements_that_fail_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last of them all are stopped, so that who watches the parent learns of it."""
    monkeypatch.setattr(parent, "_MOST_FAILURES", 2)
    monkeypatch.setattr(parent, "_LONGEST_PAUSE", 0.2)
    failed: list[WorkersFailed] = []
    marker = f"/tmp/rsocket-trio-{os.getpid()}-{random.random()}"
    monkeypatch.setenv("FAILS_IF", marker)

    async def run(task_status: Any) -> None:
        try:
            await serve_workers(
                "tests.workers.serving:fails_if", ADDRESS, workers=1, task_status=task_status
            )
        except WorkersFailed as error:
            failed.append(error)

    try:
        async with trio.open_nursery() as nursery:
            running = await nursery.start(run)
            with open(marker, "w"):
                pass
            os.kill(running.status()[0].pid, signal.SIGKILL)
        assert failed[0].status == 3
    finally:
        os.unlink(marker)


async def test_a_limit_for_all_workers() -> None:
    """The connection past it is answered by a worker; one that ends makes room."""
    uris = (ADDRESS, "ws://127.0.0.1:0/x")
    async with workers("limited", *uris, workers=2, max_connections=3) as running:
        tcp, web = running.uris
        held = [await trio.open_tcp_stream(*host_and_port(tcp)) for _ in range(3)]
        await until(lambda: sum(each.connections for each in running.status()) == 3)
        with pytest.raises(ConnectFailed, match="503"):
            async with connect(web):
                pass
        await held.pop().aclose()
        await until(lambda: sum(each.connections for each in running.status()) == 2)
        async with connect(web):
            pass
        for each in held:
            await each.aclose()


@pytest.mark.parametrize("silent", [1, 5])
async def test_a_client_that_resumes_finds_its_worker(
    silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again and again: by chance one of 64 would. Silent clients hold nobody, however many."""
    monkeypatch.setattr(parent, "_MOST_PEEKS", 4)
    monkeypatch.setattr(parent, "_PEEK_TIME", 3600)
    async with workers("resumable", workers=2) as running:
        cuts: list[Callable[[], None]] = []
        async with relay(running.uris[0], cuts) as uri:
            resume = ClientResume(session_lifetime=30)
            async with connect(uri, resume=resume) as requester:
                caller = Caller(requester)
                first = await caller.request_response("who", returns=list[int])
                place = host_and_port(running.uris[0])
                held = [await trio.open_tcp_stream(*place) for _ in range(silent)]
                for _ in range(6):
                    cuts.pop()()
                    assert await caller.request_response("who", returns=list[int]) == first
        for each in held:
            await each.aclose()


@asynccontextmanager
async def relay(uri: str, cuts: list[Callable[[], None]]) -> AsyncIterator[str]:
    """A way to a server whose connections can be cut."""

    async def carry(client: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream(*host_and_port(uri))

        def cut() -> None:
            for each in (client, server):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                each.socket.close()

        cuts.append(cut)

        async def pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            try:
                async for data in source:
                    await sink.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

        async with server, trio.open_nursery() as nursery:
            nursery.start_soon(pump, client, server)
            nursery.start_soon(pump, server, client)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, carry, listeners)
        yield f"tcp://127.0.0.1:{port}"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "why"),
    [
        (("main", ADDRESS), {"workers": 1}, ValueError, "package.module:function"),
        (("a:b",), {"workers": 1}, ValueError, "name at least one address"),
        (("a:b", ADDRESS), {"workers": 0}, ValueError, "workers"),
        (("a:b", "x://h"), {"workers": 1}, ValueError, "not an address"),
        ((3, ADDRESS), {"workers": 1}, TypeError, "main"),
        (("a:b", ADDRESS), {"workers": 1, "grace": -1}, ValueError, "grace"),
    ],
)
async def test_wrong_arguments(arguments: Any, options: Any, error: Any, why: str) -> None:
    """They are errors before a process is started."""
    with pytest.raises(error, match=why):
        await serve_workers(*arguments, **options)


async def test_an_address_in_use() -> None:
    """No worker is started, and the error names the address."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        uri = f"tcp://127.0.0.1:{sock.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen on {uri}: .*in use"):
            await partial(serve_workers, "tests.workers.serving:main", uri, workers=1)()
