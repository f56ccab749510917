"""``lumberjack ship``, killed at random moments: every line arrives at least once."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import Popen

import trio

from rsocket_trio.lumberjack import Batch, serve
from tests.waiting import until

ROUNDS = 6
SEED = 11
Start = Callable[..., Popen[bytes]]


class Server:
    """A server in this process. It takes some time for each batch, and fails now and then.

    Attributes:
        acknowledged: The offsets that were acknowledged, in order, with repetitions.
        messages: Their messages, by offset.
    """

    def __init__(self, rng: random.Random) -> None:
        self.acknowledged: list[int] = []
        self.messages: dict[int, str] = {}
        self._rng = rng

    async def handle(self, batch: Batch) -> None:
        await trio.sleep(self._rng.random() * 0.02)
        if self._rng.random() < 0.02:
            raise OSError("a failure of the handler, which closes the connection")
        for event in batch.events:
            assert isinstance(event, dict)
            offset = event["log"]["offset"]
            self.acknowledged.append(offset)
            assert self.messages.setdefault(offset, event["message"]) == event["message"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, self.handle, "lumberjack://127.0.0.1:0")
            yield server.uris[0]
            await server.aclose(grace=0)


def registered(path: Path) -> int:
    """The offset in the registry. There is always a whole one, or none yet."""
    if not path.exists():
        return 0
    files = json.loads(path.read_text())["files"]
    return files[0]["offset"] if files else 0


async def test_kill(start_cli: Start, tmp_path: Path) -> None:
    """Only lines behind the offset in the registry come again, and no line is missing."""
    rng = random.Random(SEED)
    server = Server(rng)
    log, registry = tmp_path / "a.log", tmp_path / "registry.json"
    expected: dict[int, str] = {}

    def write() -> None:
        with log.open("a") as file:
            for _ in range(rng.randrange(1, 2000)):
                text = f"{len(expected)} " + "x" * rng.randrange(40)
                expected[file.tell()] = text
                file.write(f"{text}\n")

    async with server.running() as uri:
        command = ["lumberjack", "ship", "--follow", "a.log", "--to", uri, "--poll", "0.01"]
        command += ["--registry", str(registry), "--window", "64", "--quiet"]
        for turn in range(ROUNDS):
            began_at, seen = registered(registry), len(server.acknowledged)
            write()
            process = start_cli(*command, stderr=None)
            await until(lambda seen=seen: len(server.acknowledged) > seen)
            for _ in range(rng.randrange(4)):
                write()
                await trio.sleep(rng.random() * 0.05)
            if turn % 3 == 2:
                # In peace: the registry has everything that is acknowledged.
                await until(lambda: registered(registry) == log.stat().st_size)
            process.send_signal(signal.SIGKILL)
            await trio.to_thread.run_sync(process.wait)
            # Batches that arrived are handled to their ends.
            await trio.sleep(0.1)
            assert min(server.acknowledged[seen:]) >= began_at
            now_at = registered(registry)
            assert began_at <= now_at <= log.stat().st_size
            behind = {offset for offset in expected if offset < now_at}
            assert behind <= set(server.acknowledged), "the registry is ahead of the server"
        write()
        process = start_cli(*command, stderr=None)
        await until(lambda: registered(registry) == log.stat().st_size)
        process.send_signal(signal.SIGTERM)
        assert await trio.to_thread.run_sync(process.wait) == 0
    assert server.messages == expected
