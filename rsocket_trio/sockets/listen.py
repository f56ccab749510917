"""A task for each connection that arrives at an address: `listen_for`."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

import attrs
import trio

from ..errors import ConnectFailed
from ..log_policy import logger
from ..statistics import Refused
from ..stopping import STOPPED
from ..uri import AddressKind, Uri, is_opened, kind_of, shown
from .adopt import adopt_listener
from .allowed import Allowed, NotAllowed, admit
from .byte_stream import ByteStream, connected
from .connection_limit import ConnectionCounts
from .failures import describe_failure
from .farewell import LINGER, half_close
from .patient_listener import PatientListener
from .socket_facts import socket_addresses
from .systemd import activated
from .tcp import bound_uri, listen_tcp
from .tls import start_tls_server
from .tls_stream import TLSStream
from .unix import listen_unix
from .vsock import bound_vsock_uri, listen_vsock
from .workplace import HandedListener, workplace

__all__ = ["Arrivals", "NoHandshake", "listen_for", "open_listeners"]

T = TypeVar("T", bound=trio.abc.AsyncResource)


class NoHandshake(Exception):
    """A client asked for something else than a connection, and was answered: no warning.

    Attributes:
        expected: Whether such clients come all the time, such as health checks.
    """

    def __init__(self, text: str, *, expected: bool) -> None:
        super().__init__(text)
        self.expected = expected


@attrs.frozen(kw_only=True)
class Arrivals(Generic[T]):
    """How connections that arrive at an address are handled.

    Attributes:
        shake_hands: Makes something out of the stream, after a handshake of the wire if it has one.
            The result owns the stream.
        handle: Called with the result; which is closed when it returns.
        ssl_context: The certificate; needed for an encrypted address.
        handshake_timeout: How long the handshakes may take, TLS included, in seconds.
        counts: Counts the open connections. Further ones are refused.
        has_handshake: Whether ``shake_hands`` waits for the client. A client that leaves before it
            has sent anything is then not worth a warning.
        allow: Asked whether the peer may connect, before ``shake_hands``; ``None`` lets all in.
        refuse: Answers a connection that is not served, before it is closed, with a reason;
            ``None`` closes it at once.
        drains: Whether connections are refused, and not left waiting, while the server stops.
        reuse_port: Whether other processes may listen on the same port of TCP.
    """

    shake_hands: Callable[[ByteStream], Awaitable[T]]
    handle: Callable[[T], Awaitable[None]]
    ssl_context: ssl.SSLContext | None
    handshake_timeout: float
    counts: ConnectionCounts
    has_handshake: bool = False
    allow: Allowed | None = None
    refuse: Callable[[trio.abc.Stream, str], Awaitable[None]] | None = None
    drains: bool = False
    reuse_port: bool = False


async def listen_for(
    arrivals: Arrivals[T],
    uri: Uri,
    *,
    handler_nursery: trio.Nursery | None = None,
    drain_nursery: trio.Nursery | None = None,
    task_status: trio.TaskStatus[list[Uri]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen at an address, and handle every connection in a task of its own.

    An error in a handshake or in a handler ends that connection and is logged; the server goes on.

    Args:
        arrivals: What to do with the connections.
        uri: Where to listen; port 0 is any free port. A host name may have several addresses.
        handler_nursery: The nursery for connections, if they should outlive the listening.
        drain_nursery: Where connections are refused once the listening has been cancelled, if they
            are to be; until it is cancelled too.
        task_status: Gets the addresses with their real ports, when they accept connections.

    Raises:
        ValueError: ``ssl_context`` is missing.
        OSError: The address cannot be listened on; the text names it.

    Checkpoint: always.
    If cancelled: the listeners are closed. Connections stay open in ``handler_nursery``, and those
    that the system had accepted get there too; a handshake may take `LINGER` from then on.
    """
    if uri.is_encrypted and arrivals.ssl_context is None:
        raise ValueError(f"{shown(uri)} needs an ssl_context with a certificate")
    handler = _ConnectionHandler(uri, uri, arrivals)
    try:
        bound, listeners = await open_listeners(uri, reuse_port=arrivals.reuse_port)
        if not uri.port:
            handler.listener = bound[0]
        handed = [each for each in listeners if isinstance(each, HandedListener)]
        late = [_again(each) for each in listeners] if arrivals.drains and not handed else []
        serve = handler.serve
        for each in handed:
            serve, handler.excess = partial(each.counted, handler.serve), each.excess
        task_status.started(bound)
        # The queue of an inherited socket is for the process that has it next.
        takes = handler_nursery is not None and not is_opened(uri)
        patient = [PatientListener(each, uri, takes_last=takes) for each in listeners]
        try:
            await trio.serve_listeners(serve, patient, handler_nursery=handler_nursery)
        finally:
            for stream in (stream for each in patient for stream in each.last):
                assert handler_nursery is not None  # `takes`
                handler_nursery.start_soon(handler.serve_last, stream)
            if drain_nursery is not None and late:
                drain_nursery.start_soon(trio.serve_listeners, handler.refuse_late, late)
    finally:
        handler.stop()
        logger.settle(all_of_it=True)


