"""One connection to the implementation under test, as a test sees it: `Probe`.

There is no task in the background: nothing is read while a test does not read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import trio

from . import octets
from .ledger import Incoming, Ledger, Outgoing
from .parser import Malformed, Message, Parser
from .verdicts import Breach, Failed

__all__ = ["Probe", "Role"]

Role: TypeAlias = Literal["client", "server"]
_READ: Final = 65536
_TAIL: Final = 48
_FIRST_BARRIER: Final = 1 << 40


class Probe:
    """A raw connection. What goes over it is recorded and checked by `ledger`.

    Args:
        stream: The connection.
        role: What we are.
        patience: How long to wait for what has to happen, in seconds.
        quiet: How long to wait for what must not happen, where the protocol has no better way.

    Attributes:
        ledger: All messages.
        at_end: Whether the peer has closed the connection.
    """

    def __init__(
        self, stream: trio.abc.Stream, role: Role, *, patience: float, quiet: float
    ) -> None:
        peer = "serverHello" if role == "client" else "clientHello"
        self.ledger = Ledger(peer)
        self.role = role
        self.at_end = False
        self.patience = patience
        self.quiet = quiet
        self._stream = stream
        self._theirs = Parser(self.ledger.size_of_incoming)
        self._ours = Parser(self.ledger.size_of_outgoing)
        self._next_barrier = _FIRST_BARRIER
        self._seen: set[int] = set()
        self._sent = b""
        self._received = b""
        self._first_received = b""

    def hello(self, version: int = 0, extensions: tuple[int, ...] = ()) -> bytes:
        """Return our hello."""
        make = octets.client_hello if self.role == "client" else octets.server_hello
        return make(version, extensions)

    async def greet(self, extensions: tuple[int, ...] = ()) -> Message:
        """Exchange hellos, and return that of the peer."""
        await self.send(self.hello(extensions=extensions))
        await self.until(lambda: self.ledger.hello, "a hello")
        if self.ledger.hello is None:
            raise Failed("no hello")
        return self.ledger.hello

    async def send(self, *messages: bytes, track: bool = True) -> None:
        """Send messages, or any octets if they are not to be tracked.

        A connection that the peer has closed is no error here: what it sent before is read later.
        """
        data = b"".join(messages)
        self._sent = (self._sent + data)[-_TAIL:]
        if track:
            self._ours.feed(data)
            while (message := self._ours.next()) is not None:
                self.ledger.sent(message)
        try:
            with trio.fail_after(self.patience):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            text = f"the peer did not read {len(data)} octets within {self.patience:g} s"
            raise Failed(text) from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def cut(self) -> None:
        """End our direction, and read until the peer ends its own; TLS can only end both."""
        if not isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self.close()
            return
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_eof()
        await self.until_end()

    async def receive(self) -> Message | None:
        """Return the next message, or ``None`` at the end of the connection.

        Raises:
            Failed: It breaks a rule.
        """
        while True:
            try:
                message = self._theirs.next()
            except Malformed as error:
                raise Breach("RSIO-04", str(error)) from None
            if message is not None:
                self.ledger.received(message)
                return message
            if self.at_end:
                return None
            await self.read()

    async def read(self) -> bytes:
        """Read some octets for the parser, and return them: none at the end."""
        try:
            data = bytes(await self._stream.receive_some(_READ))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        self.at_end = not data
        self._first_received = self._first_received or data[:1]
        self._received = (self._received + data)[-_TAIL:]
        self._theirs.feed(data)
        return data

    async def until(
        self, condition: Callable[[], object], what: str, *, patience: float | None = None
    ) -> None:
        """Read messages until a condition holds.

        Raises:
            Failed: It does not hold in time, or the connection ends first.
        """
        limit = self.patience if patience is None else patience
        try:
            with trio.fail_after(limit):
                while not condition():
                    if await self.receive() is None:
                        if condition():
                            return
                        raise Failed(f"the connection ended before {what}")
        except trio.TooSlowError:
            raise Failed(f"there was not {what} within {limit:g} s") from None

    async def until_end(self, *, patience: float | None = None) -> None:
        """Read all messages until the peer closes the connection."""
        await self.until(lambda: self.at_end, "the end of the connection", patience=patience)
        while await self.receive() is not None:
            pass
        if rest := self._theirs.rest:
            raise Breach("RSIO-04", f"the last octets are no message: {rest[:_TAIL].hex()}")

    async def refused(self) -> str:
        """Read until goodbye and the end, and return the reason of the goodbye.

        Raises:
            Failed: The peer closes without a goodbye, or does not close.
        """
        await self.left()
        await self.until_end()
        return self.ledger.goodbye.text if self.ledger.goodbye else ""

    async def left(self) -> None:
        """Read until the peer says goodbye."""
        await self.until(lambda: self.ledger.goodbye, "a goodbye")

    async def for_a_while(self, seconds: float | None = None) -> None:
        """Read what arrives during a time: for what must not happen."""
        with trio.move_on_after(self.quiet if seconds is None else seconds):
            while await self.receive() is not None:
                pass

    async def barrier(self) -> None:
        """Read until the peer has handled all that we sent, and what it sends because of that.

        Two round trips: what a task of the peer sends in its next turn is before the second answer.
        """
        for _ in range(2):
            stream = await self.subscribe("empty", self._next_barrier, 1)
            self._next_barrier += 1
            await self.ended(stream)

    async def subscribe(self, name: str, subscriber: int, demand: int = 0) -> Incoming:
        """Subscribe to a publisher of the peer, and return the stream."""
        await self.send(octets.subscribe(name, subscriber, demand))
        return self.ledger.incoming[-1]

    async def ended(self, *streams: Incoming) -> None:
        """Read until all these streams have ended."""
        names = ", ".join(sorted({repr(each.name) for each in streams}))
        await self.until(lambda: all(each.ended for each in streams), f"the end of {names}")

    async def elements(self, stream: Incoming, count: int) -> None:
        """Read until a stream has this many elements."""
        what = f"{count} elements of {stream.name!r}"
        await self.until(lambda: len(stream.elements) >= count, what)

    async def answered(self, stream: Incoming) -> None:
        """Read until a stream has a message."""
        await self.until(lambda: stream.messages, f"an answer to {stream.name!r}")

    async def request(self, subscriber: int, demand: int) -> None:
        """Ask for more elements."""
        await self.send(octets.request(subscriber, demand))

    async def cancel(self, subscriber: int) -> None:
        """Cancel a stream."""
        await self.send(octets.cancel(subscriber))

    async def taken(self, name: str) -> Outgoing:
        """Wait for the next subscription of the peer to a publisher of ours."""
        found: list[int] = []

        def next_one() -> bool:
            for index, stream in enumerate(self.ledger.outgoing):
                if stream.name == name and index not in self._seen:
                    found.append(index)
                    return True
            return False

        await self.until(next_one, f"a subscription of the peer to {name!r}")
        self._seen.add(found[0])
        return self.ledger.outgoing[found[0]]

    async def cancelled(self, stream: Outgoing) -> None:
        """Read until the peer has cancelled a subscription of its own."""
        await self.until(lambda: stream.cancelled, f"a cancel of {stream.name!r}")

    async def close(self) -> None:
        """Close the connection without any message."""
        await trio.aclose_forcefully(self._stream)

    @property
    def first_octet(self) -> bytes:
        """The first octet that the peer has sent."""
        return self._first_received

    @property
    def transcript(self) -> str:
        """The last octets of both directions."""
        lines = []
        for what, data in (("sent", self._sent), ("received", self._received)):
            if data:
                lines.append(f"last octets {what}: {data.hex()}")
        return "; ".join(lines)
