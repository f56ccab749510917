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

from collections.abc import AsyncIterable, Awaitable
from typing import TYPE_CHECKING, Protocol

import attrs

from .errors import Invalid
from .payload import Payload
from .streamed import AnyPayload
from .transports.base import TransportInfo

if TYPE_CHECKING:
    import trio

    from .requester import Requester

__all__ = ["Acceptor", "Responder", "Setup", "accept_with", "check_responder"]


@attrs.frozen(kw_only=True)
class Setup:
    """What the client's SETUP said, and over which transport it came (Protocol.md, "SETUP Frame").

    Attributes:
        data: Setup data.
        metadata: Setup metadata, ``None`` when absent.
        data_mime_type: MIME type of the data of every payload of this connection.
        metadata_mime_type: Likewise of the metadata.
        keepalive_interval: How often the client will send KEEPALIVE, in seconds.
        max_lifetime: How long the client tolerates silence, in seconds.
        transport: Peer address, and for WebSocket the path and the headers of the handshake.
    """

    data: bytes = b""
    metadata: bytes | None = None
    data_mime_type: str
    metadata_mime_type: str
    keepalive_interval: float
    max_lifetime: float
    transport: TransportInfo


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
            The responder of this connection; this object itself unless overridden.

        Raises:
            SetupError: To refuse the connection: the client gets the code and the text.
        """
        return self

    def takes_body(self, interaction: str, metadata: bytes | None) -> bool:
        """Whether a request in fragments is to be read while it arrives.

        Asked once per request in fragments, once its metadata are here, and for no other. Where
        the answer is True the handler is called at once, and with a `StreamedPayload` whose
        ``data`` is a `PayloadBody`, instead of with a `Payload` once that is whole. What the
        handler has not read when it ends is dropped.

        Args:
            interaction: ``"request_response"``, ``"fire_and_forget"`` or ``"request_stream"``.
            metadata: Of the request.

        What this raises ends the request, as what its handler raises would.
        """
        return False

    async def request_response(self, payload: Payload) -> AnyPayload | None:
        """Answer with one payload, or with ``None``: completed without a value."""
        raise Invalid("this peer does not answer request_response")

    async def fire_and_forget(self, payload: Payload) -> None:
        """Take a message that nobody waits for. What it raises is logged here and not sent."""
        raise Invalid("this peer does not take fire_and_forget")

    def request_stream(
        self, payload: Payload
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """Answer with a stream: an async generator, a ReceiveChannel, any async iterable.

        It is iterated in one task as fast as the peer grants credit, at most one item ahead, and
        closed in that same task (``aclose``) when the stream ends.
        """
        raise Invalid("this peer does not answer request_stream")

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

    Raises:
        SetupError: It refuses.
        TypeError: It answers with something that is no responder.

    Checkpoint: as the acceptor does.
    If cancelled: the acceptor is.
    """
    accept = responder.accept if isinstance(responder, Responder) else responder
    accepted = await accept(setup, requester)
    if not isinstance(accepted, Responder):
        raise TypeError(f"an acceptor must return a Responder, not {type(accepted).__name__}")
    return accepted
