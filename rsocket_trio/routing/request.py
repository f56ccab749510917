"""A request on its way from the metadata to the handler: `Request`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Invalid, fresh_copy
from .guards import Visit
from .parameters import Route
from .refusals import shown
from .traffic import is_measured

if TYPE_CHECKING:
    from ..metadata.authentication import Authentication
    from ..tracing import Tracing
    from .handler import Context, Handler
    from .kinds import Kind
    from .middleware import Step
    from .registered import Registered
    from .signature import Signature
    from .supplies import Supply

__all__ = ["NoHandler", "Place", "Request"]


class NoHandler(Invalid):
    """There is no handler for the request. Other wires have an answer of their own for that."""


class Place:
    """A registered handler on one connection; or the place of requests that have none.

    Attributes:
        registered: The registered handler, if there is one.
        context: What it shares with other handlers on the connection.
        steps: The guards and the middleware that its requests have to pass.
        is_guarded: There is a guard among the steps.
        is_measured: There is middleware among them that looks at `Call.traffic`.
        supply: What the handler gets from providers, if it needs any.
        usual: The handler for requests that name no MIME types, once there was one.
    """

    __slots__ = (
        "context",
        "is_guarded",
        "is_measured",
        "registered",
        "steps",
        "supply",
        "usual",
    )

    def __init__(
        self,
        registered: Registered | None,
        context: Context,
        steps: tuple[Step, ...],
        supply: Supply | None = None,
    ) -> None:
        self.registered = registered
        self.context = context
        self.steps = steps
        self.is_guarded = any(isinstance(step, Visit) for step in steps)
        self.is_measured = is_measured(steps)
        self.supply = supply
        self.usual: Handler | None = None

    @property
    def tracing(self) -> Tracing | None:
        """What makes the trace of a request current, if its router has tracing."""
        return None if self.registered is None else self.registered.settings.tracing


class Request:
    """What a router knows of a request.

    Attributes:
        interaction: The interaction.
        place: Where it is handled.
        name: The name of its route; ``None`` if it has none.
        tags: The other routing tags.
        values: The texts of the variables in the route of its handler, in order.
        mime_type: The entry with the MIME type of the data, not read yet.
        accept: The entry with the MIME types that the requester accepts, not read yet.
        handler: The handler on this connection, once the request is admitted.
        auth: The authentication of the request.
        steps: The guards and the middleware that it has to pass.
        plain: The handler, if there are no steps, and the handler looks neither at the call nor at
            the data as they arrive.
        refusal: The answer to a request whose metadata cannot be read.
    """

    __slots__ = (
        "_route",
        "accept",
        "auth",
        "handler",
        "interaction",
        "mime_type",
        "name",
        "place",
        "plain",
        "refusal",
        "steps",
        "tags",
        "values",
    )

    def __init__(
        self,
        interaction: Kind,
        place: Place,
        name: str | None,
        tags: tuple[str, ...] = (),
        values: tuple[str, ...] = (),
    ) -> None:
        self.interaction = interaction
        self.place = place
        self.name = name
        self.tags = tags
        self.values = values
        self._route: Route | None = None
        self.mime_type: bytes | None = None
        self.accept: bytes | None = None
        self.handler: Handler | None = None
        self.auth: Authentication | None = None
        self.steps = place.steps
        self.plain: Handler | None = None
        self.refusal: Invalid | None = None

    def again(self) -> Request:
        """Return another request for the same route, whose metadata have more entries."""
        request = Request(self.interaction, self.place, self.name, self.tags, self.values)
        if self.place.is_guarded:
            request._route = self.route  # guards look at it
        return request

    @property
    def is_common(self) -> bool:
        """Whether all requests with its route may share this object: it says no more than that."""
        return self.place.registered is not None and not self.tags and not self.values

    @property
    def types_size(self) -> int:
        """The bytes of the entries that name MIME types, at least: each has a head of four."""
        return sum([4 + len(each) for each in (self.mime_type, self.accept) if each is not None])

    @property
    def route(self) -> Route:
        """The route, made when it is first asked for."""
        if self._route is None:
            signature = self.signature
            if signature is None or signature.template is None:
                self._route = Route(self.name or "", self.tags)
            else:
                variables = dict(zip(signature.variables, self.values, strict=True))
                template = signature.template.text
                self._route = Route(self.name or "", self.tags, template, variables)
        return self._route

    @property
    def signature(self) -> Signature | None:
        """The signature of the handler, if there is one."""
        registered = self.place.registered
        return None if registered is None else registered.signature

    def missing(self) -> Invalid:
        """Return the answer to a request without a handler."""
        if self.refusal is not None:
            return fresh_copy(self.refusal)  # once raised it has frames, which have this object
        where = "requests without a route" if self.name is None else f"route {shown(self.name)}"
        return NoHandler(f"no {self.interaction.value} handler for {where}")
