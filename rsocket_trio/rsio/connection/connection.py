"""What applications get of a connection: `Connection`."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from ...entrance import over
from ...errors import fresh_copy
from ...field_checks import TEXT, argument, instance_of
from ...sealed import Sealed
from ..publisher import RemotePublisher

if TYPE_CHECKING:
    from ...repeating import Repeating
    from ...transports.base import TransportInfo
    from .link import Link

__all__ = ["Connection", "ConnectionStatistics"]


@attrs.frozen(kw_only=True)
class ConnectionStatistics:
    """Numbers about a connection.

    Attributes:
        subscriptions: Our subscriptions to publishers of the peer that are open.
        publications: The peer's subscriptions to publishers of ours that are open.
        published: The peer's subscriptions since the start; refused ones do not count.
        queued_size: Octets of elements and answers that wait to be sent.
        sent_size: Octets that were given to the transport so far.
        received_size: Octets that have arrived so far.
    """

    subscriptions: int
    publications: int
    published: int
    queued_size: int
    sent_size: int
    received_size: int


@final
class Connection(
    metaclass=Sealed, given="connect gives one, and serve gives one to resolvers and handlers"
):
    """A connection, of either end: both may publish and subscribe.

    Any number of tasks may use it at the same time.
    """

    __slots__ = ("__weakref__", "_link", "_repeating")

    def __init__(self, link: Link, repeating: Repeating | None) -> None:
        self._link = link
        self._repeating = repeating

    @property
    def info(self) -> TransportInfo:
        """Facts about the connection."""
        return self._link.transport.info

    @property
    def extensions(self) -> frozenset[int]:
        """The ids of the extensions that both ends support; empty before the peer's hello."""
        return self._link.session.in_use

    @property
    def draining(self) -> bool:
        """Whether this end refuses new subscriptions, and will say goodbye soon.

        The peer does not know it before the goodbye, which ends the connection for both.
        """
        return self._link.lifecycle.draining

    def publisher(self, name: str) -> RemotePublisher:
        """Return a publisher of the peer.

        Nothing is sent before somebody subscribes. A name that the peer does not know shows by
        ``on_error`` then.

        Args:
            name: Its name, as the peer reads it, e.g. ``ticks?every=0.1``.

        Raises:
            TypeError: The name is not text.
            ValueError: It has more octets in UTF-8 than ``RsioLimits.max_publisher_size``, or
                cannot be encoded.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a publisher must be a str, not {type(name).__name__}")
        size = len(name.encode())
        limit = self._link.config.limits.max_publisher_size
        if size > limit:
            raise ValueError(
                f"the name has {size} octets, and RsioLimits.max_publisher_size is {limit}"
            )
        publisher = RemotePublisher(name, self._link.subscriptions.subscribe)
        publisher._repeating = self._repeating  # noqa: SLF001 - not for applications
        return publisher

    def send_extension(self, message_type: int, content: bytes) -> None:
        """Send a message of an extension; see `rsocket_trio.rsio.Extension`. It never waits.

        Raises:
            LocalProtocolError: The type is of no extension that both ends support.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: It was closed here.
            RuntimeError: The caller is in another thread than the connection.
        """
        self._check_home()
        failure = self._link.lifecycle.failure
        if failure is not None:
            raise fresh_copy(failure)
        argument("message_type", message_type, instance_of(int))
        argument("content", content, instance_of(bytes, bytearray, memoryview))
        message = self._link.session.extension(message_type, content)
        self._link.queue.put(message)

    async def goodbye(self, reason: str = "") -> None:
        """Close the connection in the orderly way: every stream ends now, at both ends.

        Returns when the peer has answered, or after `RsioConfig.goodbye_timeout`.

        Args:
            reason: A text for people. It is sent to the peer, and cut if it is long.

        Raises:
            TypeError: The reason is no text.
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: the goodbye is sent nevertheless, and this does not wait for the answer.
        """
        self._check_home()
        argument("reason", reason, TEXT)
        self._link.goodbye(reason)
        await self._link.over.wait()

    async def wait_draining(self) -> None:
        """Wait until this end is `draining`, or the connection is over.

        Raises:
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._check_home()
        await self._link.lifecycle.drain_begun.wait()

    async def wait_closed(self) -> Exception:
        """Wait until the connection is over, and return the reason.

        Raises:
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._check_home()
        lifecycle = self._link.lifecycle
        await lifecycle.ended.wait()
        assert lifecycle.failure is not None  # `ended` is set behind it
        return fresh_copy(lifecycle.failure)

    async def wait_ready(self) -> None:
        """Wait for the hello of the peer.

        Raises:
            HelloRefused: The peer refused the connection.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: It was closed here.
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._check_home()
        await self._link.greeted.wait()
        failure = self._link.lifecycle.failure
        if failure is not None:
            await over(failure)

    def statistics(self) -> ConnectionStatistics:
        """Return numbers about this connection."""
        link = self._link
        return ConnectionStatistics(
            subscriptions=len(link.subscriptions.by_id),
            publications=len(link.publications.by_id),
            published=link.publications.opened,
            queued_size=link.publications.waiting.held + link.queue.ready_size,
            sent_size=link.queue.sent,
            received_size=link.received,
        )

    def _check_home(self) -> None:
        self._link.lifecycle.home.check("this connection")

    def __repr__(self) -> str:
        return f"<Connection to {self.info.peer or self.info.scheme}>"
