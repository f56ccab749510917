"""Handlers by route: `Router`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..codecs import DEFAULT_CODECS, Codecs
from ..config import DEFAULT_LIMITS, Limits
from ..errors import MetadataError
from ..metadata.routing import encode_route
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..responder import Responder, Setup
from .access import Authenticate
from .bound import BoundRouter
from .finder import Registrations
from .guards import Fence, Guard, Guards, OnResume, OnSetup, Registered
from .handler import Context
from .signature import check_conversions, read_signature

if TYPE_CHECKING:
    from ..requester import Requester
    from ..tracing import Tracing

__all__ = ["RegisteredRoute", "Router"]

F = TypeVar("F", bound=Callable[..., Any])


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
    class of the application's may itself raise `Invalid` with a text for the requester. What no
    data could ever be converted to, and no result from, is a `TypeError` at registration.

    Results are converted by the annotation of the result and the connection's data MIME type, or
    the first of the types the requester accepts that there is a codec for: then the response (of
    a stream, the first item) names it. ``bytes`` are always of the connection's own type, and
    a `Payload` goes as it is. A request_response handler that returns ``None`` completes without
    a value; an item of a stream that is ``None`` is sent as the MIME type writes it.

    One router serves any number of connections. Handlers registered later serve the connections
    that are accepted later.

    Args:
        codecs: What converts data.
        on_setup: Called with the setup (and its principal) and the requester of each new
            connection; raises `RejectedSetup` to refuse it.
        on_resume: Called with `ResumeFacts` when a client wants to go on with a session over
            another transport; raises `RejectedResume` to refuse. It is called in place of what
            holds without it: the transport must be of the same listener and the same client as
            that of the SETUP, as far as transports know (`ResumeFacts.differences`).
        authenticate: Says who is asking: ``await authenticate(auth, facts)`` returns a principal
            or raises `Rejected`. It is asked about each connection (``facts`` is the `Setup`),
            each request (`RequestFacts`) and each resumption of a session (`ResumeFacts`), before
            anything else is looked at. ``auth`` is the authentication in the metadata of that
            SETUP or request, ``None`` where there is none; a resumption has none ever.
            ``facts.principal`` is what was returned for the SETUP: return it again to let that
            hold. A resumption has to be given the same principal as the SETUP, if that has one.
            The SETUP of a client is its own and says nothing of the server's requests, so a
            client's router is asked about those only.
        tracing: Takes in the traces that requests carry, for `current_trace` and for the
            requests that handlers make to this peer.
        explain: Whether the peer of a connection learns which field of its data was refused, and
            which type was due: True, or a function of the connection's `Setup` (with its principal)
            that says so, for the connections that are trusted to know the names of the fields. The
            log has it in any case.
    """

    # A router answers nothing itself: `accept` gives each connection a responder of its own. That
    # frees the names of the interactions for the decorators.

    def __init__(
        self,
        *,
        codecs: Codecs = DEFAULT_CODECS,
        on_setup: OnSetup | None = None,
        on_resume: OnResume | None = None,
        authenticate: Authenticate | None = None,
        tracing: Tracing | None = None,
        explain: bool | Callable[[Setup], bool] = False,
    ) -> None:
        self._codecs = codecs
        self._guard = Guard(authenticate, on_setup, on_resume)
        self._tracing = tracing
        self._explain = explain
        self._handlers: Registrations = {interaction: {} for interaction in Interaction}
        self._fences: list[Fence] = []

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """See `Responder.accept`. Calls ``authenticate``, then ``on_setup``.

        Checkpoint: as they do.
        If cancelled: nothing has happened.
        """
        handlers = {interaction: dict(routes) for interaction, routes in self._handlers.items()}
        limits: Limits = getattr(requester, "limits", DEFAULT_LIMITS)  # a stand-in has none
        guards = await Guards.accept(self._guard, tuple(self._fences), setup, requester, limits)
        if self._tracing is not None:
            requester.tracing = self._tracing
        setup = guards.setup
        explains = self._explain(setup) if callable(self._explain) else self._explain
        context = Context(
            self._codecs, setup, requester, guarded=False, limits=limits, explains=explains
        )
        return BoundRouter(
            handlers, context, guards, tracing=self._tracing, accept_resume=self.accept_resume
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

        It is iterated and closed in one task. It also answers the REQUEST_SUB of clients that
        speak the ReactiveSocket draft, which has no word for an end: there a handler that returns
        ends it with an ERROR.

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

        Its guards come with them: ``authenticate``, ``on_setup`` and ``on_resume``. The guards of
        this router are asked first. Those of the other one are asked about the SETUP as well, and
        what they would refuse as a connection they refuse as requests: to its handlers, and to
        routes that begin with ``prefix`` and that nobody has registered. Its authenticator finds
        what that of this router said of a request in `RequestFacts.outer`, and the principal of
        its handlers is the one it returns itself.

        Not taken over are its codecs, its ``tracing`` and its ``explain``: those of this router
        serve.

        Args:
            other: The other router; it stays as it is.
            prefix: Put before its routes. Handlers without a route stay without.

        Raises:
            TypeError: Its class has an ``accept`` or ``accept_resume`` of its own, which would be
                left out; or the codecs of this router do not convert what a handler wants or
                gives.
            ValueError: There is a handler for one of the routes already, or a route gets too
                long. In all these cases nothing was taken over.
        """
        for method, option in (("accept", "on_setup"), ("accept_resume", "on_resume")):
            if getattr(getattr(other, method), "__func__", None) is not getattr(Router, method):
                raise TypeError(
                    f"{type(other).__name__}.{method} would be left out, and what it refuses let "
                    f"in: give the router {option}= instead, which comes along"
                )
        guards = (other._guard,) if other._guard.is_needed else ()
        added = [
            (
                interaction,
                route if route is None else prefix + route,
                Registered(registered.signature, guards + registered.guards),
            )
            for interaction, routes in other._handlers.items()
            for route, registered in routes.items()
        ]
        for interaction, route, registered in added:
            self._check_free(interaction, route)
            check_conversions(registered.signature, self._codecs)
        for interaction, route, registered in added:
            self._handlers[interaction][route] = registered
        fences = [fence.within(prefix, guards) for fence in other._fences]
        if guards:
            routeless = any(
                None in routes
                for interaction, routes in other._handlers.items()
                if interaction is not Interaction.METADATA_PUSH  # which has no routes at all
            )
            fences.append(Fence(prefix, guards, routeless))
        self._fences += fences

    @property
    def routes(self) -> tuple[RegisteredRoute, ...]:
        """What is registered, by interaction and in the order of registration."""
        return tuple(
            [
                RegisteredRoute(interaction, route, registered.signature.name)
                for interaction, routes in self._handlers.items()
                for route, registered in routes.items()
            ]
        )

    def _register(self, interaction: Interaction, route: str | None) -> Callable[[F], F]:
        if isinstance(route, Payload):
            raise TypeError(
                "a Router answers no requests itself: return it from an acceptor, or ask what its "
                "accept(setup, requester) returns, which answers those of one connection"
            )
        if route is not None and not isinstance(route, str):
            raise TypeError(
                f"write @router.{interaction.value}() or @router.{interaction.value}"
                f"('route'), not {route!r}"
            )
        self._check_free(interaction, route)

        def register(function: F) -> F:
            signature = read_signature(function, interaction)
            check_conversions(signature, self._codecs)
            self._check_free(interaction, route)
            self._handlers[interaction][route] = Registered(signature)
            return function

        return register

    def _check_free(self, interaction: Interaction, route: str | None) -> None:
        taken = self._handlers[interaction].get(route)
        if taken is not None:
            which = "requests without a route" if route is None else f"route {route!r}"
            name = taken.signature.name
            raise ValueError(f"{name} is the {interaction.value} handler of {which} already")
        try:
            encode_route(route or "")
        except MetadataError as error:
            raise ValueError(str(error)) from None