def _again(listener: trio.abc.Listener[trio.SocketStream]) -> trio.SocketListener:
    """Return a second listener with the same queue, which is open when the first is closed."""
    assert isinstance(listener, trio.SocketListener)  # of TCP
    return trio.SocketListener(listener.socket.dup())


async def open_listeners(
    uri: Uri, *, reuse_port: bool = False
) -> tuple[list[Uri], Sequence[trio.abc.Listener[trio.SocketStream]]]:
    """Return the bound addresses and their listeners: in a worker process those of its parent.

    Raises:
        OSError: The address cannot be listened on; the text names it.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    place = workplace()
    handed = None if place is None else place.listener(uri)
    if handed is not None:
        await trio.lowlevel.checkpoint()
        return handed.bound, [handed]
    try:
        return await _open(uri, reuse_port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(error.errno, f"cannot listen on {shown(uri)}: {reason}") from error


async def _open(
    uri: Uri, reuse_port: bool
) -> tuple[list[Uri], Sequence[trio.abc.Listener[trio.SocketStream]]]:
    match kind_of(uri):
        case AddressKind.UNIX:
            return [uri], [await listen_unix(uri)]
        case AddressKind.VSOCK:
            listener = await listen_vsock(uri)
            return [bound_vsock_uri(uri, listener)], [listener]
        case AddressKind.DESCRIPTOR:
            await trio.lowlevel.checkpoint()
            return [uri], [adopt_listener(int(uri.host))]
        case AddressKind.ACTIVATION:
            await trio.lowlevel.checkpoint()
            given = activated(uri.host)
            try:
                return [uri], [adopt_listener(each) for each in given]
            except OSError:
                for each in given:
                    each.close()
                raise
        case AddressKind.HYBRID_VSOCK:
            reason = (
                "such an address is for clients; a hypervisor passes the connections of its "
                f"virtual machine to a Unix socket: listen on the path {uri.path}_{uri.port}"
            )
            raise OSError(errno.EOPNOTSUPP, reason)
        case AddressKind.INTERNET:
            listeners = await listen_tcp(uri, reuse_port=reuse_port)
            return [bound_uri(uri, listener) for listener in listeners], listeners


@attrs.define
class _ConnectionHandler(Generic[T]):
    """The handling of each connection that arrives at one address."""

    uri: Uri
    listener: Uri  # the same, with its port once that is known
    arrivals: Arrivals[T]
    handshakes: set[trio.CancelScope] = attrs.field(factory=set, init=False)
    excess: Collection[trio.SocketStream] = attrs.field(default=(), init=False)
    stopped: bool = attrs.field(default=False, init=False)

    def stop(self) -> None:
        """End the handshakes soon: a client that finishes none would delay the end of a server.

        One that does is served, so the server of its wire can tell it that it stops.
        """
        self.stopped = True
        for scope in self.handshakes:
            scope.deadline = min(scope.deadline, trio.current_time() + LINGER)

    @contextmanager
    def _handshake(self) -> Iterator[None]:
        """Limit the time of a handshake; it also ends if the listening ends."""
        with trio.move_on_after(self.arrivals.handshake_timeout) as scope:
            if self.stopped:
                scope.deadline = min(scope.deadline, trio.current_time() + LINGER)
            self.handshakes.add(scope)
            try:
                yield
            finally:
                self.handshakes.remove(scope)

    async def serve_last(self, stream: trio.SocketStream) -> None:
        """Serve one connection that was in the queue when the listening ended, and close it."""
        try:
            await self.serve(stream)
        finally:
            await trio.aclose_forcefully(stream)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection from its handshake to its end.

        Errors are logged and not raised, as they would end the other connections.
        `trio.serve_listeners` closes the stream.
        """
        logger.settle()
        name = self._name(stream)  # A closed socket has no address.
        counts = self.arrivals.counts
        try:
            if counts.full or stream in self.excess:
                counts.refused[Refused.FULL] += 1
                logger.warning(
                    "%s: closed a connection, as max_connections are open", shown(self.uri)
                )
                with self._handshake():
                    await self._refuse(stream, "Too many connections")
                return
            with counts.count_open():
                ready = await self._shake_hands(stream, name)
                if ready is not None:
                    async with ready:
                        await self.arrivals.handle(ready)
        except Exception:  # a fault in serving one connection must not end the others
            logger.exception("%s: serving %s crashed", shown(self.uri), name)
        except BaseExceptionGroup as group:  # faults, together with a cancellation or Ctrl-C
            faults, urgent = group.split(Exception)
            if faults is not None:
                logger.exception("%s: serving %s crashed", shown(self.uri), name, exc_info=faults)
            if urgent is not None:
                raise urgent from None

    async def _shake_hands(self, stream: trio.SocketStream, name: str) -> T | None:
        """Return what is ready to be handled; ``None`` if the handshake failed, which is logged."""
        arrivals = self.arrivals
        timeout = arrivals.handshake_timeout
        begin = partial(
            connected,
            stream,
            self.uri,
            dialled=False,
            start_tls=self._start_tls,
            listener=str(self.listener),
        )
        why = f"not finished within {timeout:g} s"
        with self._handshake():
            waits = self.uri.is_encrypted or arrivals.has_handshake
            if waits and await _sends_nothing(stream):
                # A port scanner or a health check: not worth a warning.
                logger.debug("%s: %s connected and closed without sending", shown(self.uri), name)
                return None
            try:
                ready = await begin()
                if arrivals.allow is not None:
                    try:
                        await admit(arrivals.allow, ready.info)
                    except BaseException:  # also when cancelled: `serve_listeners` closes
                        ready.detach()
                        raise
                return await arrivals.shake_hands(ready)
            except NoHandshake as error:
                log = logger.debug if error.expected else logger.info
                log("%s: %s: %s", shown(self.uri), name, error)
                await half_close(stream)
                return None
            except NotAllowed as error:
                arrivals.counts.refused[Refused.NOT_ALLOWED] += 1
                logger.warning("%s: closed a connection: %s", shown(self.uri), error)
                return None
            except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
                why = describe_failure(error)
                if waits:
                    await half_close(stream)  # The client was told why.
        if not self.stopped:
            arrivals.counts.refused[Refused.HANDSHAKE] += 1
            logger.warning("%s: the handshake with %s failed: %s", shown(self.uri), name, why)
        return None

    async def _start_tls(self, stream: trio.SocketStream) -> TLSStream:
        assert self.arrivals.ssl_context is not None  # `listen_for` checks it
        return await start_tls_server(stream, self.arrivals.ssl_context)

    async def refuse_late(self, stream: trio.SocketStream) -> None:
        """Answer a client that comes while the server stops. It raises no errors."""
        try:
            with trio.move_on_after(self.arrivals.handshake_timeout):
                await self._refuse(stream, STOPPED.capitalize())
        except Exception:  # the other connections go on
            logger.exception("%s: refusing a connection crashed", shown(self.uri))

    async def _refuse(self, stream: trio.SocketStream, why: str) -> None:
        """Answer a connection that is not served, on the wires that can."""
        arrivals = self.arrivals
        if arrivals.refuse is None or arrivals.counts.full_of_refused:
            return
        with arrivals.counts.count_refused():
            try:
                if self.uri.is_encrypted:
                    secure = await self._start_tls(stream)
                    try:
                        await arrivals.refuse(secure, why)
                    finally:
                        secure.detach()
                else:
                    await arrivals.refuse(stream, why)
            except (ConnectFailed, NoHandshake, trio.BrokenResourceError, OSError):
                # ConnectFailed: the client was answered. Otherwise it is gone, or TLS told it why.
                await half_close(stream)

    def _name(self, stream: trio.SocketStream) -> str:
        if self.uri.is_file:
            return "a peer"
        # One that was open already may be a Unix socket, whose peers have no name.
        nameless = is_opened(self.uri)
        return socket_addresses(stream)[1] or ("a peer" if nameless else "a peer that is gone")


async def _sends_nothing(stream: trio.SocketStream) -> bool:
    """Wait for the first byte without reading it; return whether the stream ends instead."""
    try:
        return not await stream.socket.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
