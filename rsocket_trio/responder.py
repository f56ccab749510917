"""The interface between the protocol and applications: `Responder` answers the peer's requests.

The same responder answers requests of RSocket 1.0 and of the ReactiveSocket draft;
`rsocket_trio.routing.Router` is the one that most applications use. The connection calls the
handlers. A handler has a task and a cancel scope to itself while it runs, inside the connection's
nursery; the task may run other handlers before and after it, so it is no identity of a request. Its
context variables are those of the one request. The peer's CANCEL cancels the handler; so does the
loss of the connection.

A handler may give a `StreamedPayload` instead of a `Payload`: it is sent while its data come.

A `StreamError` that a handler makes is sent to the peer with its code and text. Any other exception
ends the one stream with APPLICATION_ERROR and a text without details. The details are logged on
this side (logger ``rsocket_trio``).
"""

from __future__ import annotations

import copy
import hmac
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from .connection.resume_server import NO_SESSION
from .errors import Invalid, RejectedResume
from .escapes import size_only
from .field_checks import argument, instance_of
from .interactions.sending import AnyItems
from .log_policy import logger
from .overrides import check_overrides
from .payload import Payload
from .protocol.interaction import Interaction
from .sockets.peer import Peer
from .stopping import Stopping
from .streamed import AnyPayload
from .transports.base import TransportInfo

if TYPE_CHECKING:
    import trio

    from .interactions.payload_body import PayloadBody
    from .requester import Requester
    from .statistics import RouteStatistics

__all__ = [
    "Acceptor",
    "BodyResponder",
    "Responder",
    "ResponderWrapper",
    "ResumeFacts",
    "Setup",
    "accept_with",
    "call_statistics_of",
    "check_responder",
    "lifespan_of",
]

_NO_REQUEST_RESPONSE: Final = "this peer does not answer request_response"
_NO_FIRE_AND_FORGET: Final = "this peer does not take fire_and_forget"
_NO_REQUEST_STREAM: Final = "this peer does not answer request_stream"


@attrs.frozen(kw_only=True)
class Setup:
    """The contents of the client's SETUP, and its transport (Protocol.md, "SETUP Frame").

    Attributes:
        data: Setup data.
        metadata: Setup metadata, ``None`` when absent.
        data_mime_type: MIME type of the data of every payload of this connection.
        metadata_mime_type: MIME type of the metadata of every payload of this connection.
        keepalive_interval: How often the client will send KEEPALIVE, in seconds.
        max_lifetime: How long the client tolerates silence, in seconds; at a server at most
            `Limits.max_client_lifetime`.
        transport: Peer address, and for WebSocket the path and the headers of the handshake.
        ours: True on a client, whose acceptor gets the client's own SETUP.
        principal: The identity of the client, as the authenticator of the served
            `rsocket_trio.Router` returned it; ``None`` before that, and without an authenticator.
        stopping: Tells when the connection is going to end, e.g. because this server stops.
        peer: Ends the connection, and renews its authentication.
    """

    data: bytes = attrs.field(default=b"", repr=size_only)  # both may hold a password
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data_mime_type: str
    metadata_mime_type: str
    keepalive_interval: float
    max_lifetime: float
    transport: TransportInfo
    ours: bool = False
    principal: object = attrs.field(default=None, repr=size_only)  # some are tokens
    stopping: Stopping = attrs.field(factory=Stopping, repr=False, eq=False)
    peer: Peer = attrs.field(
        default=attrs.Factory(lambda self: Peer(self.transport), takes_self=True),
        repr=False,
        eq=False,
    )


@attrs.frozen(kw_only=True)
class ResumeFacts:
    """The facts about a client that wants to resume a session (Protocol.md, "RESUME Frame").

    A RESUME carries the token of the session, and nothing else that identifies its sender. So only
    the facts that the two transports know about their clients can be compared.

    Attributes:
        setup: The SETUP that began the session, with the transport it came over.
        transport: The transport the RESUME came over.
    """

    setup: Setup
    transport: TransportInfo

    @property
    def principal(self) -> object:
        """The identity of the client that began the session; see `Setup.principal`."""
        return self.setup.principal

    @property
    def differences(self) -> tuple[str, ...]:
        """The names of the facts in which the two transports differ.

        * ``listener``: the scheme, and the address of `serve` (`TransportInfo.listener`)
        * ``path``: WebSocket: the path of the request, with its query
        * ``authorization``, ``cookie``, ``origin``: WebSocket: these headers of the handshake
        * ``certificate``: TLS: subject and alternative names in the client's certificate
        * ``user``: Unix sockets: the user and the group the client runs as

        The address of the client is not compared: it may change between connections.
        """
        before, now = _client_facts(self.setup.transport), _client_facts(self.transport)
        return tuple([name for name in before if not _equal(before[name], now[name])])


