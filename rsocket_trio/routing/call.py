"""One handled request, for middleware and handlers: `Call`."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import trio

from ..errors import MetadataError
from ..metadata.builder import Metadata
from ..sealed import Sealed
from .refusals import named, unreadable

if TYPE_CHECKING:
    from ..protocol.interaction import Interaction
    from ..requester import Requester
    from ..responder import Setup
    from ..stopping import Stopping
    from ..transports.base import TransportInfo
    from .guards import Visit
    from .handler import Context
    from .kinds import Delivery
    from .parameters import Route
    from .plans import Node
    from .request import Request
    from .traffic import Traffic

__all__ = ["AnyCall", "Call", "Outcome", "RouterCall", "new_call"]


class Outcome(StrEnum):
    """How a call has ended."""

    COMPLETED = "completed"
    """The handler has returned, or its stream has come to its end."""

    FAILED = "failed"
    """It was refused, or the handler or middleware raised an error, which `Call.error` is."""

    CANCELLED = "cancelled"
    """The requester has cancelled, or its connection has ended, or a deadline has passed."""


class AnyCall(metaclass=Sealed, given="middleware is given one"):
    """What calls have in common: those that are handled here, and those that are made here.

    Attributes:
        outcome: How the part inside of a middleware has ended: set before the middleware goes on
            behind its ``yield``. ``None`` before that.
        error: The error of that part; ``None`` if it has completed. A `trio.Cancelled` knows the
            reason.
        items: The number of items that the handler of a stream or channel has given, or that the
            caller of one has got.
        traffic: What a call that is handled here carries; ``None`` unless one of its middleware is
            an object with a true attribute ``measures``.
    """

    __slots__ = ("_attributes", "error", "items", "outcome", "traffic")

    def __init__(self) -> None:
        self._attributes: dict[str, object] | None = None
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.items = 0
        self.traffic: Traffic | None = None

    @property
    @abstractmethod
    def interaction(self) -> Interaction | Delivery:
        """The interaction; ``Delivery.EVENTS`` for a batch of events."""

    @property
    @abstractmethod
    def route(self) -> Route:
        """The route as the requester wrote it."""

    @property
    @abstractmethod
    def template(self) -> str | None:
        """`Route.template`, but empty if the handler has no route; ``None`` without a handler.

        For a request that is made here it is the route that the caller gave.
        """

    @property
    @abstractmethod
    def transport(self) -> TransportInfo:
        """Facts about the connection."""

    @property
    def attributes(self) -> dict[str, object]:
        """Whatever middleware wants to tell other middleware and the handler."""
        if self._attributes is None:
            self._attributes = {}
        return self._attributes

    def began(self) -> float:
        """Return when the request has arrived, where that is known, else the time of now."""
        return trio.current_time()

    @property
    def deadline(self) -> float:
        """When the innermost cancel scope around the caller of this property ends it.

        By trio's clock; infinity if there is no deadline.
        """
        return trio.current_effective_deadline()


class Call(AnyCall, given="middleware and handlers are given one"):
    """One handled request, of any interaction and any wire, from its first fragment to its end.

    A parameter of a handler with this annotation receives it, and each middleware does.

    Attributes:
        arrived: When the request came, by trio's clock, before it waited for its turn; one in
            fragments came with its first, a batch of events with its last event. ``None`` for a
            connection that is made for a test.
        principal: What the last authenticator has returned; before it is asked, what it (or the
            one of the router that is served) returned for the connection; or ``None``. A wire
            without authenticators leaves it to middleware.
        outcome: See `AnyCall`.
        error: See `AnyCall`.
        items: See `AnyCall`.
        traffic: See `AnyCall`.
    """

    __slots__ = ("arrived", "principal")

    def __init__(self, principal: object) -> None:
        super().__init__()
        self.arrived: float | None = None
        self.principal = principal

    def began(self) -> float:
        """See `AnyCall`."""
        return trio.current_time() if self.arrived is None else self.arrived

    @property
    @abstractmethod
    def handler(self) -> str | None:
        """The handler's name with its module; ``None`` if there is no handler for the route."""

    @property
    @abstractmethod
    def metadata(self) -> Metadata:
        """The metadata of the request.

        Raises:
            Invalid: They cannot be read.
        """

    def entry(self, mime_type: str) -> bytes | None:
        """Return the content of the first entry of the metadata with a type that has no number.

        Args:
            mime_type: The type, e.g. ``"application/vnd.acme.tenant"``.

        Raises:
            Invalid: The metadata cannot be read.
        """
        found = (each.content for each in self.metadata.extra if each.mime_type == mime_type)
        return next(found, None)

    @property
    @abstractmethod
    def setup(self) -> Setup:
        """The SETUP of the connection; of other protocols, one that says the same."""

    @property
    @abstractmethod
    def requester(self) -> Requester:
        """Sends requests to the peer; each raises `ConnectionClosed` if it takes none."""

    @property
    def transport(self) -> TransportInfo:
        """Facts about the connection."""
        return self.setup.transport

    @property
    def stopping(self) -> Stopping:
        """Tells that the connection is going to end, e.g. because the server stops."""
        return self.setup.stopping


class RouterCall(Call, given="middleware and handlers are given one"):
    """A request that a `Router` handles."""

    __slots__ = ("_context", "_made", "_metadata", "_request")

    _request: Request
    _context: Context
    _metadata: bytes | None
    _made: dict[Visit | Node, Any]  # what guards said and providers made for it

    def __repr__(self) -> str:
        return f"<Call of {named(self._context, self.interaction, self.route)}>"

    @property
    def interaction(self) -> Interaction | Delivery:
        """See `Call`."""
        return self._request.interaction

    @property
    def route(self) -> Route:
        """See `Call`."""
        return self._request.route

    @property
    def template(self) -> str | None:
        """See `AnyCall`."""
        signature = self._request.signature
        if signature is None:
            return None
        return "" if signature.template is None else signature.template.text

    @property
    def handler(self) -> str | None:
        """See `Call`."""
        signature = self._request.signature
        return None if signature is None else signature.name

    @property
    def metadata(self) -> Metadata:
        """See `Call`."""
        setup = self._context.setup
        try:
            return Metadata.decode(
                self._metadata, setup.metadata_mime_type, limits=self._context.limits
            )
        except MetadataError as error:
            request = named(self._context, self.interaction, self.route, self._request.signature)
            raise unreadable(error, request) from None

    def entry(self, mime_type: str) -> bytes | None:
        """See `Call`."""
        # Nearly always there is none, and to read the metadata takes longer than the rest.
        if self._metadata is None or mime_type.encode() not in self._metadata:
            return None
        return super().entry(mime_type)

    @property
    def setup(self) -> Setup:
        """See `Call`."""
        return self._context.setup

    @property
    def requester(self) -> Requester:
        """See `Call`."""
        return self._context.requester


_new: Final = object.__new__


def new_call(request: Request, context: Context, metadata: bytes | None) -> RouterCall:
    """Return the call of a router; each request that passes middleware or guards has one.

    It is no constructor: that would take three times as long.
    """
    self = _new(RouterCall)
    self._attributes = None
    self.outcome = None
    self.error = None
    self.items = 0
    self.traffic = None
    setup = context.setup
    # Now: while this call waits, handlers of others begin.
    self.arrived = setup.peer._turn.arrived  # noqa: SLF001 - not for applications
    self.principal = setup.principal
    self._request = request
    self._context = context
    self._metadata = metadata
    self._made = {}
    return self
