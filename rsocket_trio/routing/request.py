"""What a router knows of a request, from its metadata to its handler: `Request`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Invalid
from .refusals import shown

if TYPE_CHECKING:
    from ..metadata.authentication import Authentication
    from ..metadata.tracing_zipkin import ZipkinTracing
    from ..protocol.interaction import Interaction
    from ..tracing import Tracing
    from .guards import Visit
    from .handler import Handler
    from .registered import Registered
    from .signature import Route, Signature

__all__ = ["Request"]


class Request:
    """What the metadata of a request say.

    Attributes:
        interaction: What is asked for.
        route: Of whom.
        routed: There is a route at all.
        registered: Who answers, if anybody does.
        mime_type: The entry that names the MIME type of its data; not read as yet.
        accept: The entry with the types its answer should be in; not read as yet.
        handler: Who answers, once the request is admitted.
        auth: Who is asking.
        visits: The guards it has to pass.
        trace: What it belongs to.
        plain: The handler, where the request is neither guarded nor traced.
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
        self.trace: ZipkinTracing | None = None
        self.plain: Handler | None = None

    @property
    def signature(self) -> Signature | None:
        """The handler, where there is one."""
        return None if self.registered is None else self.registered.signature

    @property
    def is_traced(self) -> bool:
        """Whether its handler wants to know the trace that it belongs to."""
        return self.registered is not None and self.registered.settings.tracing is not None

    @property
    def tracing(self) -> Tracing | None:
        """What takes in its trace, if it has one."""
        if self.registered is None or self.trace is None:
            return None
        return self.registered.settings.tracing

    def missing(self) -> Invalid:
        """The answer where nobody does."""
        where = f"route {shown(self.route.name)}" if self.routed else "requests without a route"
        return Invalid(f"no {self.interaction.value} handler for {where}")