def _client_facts(transport: TransportInfo) -> dict[str, object]:
    """Return the facts that distinguish clients, as far as the transport knows them."""
    headers = {
        name: repr([value for key, value in transport.headers if key.lower() == name])
        for name in ("authorization", "cookie", "origin")
    }
    certificate: object = transport.extra.get("peer_certificate")
    if isinstance(certificate, Mapping):
        # A renewed certificate has the same names. Without names, compare the whole certificate.
        named = (certificate.get("subject"), certificate.get("subjectAltName"))
        certificate = named if any(named) else dict(certificate)
    user: object = transport.extra.get("peer_credentials")
    if isinstance(user, tuple):
        user = user[1:]  # without the process id
    return {
        "listener": (transport.scheme, transport.listener),
        "path": transport.path,
        **headers,
        "certificate": certificate,
        "user": user,
    }


def _equal(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        # Some are secrets: the time of the comparison must not show where the texts differ.
        one, other = (text.encode("utf-8", "surrogatepass") for text in (one, other))
        return hmac.compare_digest(one, other)
    return one == other


class BodyResponder:
    """Answers requests while they arrive; see `Responder.body_responder`.

    Override the methods you offer; the others answer INVALID. The part of a request that a handler
    has not read when it ends is dropped.
    """

    async def request_response(self, body: PayloadBody) -> AnyPayload | None:
        """As `Responder.request_response`."""
        raise Invalid(_NO_REQUEST_RESPONSE)

    async def fire_and_forget(self, body: PayloadBody) -> None:
        """As `Responder.fire_and_forget`."""
        raise Invalid(_NO_FIRE_AND_FORGET)

    def request_stream(self, body: PayloadBody) -> AnyItems | Awaitable[AnyItems]:
        """As `Responder.request_stream`."""
        raise Invalid(_NO_REQUEST_STREAM)


class Responder:
    """Answers the peer's requests. Override the methods you offer; the others answer INVALID.

    One object may serve any number of connections: override `accept` to keep state per
    connection.
    """

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """Decide about a new connection; called once per connection, before any request.

        Args:
            setup: The contents of the client's SETUP; on a client its own.
            requester: For requests to the peer. Usable after this has returned.

        Returns:
            The responder of this connection; this object unless overridden. If it is another
            responder, its ``accept`` is called next, and so on: a `rsocket_trio.Router` returned
            here serves as if it had been given to `serve`. The same ``accept`` method is not
            called twice, so a class may return a new object of its own.

        Raises:
            SetupError: To refuse the connection: the client gets the code and the text.
            StreamError: As well, with its text; `Forbidden` and `Unauthenticated` keep their code.
        """
        return self

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Return a block around the whole time in which this object is served.

        The function that serves it enters the block in its own task, before it listens, and leaves
        it when the last connection is over. Unless overridden, the block does nothing.
        """
        return nullcontext()

    def call_statistics(self) -> tuple[RouteStatistics, ...]:
        """Return numbers about the requests that this object and its copies have got.

        `rsocket_trio.Server.statistics` has them. Unless overridden, there are none.
        """
        return ()

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        """Return a block around the requests of this connection; ``None`` is none.

        Called once on the responder that `accept` returned. The block is entered before the first
        request, and left when the last handler has ended; with resumption that is the end of the
        session. An error before refuses the connection, as one of `accept` does. If the block ends
        by itself, it ends the connection.
        """
        return None

    async def accept_resume(self, facts: ResumeFacts) -> None:
        """Decide whether a session of this connection may be resumed over another transport.

        Called on the responder that `accept` returned, each time a client sends a RESUME with the
        session's token, before the client is answered. Unless overridden, the new transport must
        have the same listener and the same client as the transport of the SETUP, as far as
        transports know (`ResumeFacts.differences`).

        Args:
            facts: The SETUP, and the new transport.

        Raises:
            RejectedResume: To refuse: the client gets the text. The session stays, and another
                RESUME may be accepted.
        """
        if facts.differences:
            logger.info(
                "refused a RESUME from %s: its transport differs from that of the SETUP in %s",
                facts.transport.peer,
                ", ".join(facts.differences),
            )
            raise RejectedResume(NO_SESSION)

    def body_responder(
        self, interaction: Interaction, metadata: bytes | None
    ) -> BodyResponder | None:
        """Choose the object that reads a request in fragments while it arrives.

        Called once for each request in fragments, when its metadata are complete. If this returns
        a `BodyResponder`, its method is called at once, with a `PayloadBody`. If it returns
        ``None``, the method of this object is called when the `Payload` is whole.

        Args:
            interaction: ``REQUEST_RESPONSE``, ``FIRE_AND_FORGET`` or ``REQUEST_STREAM``.
            metadata: The metadata of the request.

        An exception ends the request, as an exception of the handler does.
        """
        return None

    async def request_response(self, payload: Payload) -> AnyPayload | None:
        """Answer with one payload, or with ``None`` to complete without a value."""
        raise Invalid(_NO_REQUEST_RESPONSE)

    async def fire_and_forget(self, payload: Payload) -> None:
        """Take a message without an answer. An exception is logged here and not sent."""
        raise Invalid(_NO_FIRE_AND_FORGET)

    def request_stream(self, payload: Payload) -> AnyItems | Awaitable[AnyItems]:
        """Answer with a stream: an async generator, a ReceiveChannel or another async iterable.

        One task iterates it as fast as the peer grants credit, at most one item ahead, and closes
        it (``aclose``) when the stream ends. It may also be a
        `rsocket_trio.reactive_streams.Publisher`: it is asked for as many items as the peer grants,
        and at most one more.
        """
        raise Invalid(_NO_REQUEST_STREAM)

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AnyItems | Awaitable[AnyItems]:
        """Answer a stream of payloads with a stream of payloads.

        Args:
            payload: The payload of the request frame; it is also the first of ``payloads``.
            payloads: All the payloads of the requester, including the first.
        """
        raise Invalid("this peer does not answer request_channel")

    async def metadata_push(self, metadata: bytes) -> None:
        """Take metadata about the connection. An exception is logged here and not sent."""


class ResponderWrapper(Responder):
    """Passes every call on to another responder: the base class of responders around others.

    Override what is to be different, and call ``super()`` there.

    A request in fragments passes the same methods as any other one: if one of them is overridden,
    its requests are whole first, unless `body_responder` is overridden as well.

    Args:
        wrapped: The responder, e.g. a `Router`.

    Attributes:
        wrapped: The responder; on a connection, the one that its ``accept`` has returned.

    Raises:
        TypeError: It is no responder.
    """

    def __init__(self, wrapped: Responder) -> None:
        argument("wrapped", wrapped, instance_of(Responder))
        self.wrapped = wrapped

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """Ask the responder, and return a copy of this object around what it has returned.

        Checkpoint: as that does.
        If cancelled: as that is.
        """
        accepted = copy.copy(self)
        accepted.wrapped = await accept_with(self.wrapped, setup, requester)
        return accepted

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """See `Responder.lifespan`.

        Checkpoint: as that of the responder does.
        If cancelled: as that of the responder is.
        """
        return self.wrapped.lifespan()

    def call_statistics(self) -> tuple[RouteStatistics, ...]:
        """See `Responder.call_statistics`."""
        return self.wrapped.call_statistics()

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        """See `Responder.connection_block`.

        Checkpoint: as that of the responder does.
        If cancelled: as that of the responder is.
        """
        return self.wrapped.connection_block()

    async def accept_resume(self, facts: ResumeFacts) -> None:
        """See `Responder.accept_resume`.

        Checkpoint: as that of the responder does.
        If cancelled: as that of the responder is.
        """
        await self.wrapped.accept_resume(facts)

    def body_responder(
        self, interaction: Interaction, metadata: bytes | None
    ) -> BodyResponder | None:
        """See `Responder.body_responder`."""
        name = interaction.value
        if getattr(type(self), name) is not getattr(ResponderWrapper, name):
            return None  # else its requests would pass by the method that a subclass has
        return self.wrapped.body_responder(interaction, metadata)

    async def request_response(self, payload: Payload) -> AnyPayload | None:
        """See `Responder.request_response`.

        Checkpoint: as that of the responder does.
        If cancelled: as that of the responder is.
        """
        return await self.wrapped.request_response(payload)

    async def fire_and_forget(self, payload: Payload) -> None:
        """See `Responder.fire_and_forget`.

        Checkpoint: as that of the responder does.
        If cancelled: as that of the responder is.
        """
        await self.wrapped.fire_and_forget(payload)

    def request_stream(self, payload: Payload) -> AnyItems | Awaitable[AnyItems]:
        """See `Responder.request_stream`."""
        return self.wrapped.request_stream(payload)

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AnyItems | Awaitable[AnyItems]:
        """See `Responder.request_channel`."""
        return self.wrapped.request_channel(payload, payloads)

    async def metadata_push(self, metadata: bytes) -> None:
        """See `Responder.metadata_push`.

        Checkpoint: as that of the responder does.
        If cancelled: as that of the responder is.
        """
        await self.wrapped.metadata_push(metadata)


class Acceptor(Protocol):
    """A function that can be served: called once per connection, it returns the responder."""

    def __call__(self, setup: Setup, requester: Requester, /) -> Awaitable[Responder]:
        """See `Responder.accept`."""


def lifespan_of(responder: object) -> AbstractAsyncContextManager[None]:
    """Return the block in which something is served: `Responder.lifespan` of a responder."""
    return responder.lifespan() if isinstance(responder, Responder) else nullcontext()


def call_statistics_of(responder: object) -> tuple[RouteStatistics, ...]:
    """Return `Responder.call_statistics` of what is served."""
    return responder.call_statistics() if isinstance(responder, Responder) else ()


def check_responder(responder: object) -> None:
    """Check the type of a responder at the start, not with the first connection.

    Raises:
        TypeError: It is neither a responder nor a function; or its class overrides no method of
            `Responder`, or has one with a misspelt name; or it wraps itself.
    """
    if isinstance(responder, type):
        raise TypeError(
            f"a Responder or an acceptor function is needed, not the class {responder.__name__}: "
            f"write {responder.__name__}()"
        )
    if not isinstance(responder, Responder) and not callable(responder):
        raise TypeError(
            f"a Responder or an acceptor function is needed, not {type(responder).__name__}"
        )
    passed = []
    while isinstance(responder, ResponderWrapper):
        check_overrides(responder, _HOOKS, ResponderWrapper)
        passed.append(responder)
        responder = responder.wrapped
        if any(responder is each for each in passed):
            raise TypeError(f"the {type(responder).__name__} wraps itself")
    if isinstance(responder, Responder):
        check_overrides(responder, _HOOKS, Responder)


_HOOKS = {name for name in vars(Responder) if not name.startswith("_")}


async def accept_with(
    responder: Responder | Acceptor, setup: Setup, requester: Requester
) -> Responder:
    """Call a responder's ``accept``, or an acceptor function, for a new connection.

    Then call ``accept`` of the responder it returns, and so on, so that no guard is left out: see
    `Responder.accept`.

    Raises:
        SetupError: One of them refuses.
        TypeError: One of them does not return a responder, or one that `check_responder` refuses.

    Checkpoint: as the acceptor does.
    If cancelled: the acceptor is cancelled.
    """
    asked: list[object] = []
    accept = responder.accept if isinstance(responder, Responder) else responder
    while True:
        asked.append(_function_of(accept))
        accepted = await accept(setup, requester)
        if not isinstance(accepted, Responder):
            raise TypeError(f"an acceptor must return a Responder, not {type(accepted).__name__}")
        check_responder(accepted)
        accept = accepted.accept
        if _function_of(accept) in asked:
            return accepted


def _function_of(accept: object) -> object:
    return getattr(accept, "__func__", accept)
