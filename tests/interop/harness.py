"""Real peers as subprocesses: servers that say where they listen, clients driven line by line.

Loaded by path in ``conftest.py``. The programs are in ``js/`` (rsocket-js on Node) and ``py_peer/``
(rsocket-py); what they are told and what they answer is written at the top of ``js/client.js``.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

HERE = Path(__file__).parent
JS = HERE / "js"
PY = HERE / "py_peer"
SETUP = "tests/interop/setup.sh"

LONGEST = 30.0
"""Seconds a peer's program may run: one that does not answer fails its test instead of stopping
the suite. No measurement, and many times what any test takes."""


def missing(name: str) -> str | None:
    """How to install that peer, or ``None`` where it is there."""
    match name:
        case "rsocket-js":
            there = shutil.which("node") and (JS / "node_modules/rsocket-core").is_dir()
            return None if there else f"Node or its modules are not installed: run {SETUP}"
        case "rsocket-py":
            try:
                importlib.metadata.version("rsocket")
            except importlib.metadata.PackageNotFoundError:
                return "not installed: pip install 'rsocket-trio[peers]'"
            return None
        case "chromium":
            return None if shutil.which("chromium") else f"not installed: run {SETUP}"
    raise ValueError(name)


def require(*names: str) -> None:
    """Skip the test where a peer is absent; fail where the environment says it must be there."""
    for name in names:
        if how := missing(name):
            if os.environ.get("INTEROP") == "required":
                pytest.fail(f"{name}: {how}", pytrace=False)
            pytest.skip(f"{name}: {how}")


class Peer:
    """A peer's program, running."""

    def __init__(self, process: trio.Process, errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._received = b""

    async def line(self) -> str:
        """The next line it prints; EOFError with its stderr when it has ended."""
        assert self._process.stdout is not None
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            chunk = await self._process.stdout.receive_some()
            if not chunk:
                raise EOFError("the peer has ended:\n" + self._errors.read_text())
            self._received += chunk
        line, self._received = self._received[:end], self._received[end + 1 :]
        return line.decode()

    async def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")

    async def kill(self) -> None:
        """End it as a crash would: its sockets are closed by the system."""
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def running(argv: Sequence[str]) -> AsyncIterator[Peer]:
    """Run a peer's program for the length of the block."""
    with tempfile.TemporaryDirectory() as directory:
        errors = Path(directory) / "stderr"
        with errors.open("wb") as stderr:
            process = await trio.lowlevel.open_process(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        try:
            with trio.fail_after(LONGEST):
                yield Peer(process, errors)
        finally:
            process.kill()
            # Killed, it ends at once: the deadline is for a machine that does not.
            with trio.move_on_after(5, shield=True):
                await process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        await pipe.aclose()


class Client:
    """A peer's client program: `start` an interaction, then read its events."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._ids = iter(range(1, 2**31))
        self._events: dict[
            int | None, tuple[trio.MemorySendChannel[dict], trio.MemoryReceiveChannel[dict]]
        ] = {}

    def _channel(
        self, call: int | None
    ) -> tuple[trio.MemorySendChannel[dict], trio.MemoryReceiveChannel[dict]]:
        if call not in self._events:
            self._events[call] = trio.open_memory_channel(math.inf)
        return self._events[call]

    async def read_events(self) -> None:
        """Runs for the client's life: sorts its events by interaction."""
        try:
            while True:
                event = json.loads(await self._peer.line())
                self._channel(event.get("id"))[0].send_nowait(event)
        except EOFError as ended:
            # Whoever waits for an event learns why none comes; nobody may be waiting.
            for send, _ in self._events.values():
                send.send_nowait({"event": "ended", "message": str(ended)})

    async def start(
        self,
        op: str,
        data: bytes | None = None,
        metadata: bytes | None = None,
        *,
        items: Sequence[bytes] = (),
        **arguments: object,
    ) -> int:
        """Have it begin an interaction; gives the number by which its events are read."""
        call = next(self._ids)
        await self._tell(
            op,
            id=call,
            data=None if data is None else data.hex(),
            metadata=None if metadata is None else metadata.hex(),
            items=[item.hex() for item in items],
            **arguments,
        )
        return call

    async def request_n(self, call: int, n: int) -> None:
        await self._tell("request_n", id=call, n=n)

    async def cancel(self, call: int) -> None:
        await self._tell("cancel", id=call)

    async def close(self) -> None:
        await self._tell("close")

    async def kill(self) -> None:
        await self._peer.kill()

    async def _tell(self, op: str, **arguments: object) -> None:
        await self._peer.tell(json.dumps({"op": op, **arguments}))

    async def event(self, call: int | None = None) -> dict:
        """The next event of an interaction, or of the connection itself."""
        return await self._channel(call)[1].receive()

    async def next_item(self, call: int) -> tuple[bytes, bytes | None]:
        """The next event, which must be an item: its data and metadata."""
        event = await self.event(call)
        assert event["event"] == "next", event
        metadata = event["metadata"]
        return bytes.fromhex(event["data"]), None if metadata is None else bytes.fromhex(metadata)

    async def items(self, call: int) -> list[bytes]:
        """The data of all items up to completion. What the source of a channel says is skipped."""
        items = []
        while True:
            event = await self.event(call)
            match event["event"]:
                case "next":
                    items.append(bytes.fromhex(event["data"]))
                case "complete":
                    return items
                case "granted":
                    pass
                case _:
                    raise AssertionError(event)

    async def response(
        self, data: bytes, metadata: bytes | None = None
    ) -> tuple[bytes, bytes | None]:
        """A request_response, from beginning to end."""
        call = await self.start("request_response", data, metadata)
        item = await self.next_item(call)
        assert (await self.event(call))["event"] == "complete"
        return item

    async def error(self, call: int) -> str:
        """The next event, which must be an error: its message."""
        event = await self.event(call)
        assert event["event"] == "error", event
        return event["message"]


@attrs.frozen
class Stack:
    """A peer's stack in one role over one transport, and what it cannot do.

    Attributes:
        package: What must be installed for it.
        left_out: Cases that a fault of the peer forces to be left out, and the fault. Tests name
            them in ``@pytest.mark.needs(case)``.
    """

    package: str
    transport: str
    server_argv: Callable[..., Sequence[str]]
    client_argv: Callable[..., Sequence[str]]
    left_out: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.package}-{self.transport}"

    @asynccontextmanager
    async def serve(self, *arguments: object) -> AsyncIterator[tuple[str, Peer]]:
        """Run the server program; gives the URI it listens on, and the program."""
        require(self.package)
        async with running(self.server_argv(*map(str, arguments))) as peer:
            line = await peer.line()
            yield line.removeprefix("listening on "), peer

    @asynccontextmanager
    async def connect(self, uri: str, *arguments: object) -> AsyncIterator[Client]:
        """Run the client program, connected to ``uri``."""
        require(self.package)
        async with (
            running(self.client_argv(uri, *map(str, arguments))) as peer,
            trio.open_nursery() as nursery,
        ):
            client = Client(peer)
            nursery.start_soon(client.read_events)
            event = await client.event()
            assert event["event"] == "connected", event
            yield client
            nursery.cancel_scope.cancel(reason="the test is over")


JS_FAULTS = {
    "metadata in answers": "what it answers never has the METADATA flag",
    "to complete without a value": "its request_response always answers with NEXT",
    "to be completed without a value": "its request_response waits for NEXT for ever",
    "to send fragments": "it reassembles, but never fragments",
    "completion in REQUEST_CHANNEL": "it does not look at COMPLETE in a REQUEST_CHANNEL",
}
PY_FAULTS = {
    "to complete without a value": "its request_response always answers with NEXT",
    "to be completed without a value": "it takes completion for an empty payload",
    "items without data": "it sends them without NEXT",
}


def _node(program: str, *arguments: str) -> list[str]:
    return ["node", str(JS / program), *arguments]


def _python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(PY / program), *arguments]


def stacks() -> Iterator[Stack]:
    """Every stack over every transport it is tried on."""
    for transport in "tcp", "ws":
        yield Stack(
            "rsocket-js",
            transport,
            lambda *arguments, transport=transport: _node("server.js", transport, *arguments),
            lambda *arguments: _node("client.js", *arguments),
            JS_FAULTS,
        )
    yield Stack(
        "rsocket-py",
        "tcp",
        lambda *arguments: _python("server.py", *arguments),
        lambda *arguments: _python("client.py", *arguments),
        PY_FAULTS,
    )
