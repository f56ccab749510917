"""A proxy between two programs that speak RSocket over TCP, with faults: `fault_proxy`.

::

    faults = [Fault("drop", kind=PayloadFrame, number=3), Fault("cut", by="client", number=20)]
    async with fault_proxy("tcp://127.0.0.1:7878", faults) as proxy:
        ...                          # the client, in whatever language, connects to proxy.uri

Faults concern whole frames. What is to happen depends on the frames alone, and not on how the
network cuts them, so a run is like the next one.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs
import trio

from ..config import MAX_FRAME_SIZE
from ..field_checks import COUNT, argument, instance_of, one_of, optional
from ..field_checks import number as number_in
from ..frames.length import LengthPrefixDecoder, join_frames
from ..frames.union import Frame
from ..uri import parse_uri
from .frame_log import End, FrameLog, Passed
from .serving import running

__all__ = ["Fault", "FaultProxy", "ProxiedFrame", "Script", "fault_proxy"]

_READ: Final = 2**16
_RESET: Final = struct.pack("ii", 1, 0)


class ProxiedFrame:
    """A frame on its way, for a script.

    Attributes:
        passed: The frame, who sent it, and on which connection.
        number: Its number in its direction of its connection, from 1.
        proxy: The proxy.
    """

    __slots__ = ("_cut", "number", "passed", "proxy")

    def __init__(
        self, passed: Passed, number: int, proxy: FaultProxy, cut: Callable[[], None]
    ) -> None:
        self.passed = passed
        self.number = number
        self.proxy = proxy
        self._cut = cut

    def cut(self) -> None:
        """Reset its connection, on both sides; what the script returns is not sent."""
        self._cut()


Script: TypeAlias = Callable[[ProxiedFrame], Awaitable[Iterable[bytes]]]
"""An async function that is given each frame, and returns the frames to send in its place.

