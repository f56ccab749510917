"""Where the events of a subscription come from, for each wire: `Source`, `source_of`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

import attrs

from .. import rsio
from ..client import connect
from ..config import ConnectionConfig
from ..metadata import MIME, Metadata
from ..payload import Payload
from ..reactive_streams import ElementStream, open_iter
from ..requester import Requester
from ..uri import shown
from .ingest_config import COLLECTOR_CONFIG, IngestConfig
from .subscriptions import Subscription

__all__ = ["EventStream", "Feed", "Link", "Source", "source_of"]


class EventStream(Protocol):
    """The events of a stream, with manual demand: a `rsocket_trio.PayloadStream`, or alike."""

    async def receive(self) -> Payload:
        """See `rsocket_trio.PayloadStream.receive`."""

    def receive_nowait(self) -> Payload:
        """See `rsocket_trio.PayloadStream.receive_nowait`."""

    def request_n(self, n: int) -> None:
        """See `rsocket_trio.PayloadStream.request_n`."""


@attrs.frozen
class Feed:
    """An open stream.

    Attributes:
        stream: Its events.
        facts: What is stored with each batch of them.
        metadata_type: The MIME type of the metadata of the connection.
    """

    stream: EventStream
    facts: dict[str, str]
    metadata_type: str


class Link(Protocol):
    """A connection to a publisher."""

    def opened(self, granted: int) -> AbstractAsyncContextManager[Feed]:
        """Open the stream with credit for some events. Raises `RSocketError`, as the stream."""


class Source(Protocol):
    """A publisher, as one subscription needs it."""

    def connected(self) -> AbstractAsyncContextManager[Link]:
        """Connect to it. Raises `RSocketError`."""


def source_of(
    subscription: Subscription, config: IngestConfig, ssl_context: ssl.SSLContext | None
) -> Source:
    """Return the source of a subscription.

    Args:
        subscription: The address and the route.
        config: How many bytes may be on the way.
        ssl_context: TLS, for addresses with TLS.
    """
    options: dict[str, Any] = {}
    if ssl_context is not None and subscription.uri.is_encrypted:
        options["ssl_context"] = ssl_context
    if subscription.is_rsio:
        return _Publisher(subscription, options)
    return _Responder(subscription, {"config": _config_for(config), **options})


@attrs.frozen
class _Responder:
    """A responder of RSocket."""

    subscription: Subscription
    options: dict[str, Any] = attrs.field(repr=False)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Link]:
        subscription = self.subscription
        auth = subscription.auth
        async with connect(
            subscription.uri,
            data_mime_type=subscription.mime_type,
            setup_metadata=None if auth is None else Metadata(auth=auth),
            **self.options,
        ) as requester:
            yield _Requests(subscription, requester)


@attrs.frozen
class _Requests:
    subscription: Subscription
    requester: Requester

    @asynccontextmanager
    async def opened(self, granted: int) -> AsyncIterator[Feed]:
        subscription, requester = self.subscription, self.requester
        async with requester.request_stream(
            Payload(subscription.data),
            route=subscription.route,
            prefetch=0,
            initial_request_n=granted,
        ) as stream:
            facts = _facts("rsocket", requester.transport.peer, subscription)
            yield Feed(stream, facts, requester.metadata_mime_type)


@attrs.frozen
class _Publisher:
    """A publisher of rsio."""

    subscription: Subscription
    options: dict[str, Any] = attrs.field(repr=False)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Link]:
        async with rsio.connect(self.subscription.uri, **self.options) as connection:
            yield _Subscribes(self.subscription, connection)


@attrs.frozen
class _Subscribes:
    subscription: Subscription
    connection: rsio.Connection

    @asynccontextmanager
    async def opened(self, granted: int) -> AsyncIterator[Feed]:
        publisher = self.connection.publisher(self.subscription.route)
        async with open_iter(publisher, prefetch=0) as elements:
            elements.request_n(granted)
            facts = _facts("rsio", self.connection.info.peer, self.subscription)
            yield Feed(_Payloads(elements), facts, MIME.COMPOSITE_METADATA)


class _Payloads:
    """The elements of a publisher as payloads without metadata."""

    def __init__(self, elements: ElementStream[bytes]) -> None:
        self._elements: Final = elements
        self.request_n: Final = elements.request_n

    async def receive(self) -> Payload:
        return Payload(await self._elements.receive())

    def receive_nowait(self) -> Payload:
        return Payload(self._elements.receive_nowait())


def _facts(source: str, peer: str | None, subscription: Subscription) -> dict[str, str]:
    return {
        "source": source,
        "peer": peer or shown(subscription.uri),
        "route": subscription.shown_route,
    }


def _config_for(config: IngestConfig) -> ConnectionConfig:
    limits = attrs.evolve(
        COLLECTOR_CONFIG.limits,
        max_unread_size=COLLECTOR_CONFIG.limits.max_unread_size + config.max_granted_size,
    )
    return ConnectionConfig(keepalive_interval=5.0, max_lifetime=20.0, limits=limits)
