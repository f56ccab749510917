"""Extensions of the protocol: how to declare one, and two that show the two kinds of the draft.

The hello of each end lists the ids of the extensions that it supports; those in both are in use.

- An extension may add message types (0x40 to 0x7f): `Ping`. None is sent before the peer's hello.
- It may change what other messages mean: `Compression`. One end declares the change by a message of
  the extension, the other acknowledges it, and only then it is in force.

Write a subclass of `Extension`, whose `Extension.attach` returns a `Behaviour` for each connection.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, final
from weakref import WeakKeyDictionary

import trio

from ..entrance import over
from ..errors import RemoteProtocolError
from ..field_checks import listed
from ..interactions.isolation import outcome_of
from ..log_policy import logger
from ..sealed import Sealed, make
from .errors import RsioError

if TYPE_CHECKING:
    from .connection.connection import Connection
    from .connection.link import Link

__all__ = ["Behaviour", "Compression", "Extension", "Extensions", "Peer", "Ping"]

_MAX_PINGS: Final = 64


class Extension(ABC):
    """An extension that one end supports. One object serves any number of connections.

    Attributes:
        id: Its number: 1 to 16383 are for those of ``docs/rsio.md``, from 16384 on for your own.
        types: The types of its messages, 0x40 to 0x7f.
    """

    id: ClassVar[int]
    types: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def attach(self, peer: Peer) -> Behaviour:
        """Begin on a connection, before the peer's hello."""


class Behaviour:
    """An extension on one connection. Its methods are called by the reader, and must not wait."""

    def begin(self) -> None:
        """Both ends support it, so messages may be sent. Not called if the peer does not."""

    def receive(self, message_type: int, content: bytes) -> None:
        """Receive a message of one of its types.

        Raises:
            RemoteProtocolError: The content is wrong: the connection ends with this text.
        """

    def end(self) -> None:
        """The connection is over."""


@final
class Peer(metaclass=Sealed, given="Extension.attach gets one"):
    """The other end, for a `Behaviour`.

    Attributes:
        connection: The connection.
        max_element_size: The longest element, in octets; see `RsioLimits`.
    """

    def __init__(self, link: Link, connection: Connection) -> None:
        self._link = link
        self.connection: Final = connection
        self.max_element_size: Final = link.config.limits.max_element_size

    def send(self, message_type: int, content: bytes = b"") -> None:
        """Send a message: behind those that were sent so, before all else that is not sent yet.

        Does nothing once the connection is over.

        Raises:
            RuntimeError: The caller is in another thread than the connection.
        """
        self._link.lifecycle.home.check("this peer")
        # Most of them are answers. A peer that reads none must not make them pile up.
        self._link.queue.put_reply(self._link.session.extension(message_type, content))

    def encode_elements(self, encode: Callable[[bytes], bytes]) -> None:
        """Change the elements of each stream of ours whose ``subscribed`` is sent from now on.

        Streams of elements of one size are left as they are. An exception ends its stream.
        """
        self._link.publications.encode = encode

    def decode_elements(self, decode: Callable[[bytes], bytes]) -> None:
        """Change the elements of each stream of the peer whose ``subscribed`` comes from now on.

        An exception ends that stream.
        """
        self._link.subscriptions.decode = decode


class Extensions:
    """The extensions of one end."""

    def __init__(self, extensions: Sequence[Extension]) -> None:
        self.types: dict[int, Sequence[int]] = {}
        taken: set[int] = set()
        self._extensions: Final = listed("extensions", extensions, Extension)
        for each in self._extensions:
            if each.id in self.types or taken & set(each.types):
                raise ValueError(f"two extensions have the id {each.id} or one of its types")
            self.types[each.id] = each.types
            taken |= set(each.types)

    def attach(self, link: Link, connection: Connection) -> None:
        """Begin on a connection."""
        if not self._extensions:
            return
        by_type: dict[int, Behaviour] = {}
        all_of_them: list[tuple[int, Behaviour]] = []
        for each in self._extensions:
            behaviour = each.attach(make(Peer, link, connection))
            all_of_them.append((each.id, behaviour))
            by_type |= dict.fromkeys(each.types, behaviour)

        def begin() -> None:
            for number, behaviour in all_of_them:
                if number in link.session.in_use:
                    try:
                        behaviour.begin()
                    except BaseException as raised:  # of the extension: not of the reader
                        error = outcome_of(raised)
                        logger.error("the extension %d failed as it began", number, exc_info=error)
                        link.refuse("an extension failed")
                        return

        def receive(message_type: int, content: bytes) -> None:
            try:
                by_type[message_type].receive(message_type, content)
            except RemoteProtocolError as error:
                link.refuse(str(error))
            except BaseException as raised:  # of the extension: not of the reader
                text = "an extension failed at a message of type 0x%02x"
                logger.error(text, message_type, exc_info=outcome_of(raised))
                link.refuse("an extension failed")

        def end(_error: Exception, _last_words: bytes | None) -> None:
            for number, behaviour in all_of_them:
                try:
                    behaviour.end()
                except BaseException as raised:  # of the extension: the connection has to end
                    error = outcome_of(raised)
                    logger.error("the extension %d failed at its end", number, exc_info=error)

        link.on_hello.append(begin)
        link.on_extension = receive
        link.lifecycle.on_end.append(end)


