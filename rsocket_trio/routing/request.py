"""A request on its way from the metadata to the handler: `Request`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Invalid
from .refusals import shown

if TYPE_CHECKING:
    from ..metadata.authentication import Authentication
    from ..metadata.tracing_zipkin import ZipkinTrace
    from ..protocol.interaction import Interaction
    from ..tracing import Tracing
    from .guards import Visit
    from .handler import Handler
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
        visits: The guards that it has to pass.
        trace: The trace that it belongs to.
        plain: The handler, if the request is neither guarded nor traced.
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
        "trace",
        "visits",
    )

    def __init__(self, interaction: Interaction, route: Route) -> None:
        self.interaction = interaction
        self.route = route
        self.routed = False
        self.registered: Registered | None = None
        self.mime_type: bytes | None = None
        self.accept: bytes | None = None
        self.handler: Handler | None = None
        self.auth: Authentication | None = None
        self.visits: tuple[Visit, ...] = ()
        self.trace: ZipkinTrace | None = None
        self.plain: Handler | None = None

    @property
    def signature(self) -> Signature | None:
        """The signature of the handler, if there is one."""
        return None if self.registered is None else self.registered.signature

    @property
    def is_traced(self) -> bool:
        """Whether its handler is in a router with tracing."""
        return self.registered is not None and self.registered.settings.tracing is not None

    @property
    def tracing(self) -> Tracing | None:
        """The tracing of its handler, if the request has a trace."""
        if self.registered is None or self.trace is None:
            return None
        return self.registered.settings.tracing

    def missing(self) -> Invalid:
        """Return the answer to a request without a handler."""
        where = f"route {shown(self.route.name)}" if self.routed else "requests without a route"
        return Invalid(f"no {self.interaction.value} handler for {where}")
