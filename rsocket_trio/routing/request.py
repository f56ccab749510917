"""A request on its way from the metadata to the handler: `Request`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Invalid
from .refusals import shown

if TYPE_CHECKING:
    from ..metadata.authentication import Authentication
    from ..tracing import Tracing
    from .handler import Handler
    from .kinds import Kind
    from .middleware import Step
    from .parameters import Route
    from .registered import Registered
    from .signature import Signature

__all__ = ["Request"]


class Request:
    """What a router knows of a request.

    Attributes:
        interaction: The interaction.
        route: The route.
        routed: The metadata name a route.
        registered: The registered handler, if there is one.
        mime_type: The entry with the MIME type of the data, not read yet.
        accept: The entry with the MIME types that the requester accepts, not read yet.
        handler: The handler on this connection, once the request is admitted.
        auth: The authentication of the request.
        steps: The guards and the middleware that it has to pass.
        plain: The handler, if there are no steps, and the handler does not look at the call.
    """

    __slots__ = (
        "accept",
        "auth",
        "handler",
        "interaction",
        "mime_type",
        "plain",
        "registered",
        "route",
        "routed",
        "steps",
    )

    def __init__(self, interaction: Kind, route: Route) -> None:
        self.interaction = interaction
        self.route = route
        self.routed = False
        self.registered: Registered | None = None
        self.mime_type: bytes | None = None
        self.accept: bytes | None = None
        self.handler: Handler | None = None
        self.auth: Authentication | None = None
        self.steps: tuple[Step, ...] = ()
        self.plain: Handler | None = None

    @property
    def signature(self) -> Signature | None:
        """The signature of the handler, if there is one."""
        return None if self.registered is None else self.registered.signature

    @property
    def tracing(self) -> Tracing | None:
        """What makes the trace of the request current, if its router has tracing."""
        return None if self.registered is None else self.registered.settings.tracing

    def missing(self) -> Invalid:
        """Return the answer to a request without a handler."""
        where = f"route {shown(self.route.name)}" if self.routed else "requests without a route"
        return Invalid(f"no {self.interaction.value} handler for {where}")