class Ping(Extension):
    """New messages: a ping, which the other end answers at once with the same octets.

    ``ping = Ping()``, ``connect(uri, extensions=[ping])``, ``await ping.round_trip(connection)``.
    """

    id = 1
    types: ClassVar[tuple[int, ...]] = (0x40, 0x41)

    def __init__(self) -> None:
        self._pingers: WeakKeyDictionary[Connection, _Pinger] = WeakKeyDictionary()

    def attach(self, peer: Peer) -> Behaviour:
        """See `Extension.attach`."""
        pinger = self._pingers[peer.connection] = _Pinger(peer)
        return pinger

    async def round_trip(self, connection: Connection) -> float:
        """Send a ping, and return the seconds until its answer has come.

        Raises:
            RsioError: The peer does not support this extension, the connection is over, or 64
                pings have no answer yet.

        Checkpoint: always.
        If cancelled: the answer is dropped when it comes.
        """
        await connection.wait_ready()
        pinger = self._pingers.get(connection)
        if pinger is None or self.id not in connection.extensions:
            raise RsioError("the other end does not support the extension Ping")
        return await pinger.round_trip()


class _Pinger(Behaviour):
    """The pings of one connection. Their contents are numbers."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._waiting: dict[bytes, tuple[trio.Event, list[float]]] = {}
        self._count = 0
        self._over = False

    async def round_trip(self) -> float:
        """See `Ping.round_trip`.

        Checkpoint: always.
        If cancelled: the answer is dropped when it comes.
        """
        if len(self._waiting) >= _MAX_PINGS:
            await trio.lowlevel.checkpoint()
            raise RsioError(f"{_MAX_PINGS} pings have no answer yet")
        self._count += 1
        content = self._count.to_bytes(8, "big")
        answered, times = self._waiting[content] = (trio.Event(), [])
        begun = trio.current_time()
        try:
            self._peer.send(Ping.types[0], content)
            await answered.wait()
        finally:
            self._waiting.pop(content, None)
        if not times:
            await over(RsioError("the connection is over"))
        return times[0] - begun

    def receive(self, message_type: int, content: bytes) -> None:
        if len(content) > 64:
            raise RemoteProtocolError("the content of a ping has more than 64 octets")
        if message_type == Ping.types[0]:
            self._peer.send(Ping.types[1], content)
        elif content in self._waiting:
            answered, times = self._waiting.pop(content)
            times.append(trio.current_time())
            answered.set()

    def end(self) -> None:
        for answered, _ in self._waiting.values():
            answered.set()


class Compression(Extension):
    """Changed semantics: elements of different sizes are compressed (zlib, RFC 1950).

    Each end declares that it takes compressed elements (0x42, no content), once both have said
    hello. The other end acknowledges it (0x43, no content). From the acknowledgement on it is in
    force in that direction, for each stream whose ``subscribed`` comes behind it. So no message is
    ambiguous, also while the streams before it go on.
    """

    id = 2
    types: ClassVar[tuple[int, ...]] = (0x42, 0x43)

    def attach(self, peer: Peer) -> Behaviour:
        """See `Extension.attach`."""
        return _Compressor(peer)


class _Compressor(Behaviour):
    """Compression on one connection."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._declared = False
        self._acknowledged = False
        self._theirs = False

    def begin(self) -> None:
        self._declared = True
        self._peer.send(Compression.types[0])

    def receive(self, message_type: int, content: bytes) -> None:
        if content:
            raise RemoteProtocolError("a message of Compression has a content")
        if message_type == Compression.types[0]:
            if self._theirs:
                raise RemoteProtocolError("Compression was declared twice")
            self._theirs = True
            self._peer.send(Compression.types[1])
            self._peer.encode_elements(zlib.compress)
        else:
            if not self._declared or self._acknowledged:
                raise RemoteProtocolError("Compression was acknowledged and not declared")
            self._acknowledged = True
            self._peer.decode_elements(self._decompress)

    def _decompress(self, element: bytes) -> bytes:
        limit = self._peer.max_element_size
        inflater = zlib.decompressobj()
        plain = inflater.decompress(element, limit + 1)  # one more, to see the end behind the last
        if len(plain) > limit or not inflater.eof or inflater.unused_data:
            raise RsioError(f"an element is no zlib data, or has more than {limit} octets")
        return plain
