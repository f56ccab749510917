"""The shipper of the machine as the command ``lumberjack ship``, which is really killed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import trio

from rsocket_trio.lumberjack import serve
from tests.lumberjack.receiving import port_of
from tests.programs import environment


class Zygote:
    """Starts commands: see `tests.logfiles.machine.zygote`."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.logfiles.machine.zygote"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Programs:
    """Starts commands, and has a server for them.

    Args:
        nursery: Where the server runs.
        zygote: What starts the commands.

    Attributes:
        killed: How often a command was killed.
    """

    pace = 0.1

    def __init__(self, nursery, zygote):
        self._nursery = nursery
        self._zygote = zygote
        self._world = None
        self._server = None
        self._uri = "lumberjack://127.0.0.1:0"
        self._pid = 0
        self._seen = []
        self.killed = 0

    def take_part(self, world):
        self._world = world
        self._log = world.directory / "stderr"

    @property
    def log(self):
        """What the commands wrote to standard error, the end of it."""
        return self._log.read_text()[-2000:] if self._log.exists() else ""

    async def _store(self, batch):
        self._seen += batch.events
        await trio.sleep(self._world.rng.random() * 0.02)
        if self._world.rng.random() < 0.02:
            raise OSError("a failure of the handler, which closes the connection")
        self._world.arrived.acknowledged.update(event["message"] for event in batch.events)

    async def start(self, source, *, run, most, jump):
        await self.back()
        world = self._world
        argv = ["lumberjack", "ship", "--follow", source, "--to", self._uri, "--poll", "0.01"]
        argv += ["--close-after", str(world.close_after), "--registry", str(world.registry)]
        argv += ["--window", str(world.rng.choice([5, 64])), "--grace", "1", "--quiet"]
        argv += ["--field", f"run={run}", "--host", "h"]
        self._pid = await trio.to_thread.run_sync(
            lambda: self._zygote.ask(
                argv=argv,
                jump=jump,
                log=str(self._log),
                # 32 are left for other things than log files.
                files=None if most is None else 32 + most,
            )
        )

    async def stop(self, how):
        os.kill(self._pid, signal.SIGKILL if how == "kill" else signal.SIGTERM)
        status = await trio.to_thread.run_sync(lambda: self._zygote.ask(wait=self._pid))
        self._pid = 0
        self.killed += how == "kill"
        expected = {-signal.SIGKILL} if how == "kill" else {0, 143, -signal.SIGTERM}
        assert status in expected, f"status {status}: {self.log}"
        self.check()

    def check(self):
        for event in self._seen:
            self._world.arrived.check(event)
        self._seen.clear()

    def _descriptors(self):
        with suppress(FileNotFoundError):
            for name in os.listdir(f"/proc/{self._pid}/fd"):
                path = f"/proc/{self._pid}/fd/{name}"
                with suppress(FileNotFoundError):
                    yield int(name), os.stat(path)

    def has_open(self, key):
        return any((facts.st_dev, facts.st_ino) == key for _, facts in self._descriptors())

    @contextmanager
    def short(self, spare):
        """The command cannot open more than so many files more. It has opened a log file."""
        if not any(self.has_open(file.key) for file in self._world.files):
            yield
            return
        most = max(number for number, _ in self._descriptors()) + 1 + spare
        before = resource.prlimit(self._pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (most, before[1]))
        yield
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, before)

    async def away(self):
        if self._server is not None:
            await self._server.aclose(grace=0)
            self._server = None

    async def back(self):
        if self._server is None:
            self._server = await self._nursery.start(serve, self._store, self._uri)
            self._uri = f"lumberjack://127.0.0.1:{port_of(self._server)}"

    async def close(self):
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            await trio.to_thread.run_sync(lambda: self._zygote.ask(wait=self._pid))
        await self.away()
