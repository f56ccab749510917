"""Spring, in both roles: one program for all tests, because it takes a second to start.

``../spring/src/peer/Session.java`` describes its commands and events.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import trio

from tests.programs import environment

from .driver import Interactions
from .installed import SPRING, require
from .processes import LONGEST, QUICK_JAVA, Lines, tail_of

VERSIONS = ("3.5.10", "4.0.7")


@attrs.frozen
class Program:
    """The program, and the port where it takes commands."""

    port: int
    errors: Path


@contextmanager
def started(version: str) -> Iterator[Program]:
    """The program, for the length of the block."""
    require(f"spring-boot-{version}")
    jar = SPRING / version / "spring.jar"
    with tempfile.TemporaryDirectory() as directory:
        errors = Path(directory) / "stderr"
        with (
            errors.open("wb") as stderr,
            subprocess.Popen(
                [*QUICK_JAVA, "-cp", str(jar), "peer.Main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(),
            ) as process,
        ):
            try:
                assert process.stdout is not None
                port = process.stdout.readline()
                assert port, tail_of(errors)
                yield Program(int(port), errors)
            finally:
                process.kill()


class _Session:
    """The connection for the commands of one test."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._lines = Lines(stream)

    async def line(self) -> str:
        line = await self._lines.next()
        if line is None:
            raise EOFError("the program has ended")
        return line

    async def tell(self, line: str) -> None:
        await self._stream.send_all(line.encode() + b"\n")


@attrs.frozen
class Server:
    """A server of Spring's, which the test may `stop` if it is its own."""

    uri: str
    _spring: Spring
    _number: int

    async def stop(self) -> None:
        """Close the application, and wait until that is done."""
        await self._spring.about("stop", self._number)
        event = await self._spring.event(self._number)
        assert event["event"] == "stopped", event


@attrs.frozen
class Connection:
    """A connection of Spring's as the client."""

    _spring: Spring
    _number: int

    async def start(
        self, op: str, route: str, data: bytes | None = None, **arguments: object
    ) -> int:
        """Begin an interaction; return the number by which Spring's events are read."""
        return await self._spring.start(op, data, route=route, connection=self._number, **arguments)

    async def response(self, route: str, data: bytes, **arguments: object) -> bytes:
        """Run a request_response from beginning to end."""
        call = await self.start("request_response", route, data, **arguments)
        [item] = await self._spring.items(call)
        return item

    async def close(self) -> None:
        await self._spring.about("close", self._number)

    async def closed(self) -> dict:
        """Wait until Spring notices that the connection has ended; return the event."""
        event = await self._spring.event(self._number)
        assert event["event"] == "closed", event
        return event


class Spring(Interactions):
    """Spring, and what one test does with it."""

    async def serve(
        self,
        transport: str = "tcp",
        *,
        fragment: int = 0,
        security: str = "false",
        own: bool = False,
    ) -> Server:
        """Start a server, unless one of this kind runs and it need not be the test's own.

        Args:
            transport: ``tcp`` or ``ws``.
            fragment: The size of Spring's frames, or 0 for no fragments.
            security: ``simple``, ``bearer`` or ``false``.
            own: The test will stop it.
        """
        number = await self.start(
            "serve", transport=transport, fragment=fragment, security=security, own=own
        )
        event = await self.event(number)
        assert event["event"] == "serving", event
        return Server(event["uri"], self, number)

    async def connect(
        self,
        uri: str,
        *,
        fragment: int = 0,
        keepalive: int = 20_000,
        security: str = "simple",
        **arguments: object,
    ) -> Connection:
        """Connect. An error of Spring's is raised as ConnectionError with its text.

        Args:
            uri: The server's.
            fragment: The size of Spring's frames, or 0 for no fragments.
            keepalive: Milliseconds between its KEEPALIVE frames.
            security: ``simple`` or ``bearer``, the kind of all authentications.
            arguments: ``route`` and ``auth`` of the SETUP.
        """
        number = await self.start(
            "connect",
            uri=uri,
            fragment=fragment,
            keepalive=keepalive,
            security=security,
            **arguments,
        )
        event = await self.event(number)
        if event["event"] == "error":
            raise ConnectionError(event["message"])
        assert event["event"] == "connected", event
        return Connection(self, number)

    async def about(self, op: str, number: int) -> None:
        await self._tell(op, id=number)

    async def seen(self, *what: str) -> None:
        """Wait until handlers of Spring's have seen this, in this order, whatever else they saw."""
        for expected in what:
            while (await self.event())["event"] != expected:
                pass


@asynccontextmanager
async def using(program: Program) -> AsyncIterator[Spring]:
    """Spring for one test: its own servers and its connections are closed behind the block."""
    try:
        with trio.fail_after(LONGEST):
            async with (
                await trio.open_tcp_stream("127.0.0.1", program.port) as stream,
                trio.open_nursery() as nursery,
            ):
                spring = Spring(_Session(stream))
                nursery.start_soon(spring.read_events)
                yield spring
                nursery.cancel_scope.cancel(reason="the test is over")
    except BaseException as error:
        error.add_note(f"the end of what Spring said on stderr:\n{tail_of(program.errors)}")
        raise
