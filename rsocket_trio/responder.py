"""What a peer may ask of us: `Responder`, the one seam between wires and applications.

The same responder answers requests of RSocket 1.0 and of the ReactiveSocket draft;
`rsocket_trio.routing.Router` is the one that most applications use. Handlers are called by the
connection: each running handler has a task and a cancel scope to itself, inside the connection's
nursery. The peer's CANCEL is a cancellation here; the loss of the connection too.

What a handler gives may be a `StreamedPayload` instead of a `Payload`: it is sent while it is made.

A `StreamError` raised by a handler goes to the peer with its code and text. Any other exception
ends its one stream with APPLICATION_ERROR and a text that says nothing: the details are logged on
this side (logger ``rsocket_trio``).
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterable, Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from .connection.resume_server import NO_SESSION
from .errors import Invalid, RejectedResume
from .log_policy import logger
from .payload import Payload
from .protocol.interaction import Interaction
from .streamed import AnyPayload
from .transports.base import TransportInfo

if TYPE_CHECKING:
    import trio

    from .interactions.payload_body import PayloadBody
    from .requester import Requester

__all__ = [
    "Acceptor",
    "BodyResponder",
    "Responder",
    "ResumeFacts",
    "Setup",
    "accept_with",
    "check_responder",
]

_NO_REQUEST_RESPONSE: Final = "this peer does not answer request_response"
_NO_FIRE_AND_FORGET: Final = "this peer does not take fire_and_forget"
_NO_REQUEST_STREAM: Final = "this peer does not answer request_stream"


@attrs.frozen(kw_only=True)
class Setup:
    """What the client's SETUP said, and over which transport it came (Protocol.md, "SETUP Frame").

    Attributes:
        data: Setup data.
        metadata: Setup metadata, ``None`` when absent.
        data_mime_type: MIME type of the data of every payload of this connection.
        metadata_mime_type: Likewise of the metadata.
        keepalive_interval: How often the client will send KEEPALIVE, in seconds.
        max_lifetime: How long the client tolerates silence, in seconds; at a server at most
            `Limits.max_client_lifetime`.
        transport: Peer address, and for WebSocket the path and the headers of the handshake.
        ours: This end sent it: a client's acceptor learns of the client's own SETUP.
        principal: Who has connected, as the authenticator of the `rsocket_trio.Router` says that
            is served; ``None`` before it has said so, and where there is none.
    """

    data: bytes = b""
    metadata: bytes | None = attrs.field(default=None, repr=False)  # it may hold a password
    data_mime_type: str
    metadata_mime_type: str
    keepalive_interval: float
    max_lifetime: float
    transport: TransportInfo
    ours: bool = False
    principal: Any = None


@attrs.frozen(kw_only=True)
class ResumeFacts:
    """What is known of a client that wants to go on with a session (Protocol.md, "RESUME Frame").

    A RESUME carries the token of the session, and nothing else that says who sends it. So all
    there is to be compared is what the two transports know of the client at their other end.

    Attributes:
        setup: The SETUP that began the session, with the transport it came over.
        transport: The transport the RESUME came over.
    """

    setup: Setup
    transport: TransportInfo

    @property
    def principal(self) -> Any:
        """Who began the session; see `Setup.principal`."""
        return self.setup.principal

    @property
    def differences(self) -> tuple[str, ...]:
        """What the two transports do not have in common, of what tells one client from another.

        * ``listener``: the scheme, and the address of `serve` (`TransportInfo.listener`)
        * ``path``: WebSocket: of the request, with its query
        * ``authorization``, ``cookie``, ``origin``: WebSocket: these headers of the handshake
        * ``certificate``: TLS: subject and alternative names in the client's certificate
        * ``user``: Unix sockets: the user and the group the client runs as

        The address of the client is not among them: it may well have moved.
        """
        before, now = _traits(self.setup.transport), _traits(self.transport)
        return tuple([name for name in before if not _same(before[name], now[name])])


def _traits(transport: TransportInfo) -> dict[str, object]:
    """What tells one client from another, as far as a transport knows."""
    headers = {
        name: repr([value for key, value in transport.headers if key.lower() == name])
        for name in ("authorization", "cookie", "origin")
    }
    certificate: object = transport.extra.get("peer_certificate")
    if isinstance(certificate, Mapping):
        # A certificate is renewed, and whom it names stays. (Empty names are no name.)
        named = (certificate.get("subject"), certificate.get("subjectAltName"))
        certificate = named if any(named) else dict(certificate)
    user: object = transport.extra.get("peer_credentials")
    if isinstance(user, tuple):
        user = user[1:]  # the first is the process
    return {
        "listener": (transport.scheme, transport.listener),
        "path": transport.path,
        **headers,
        "certificate": certificate,
        "user": user,
    }


def _same(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        # There are secrets among them: the time this takes says nothing of where they differ.
        one, other = (text.encode("utf-8", "surrogatepass") for text in (one, other))
        return hmac.compare_digest(one, other)
    return one == other


class BodyResponder:
    """Answers requests while they arrive; see `Responder.body_responder`.

    Override what you offer; the rest answers INVALID. What a handler has not read when it ends is
    dropped.
    """

    async def request_response(self, body: PayloadBody) -> AnyPayload | None:
        """As `Responder.request_response`."""
        raise Invalid(_NO_REQUEST_RESPONSE)

    async def fire_and_forget(self, body: PayloadBody) -> None:
        """As `Responder.fire_and_forget`."""
        raise Invalid(_NO_FIRE_AND_FORGET)

    def request_stream(
        self, body: PayloadBody
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """As `Responder.request_stream`."""
        raise Invalid(_NO_REQUEST_STREAM)


class Responder:
    """Answers the peer's requests. Override what you offer; the rest answers INVALID.

    One object may serve any number of connections: override `accept` to keep state per
    connection.
    """

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """Decide about a new connection; called once per connection, before any request.

        Args:
            setup: What the client said. On a client: what it said itself.
            requester: For requests to the peer. Usable once this has returned.

        Returns:
            The responder of this connection; this object itself unless overridden. Where it is
            another one its ``accept`` is asked in turn, and so on: a `rsocket_trio.Router` that is
            returned here serves as if it had been given to `serve`. Only what has this very
            method is not asked again, so that a class may return a new object of its own.

        Raises:
            SetupError: To refuse the connection: the client gets the code and the text.
        """
        return self

    async def accept_resume(self, facts: ResumeFacts) -> None:
        """Decide whether a session of this connection may go on over another transport.

        Asked of what `accept` has returned, each time a client that names the session by its
        token wants to resume it, and before the client learns anything of it. Unless overridden
        the transport must be of the same listener and the same client as that of the SETUP, as
        far as transports know (`ResumeFacts.differences`). A responder that stands before another
        one hands this on, as it does with requests.

        Args:
            facts: The SETUP, and the new transport.

        Raises:
            RejectedResume: To refuse: the client gets the text. The session lives on, for others
                to resume it.
        """
        if facts.differences:
            logger.info(
                "a session was not resumed from %s: another %s than that of its SETUP",
                facts.transport.peer,
                ", ".join(facts.differences),
            )
            raise RejectedResume(NO_SESSION)

    def body_responder(
        self, interaction: Interaction, metadata: bytes | None
    ) -> BodyResponder | None:
        """Who reads a request in fragments while it arrives.

        Asked once per request in fragments, once its metadata are here, and for no other. What
        this returns is called at once, with a `PayloadBody`; where it is ``None`` the method of
        this object is called once the `Payload` is whole.

        Args:
            interaction: ``REQUEST_RESPONSE``, ``FIRE_AND_FORGET`` or ``REQUEST_STREAM``.
            metadata: Of the request.

        What this raises ends the request, as what its handler raises would.
        """
        return None

    async def request_response(self, payload: Payload) -> AnyPayload | None:
        """Answer with one payload, or with ``None``: completed without a value."""
        raise Invalid(_NO_REQUEST_RESPONSE)

    async def fire_and_forget(self, payload: Payload) -> None:
        """Take a message that nobody waits for. What it raises is logged here and not sent."""
        raise Invalid(_NO_FIRE_AND_FORGET)

    def request_stream(
        self, payload: Payload
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """Answer with a stream: an async generator, a ReceiveChannel, any async iterable.

        It is iterated in one task as fast as the peer grants credit, at most one item ahead, and
        closed in that same task (``aclose``) when the stream ends.
        """
        raise Invalid(_NO_REQUEST_STREAM)

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """Answer a stream of payloads with a stream of payloads.

        Args:
            payload: The payload of the request frame, which is also the first of ``payloads``.
            payloads: All the requester sends, the first included, to its end.
        """
        raise Invalid("this peer does not answer request_channel")

    async def metadata_push(self, metadata: bytes) -> None:
        """Take metadata about the connection. What it raises is logged here and not sent."""


class Acceptor(Protocol):
    """A function can be what is served: called per connection, it returns the responder."""

    def __call__(self, setup: Setup, requester: Requester, /) -> Awaitable[Responder]:
        """See `Responder.accept`."""


def check_responder(responder: object) -> None:
    """Find out early, and not with the first connection.

    Raises:
        TypeError: It is neither a responder nor a function.
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


async def accept_with(
    responder: Responder | Acceptor, setup: Setup, requester: Requester
) -> Responder:
    """Ask a responder, or an acceptor function, about a new connection.

    What they answer with is asked in turn, so that no guard is left out: see `Responder.accept`.

    Raises:
        SetupError: It refuses.
        TypeError: It answers with something that is no responder.

    Checkpoint: as the acceptor does.
    If cancelled: the acceptor is.
    """
    asked: list[object] = []
    accept = responder.accept if isinstance(responder, Responder) else responder
    while True:
        asked.append(_function_of(accept))
        accepted = await accept(setup, requester)
        if not isinstance(accepted, Responder):
            raise TypeError(f"an acceptor must return a Responder, not {type(accepted).__name__}")
        accept = accepted.accept
        if _function_of(accept) in asked:
            return accepted


def _function_of(accept: object) -> object:
    return getattr(accept, "__func__", accept)
