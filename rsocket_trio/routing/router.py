"""Handlers by route: `Router`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs

from ..codecs import DEFAULT_CODECS, Codecs
from ..errors import MetadataError
from ..metadata.routing import encode_route
from ..responder import Responder, Setup
from .access import Authenticate, Guard
from .bound import BoundRouter, Signatures
from .handler import Context
from .signature import Interaction, read_signature

if TYPE_CHECKING:
    from ..requester import Requester
    from ..tracing import Tracing

__all__ = ["RegisteredRoute", "Router"]

F = TypeVar("F", bound=Callable[..., Any])
OnSetup: TypeAlias = "Callable[[Setup, Requester], Awaitable[None]]"


@attrs.frozen
class RegisteredRoute:
    """One line of `Router.routes`.

    Attributes:
        interaction: What is answered.
        route: The route; ``None`` for requests without one.
        handler: The handler's name, with its module.
    """

    interaction: Interaction
    route: str | None
    handler: str


class Router(Responder):
    """Answers requests with functions, chosen by route.

    The decorators register a function for a route (the first routing tag of a request). Without a
    route they register the one for requests that carry no routing metadata. A route that nobody
    registered is answered with INVALID.

    Parameters are filled by annotation. `Payload`, `Metadata`, `CompositeMetadata`, `Requester`,
    `Setup`, `TransportInfo`, `Route` and ``ZipkinTracing | None`` receive what they say;
    ``Annotated[User, Principal]`` who is asking; `ReceiveChannel[T]` or `AsyncIterable[T]`
    what the requester of a channel sends, the first item included. At most one other parameter
    receives the request's data, converted to its annotation by `Codecs`; if it has a default, the
    default stands in for empty data. A `PayloadBody` instead gets the data in chunks, while they
    arrive. Data that cannot be converted are answered with INVALID. A
    class of the application's may itself raise `Invalid` with a text for the requester.

    Results are converted by the annotation of the result and the connection's data MIME type, or
    the first of the types the requester accepts that there is a codec for: then the response (of
    a stream, the first item) names it. ``bytes`` are always of the connection's own type, and
    a `Payload` goes as it is. A request_response handler that returns ``None`` completes without
    a value; an item of a stream that is ``None`` is sent as the MIME type writes it.

    One router serves any number of connections. Handlers registered later serve the connections
    that are accepted later.

    Args:
        codecs: What converts data.
        on_setup: Called with the setup and the requester of each new connection; raises
            `RejectedSetup` to refuse it.
        authenticate: Says who is asking: ``await authenticate(auth, facts)`` returns a principal
            or raises `Rejected`. It is asked with the authentication (or ``None``) in SETUP and
            the `Setup`; then with that of each request and `RequestFacts`, before its route is
            looked at. A request that carries none on a connection whose SETUP was given a
            principal has that one, and nobody is asked. So ``None`` as the principal of a SETUP
            means: ask again with each request. (Of a client's router the SETUP is its own.)
        tracing: Takes in the traces that requests carry, for `current_trace` and for the
            requests that handlers make to this peer.
    """

    # A router answers nothing itself: `accept` gives each connection a responder of its own. That
    # frees the names of the interactions for the decorators.

    def __init__(
        self,
        *,
        codecs: Codecs = DEFAULT_CODECS,
        on_setup: OnSetup | None = None,
        authenticate: Authenticate | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._codecs = codecs
        self._on_setup = on_setup
        self._guard = None if authenticate is None else Guard(authenticate)
        self._tracing = tracing
        self._handlers: Signatures = {interaction: {} for interaction in Interaction}

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """See `Responder.accept`. Calls ``authenticate``, then ``on_setup``.

        Checkpoint: as they do.
        If cancelled: nothing has happened.
        """
        guard = self._guard
        principal = None if guard is None else await guard.admit_setup(setup)
        if self._on_setup is not None:
            await self._on_setup(setup, requester)
        if self._tracing is not None:
            requester.tracing = self._tracing
        handlers = {interaction: dict(routes) for interaction, routes in self._handlers.items()}
        context = Context(self._codecs, setup, requester, guarded=guard is not None)
        return BoundRouter(
            handlers, context, guard=guard, principal=principal, tracing=self._tracing
        )

    def request_response(self, route: str | None = None) -> Callable[[F], F]:  # type: ignore[override]  # decorator, see above
        """Register an async function that returns one result.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for that route already, or the route is too long.
        """
        return self._register(Interaction.REQUEST_RESPONSE, route)

    def fire_and_forget(self, route: str | None = None) -> Callable[[F], F]:  # type: ignore[override]  # decorator, see above
        """Register an async function whose result, or failure, nobody hears of.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for that route already, or the route is too long.
        """
        return self._register(Interaction.FIRE_AND_FORGET, route)

    def request_stream(self, route: str | None = None) -> Callable[[F], F]:  # type: ignore[override]  # decorator, see above
        """Register an async generator, or an async function that returns an async iterable.

        It is iterated and closed in one task.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for that route already, or the route is too long.
        """
        return self._register(Interaction.REQUEST_STREAM, route)

    def request_subscription(self, route: str | None = None) -> Callable[[F], F]:
        """Register what `request_stream` registers, under the name for streams without an end.

        Clients that speak the ReactiveSocket draft ask for it with REQUEST_SUB, and there is no
        word in that for an end: a handler that returns ends it with an ERROR. All others ask for
        it as a request_stream, and it may end like one. Either request finds either handler.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for that route already, or the route is too long.
        """
        return self._register(Interaction.REQUEST_STREAM, route)

    def request_channel(self, route: str | None = None) -> Callable[[F], F]:  # type: ignore[override]  # decorator, see above
        """Register like `request_stream`; a parameter receives the requester's items.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for that route already, or the route is too long.
        """
        return self._register(Interaction.REQUEST_CHANNEL, route)

    def metadata_push(self) -> Callable[[F], F]:  # type: ignore[override]  # decorator, see above
        """Register the async function that takes metadata about the connection.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one already.
        """
        return self._register(Interaction.METADATA_PUSH, None)

    def include(self, other: Router, prefix: str = "") -> None:
        """Take over the handlers of another router, as they are registered now.

        Only those: its codecs, ``on_setup``, ``authenticate`` and ``tracing`` are not taken over.

        Args:
            other: The other router; it stays as it is.
            prefix: Put before its routes. Handlers without a route stay without.

        Raises:
            ValueError: There is a handler for one of the routes already, or a route gets too
                long. Then nothing was taken over.
        """
        added = [
            (interaction, route if route is None else prefix + route, signature)
            for interaction, routes in other._handlers.items()
            for route, signature in routes.items()
        ]
        for interaction, route, _ in added:
            self._check_free(interaction, route)
        for interaction, route, signature in added:
            self._handlers[interaction][route] = signature

    @property
    def routes(self) -> tuple[RegisteredRoute, ...]:
        """What is registered, by interaction and in the order of registration."""
        return tuple(
            [
                RegisteredRoute(interaction, route, signature.name)
                for interaction, routes in self._handlers.items()
                for route, signature in routes.items()
            ]
        )

    def _register(self, interaction: Interaction, route: str | None) -> Callable[[F], F]:
        if route is not None and not isinstance(route, str):
            raise TypeError(
                f"write @router.{interaction.value}() or @router.{interaction.value}"
                f"('route'), not {route!r}"
            )
        self._check_free(interaction, route)

        def register(function: F) -> F:
            signature = read_signature(function, interaction)
            self._check_free(interaction, route)
            self._handlers[interaction][route] = signature
            return function

        return register

    def _check_free(self, interaction: Interaction, route: str | None) -> None:
        taken = self._handlers[interaction].get(route)
        if taken is not None:
            which = "requests without a route" if route is None else f"route {route!r}"
            raise ValueError(f"{taken.name} is the {interaction.value} handler of {which} already")
        try:
            encode_route(route or "")
        except MetadataError as error:
            raise ValueError(str(error)) from None