The frames of one direction of a connection are given in order, one after the other: while it waits,
those behind wait too, in the socket of their sender."""


def _frame_type(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value not in get_args(Frame):
        kind = value if isinstance(value, type) else type(value)
        name = f"Fault.{attribute.name}"
        raise TypeError(f"{name} must be a class of rsocket_trio.frames, not {kind.__name__}")


@attrs.frozen
class Fault:
    """What happens to frames: to all for which the other arguments hold.

    Args:
        action: ``"drop"``, ``"duplicate"``, ``"swap"`` (send it behind the next one of its
            direction), ``"delay"`` (also of all behind it), ``"stall"`` (it and all behind it are
            not sent any more) or ``"cut"`` (the connection is reset in its place).
        kind: The type of the frame, e.g. `rsocket_trio.frames.PayloadFrame`; by default any.
        by: The end that sends it; by default either.
        number: Its number in its direction, from 1; by default any.
        connection: The number of its connection, from 1; by default any.
        seconds: For how long it is delayed; ``"delay"`` needs it.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A value is not one of those above.
    """

    action: Literal["drop", "duplicate", "swap", "delay", "stall", "cut"] = attrs.field(
        validator=one_of("drop", "duplicate", "swap", "delay", "stall", "cut")
    )
    kind: type[Frame] | None = attrs.field(
        default=None, kw_only=True, validator=optional(_frame_type)
    )
    by: End | None = attrs.field(
        default=None, kw_only=True, validator=optional(one_of(*get_args(End)))
    )
    number: int | None = attrs.field(default=None, kw_only=True, validator=optional(COUNT))
    connection: int | None = attrs.field(default=None, kw_only=True, validator=optional(COUNT))
    seconds: float = attrs.field(
        default=0.0, kw_only=True, validator=number_in(at_least=0, finite=True)
    )

    def __attrs_post_init__(self) -> None:
        if self.action == "delay" and not self.seconds:
            raise ValueError('Fault("delay") needs seconds=, for how long')

    def concerns(self, frame: ProxiedFrame) -> bool:
        """Whether this happens to the frame."""
        passed = frame.passed
        return (
            (self.kind is None or isinstance(passed.frame, self.kind))
            and self.by in (None, passed.by)
            and self.number in (None, frame.number)
            and self.connection in (None, passed.connection)
        )


class FaultProxy:
    """A running proxy.

    Attributes:
        uri: Where the client connects.
        log: What came, before any fault.
        connections: How many there have been.
        faults: How many frames a `Fault` has concerned, so a test can see that there were some.
    """

    def __init__(self, uri: str, target: tuple[str, int], script: Script, log: FrameLog) -> None:
        self.uri = uri
        self.log = log
        self.connections = 0
        self.faults = 0
        self._target = target
        self._script = script
        self._open: set[trio.CancelScope] = set()

    def cut(self) -> None:
        """Reset all connections that are open."""
        for scope in list(self._open):
            scope.cancel(reason="the proxy cuts the connection")

    async def _serve(self, client: trio.SocketStream) -> None:
        self.connections += 1
        connection = self.connections
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                async with client:
                    try:
                        server = await trio.open_tcp_stream(*self._target)
                    except OSError:
                        return  # the client sees that nobody is there
                    async with server:
                        await self._join(connection, client, server, scope)
            finally:
                self._open.discard(scope)

    async def _join(
        self,
        connection: int,
        client: trio.SocketStream,
        server: trio.SocketStream,
        scope: trio.CancelScope,
    ) -> None:
        async def pass_on(by: End, source: trio.SocketStream, sink: trio.SocketStream) -> None:
            decoder = LengthPrefixDecoder(MAX_FRAME_SIZE)
            number = 0
            try:
                while data := await source.receive_some(_READ):
                    for raw in decoder.feed(data):
                        number += 1
                        passed = self.log.add(connection, by, raw)
                        frame = ProxiedFrame(passed, number, self, scope.cancel)
                        await sink.send_all(join_frames(list(await self._script(frame))))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # either side may close; the other one is closed below
            # RSocket has no half-closed connections: the end of one direction ends both.
            both.cancel_scope.cancel(reason="one side has closed the connection")

        try:
            async with trio.open_nursery() as both:
                both.start_soon(pass_on, "client", client, server)
                both.start_soon(pass_on, "server", server, client)
        finally:
            if scope.cancel_called:
                for each in (client, server):  # both see a reset, and not an end
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


@asynccontextmanager
async def fault_proxy(
    target: str,
    faults: Sequence[Fault] | Script = (),
    *,
    listen: str = "tcp://127.0.0.1:0",
    log: FrameLog | None = None,
) -> AsyncIterator[FaultProxy]:
    """Run a proxy before a server, for the length of the block.

    Args:
        target: The address of the server, ``tcp://host:port``. Nobody needs to listen there yet.
        faults: What happens to which frames; the first one that concerns a frame does. Or a script
            of yours, which is given each frame.
        listen: Where the client connects. Port 0 is any free port.
        log: Notes the frames, by default a new one.

    Raises:
        ValueError: An address is not one of ``tcp://``.
        OSError: It cannot listen there.
        Exception: What the script raised.

    Checkpoint: on entering and on leaving.
    If cancelled: all connections are cut, as at the end of the block.
    """
    argument("target", target, instance_of(str))
    host, port = _address(target)
    there, number = _address(listen)
    listeners = await trio.open_tcp_listeners(number, host=there)
    bound = listeners[0].socket.getsockname()[1]
    script = faults if callable(faults) else _by(tuple(faults))
    proxy = FaultProxy(f"tcp://{there}:{bound}", (host, port), script, log or FrameLog())
    async with running() as nursery:
        serve = proxy._serve  # noqa: SLF001 - same module
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        try:
            yield proxy
        finally:
            nursery.cancel_scope.cancel(reason="the proxy is over")


def _address(text: str) -> tuple[str, int]:
    uri = parse_uri(text)
    if uri.scheme != "tcp" or uri.host is None or uri.port is None:
        raise ValueError(f"the proxy understands tcp://host:port only, not {text}")
    return uri.host, uri.port


def _by(faults: tuple[Fault, ...]) -> Script:
    """Return the script that does what faults say."""
    held: dict[tuple[int, End], bytes] = {}  # of each direction, the frame to send behind the next

    async def script(frame: ProxiedFrame) -> list[bytes]:
        data = frame.passed.data
        direction = frame.passed.connection, frame.passed.by
        fault = next((each for each in faults if each.concerns(frame)), None)
        before = held.pop(direction, None)
        out = [data]
        if fault is not None:
            frame.proxy.faults += 1
            match fault.action:
                case "drop":
                    out = []
                case "duplicate":
                    out = [data, data]
                case "delay":
                    await trio.sleep(fault.seconds)
                case "stall":
                    await trio.sleep_forever()
                case "cut":
                    frame.cut()
                case "swap" if before is None:
                    held[direction] = data
                    return []
        return out if before is None else [*out, before]

    return script
