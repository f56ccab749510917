"""Handlers by route: `Router`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

import attrs
import trio

from ..codecs import Codecs
from ..codecs.annotations import annotation_name
from ..config import DEFAULT_LIMITS, Limits
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..responder import Responder, Setup
from ..tracing import Tracing
from .access import Authenticate
from .access_log import AccessLog
from .bound import BoundRouter
from .call import Call
from .call_meter import CallMeter, metered
from .client_module import client_module
from .declarations import implemented
from .descriptions import Introspection, RouteDescription, described
from .error_map import ErrorMap, translating
from .guards import Guard, Guards, OnResume, OnSetup
from .handler import Context
from .hooks import check_hook
from .kinds import Delivery, Kind
from .layers import Layer
from .marks import Provided, check_known, marked
from .middleware import Middleware, check_middleware
from .parameters import EMPTY
from .providers import Providers, Source, read_block, read_provider
from .registered import Registered, Settings
from .signature import check_taken, read_signature
from .supplies import Supplies, lifespan
from .table import Table
from .templates import Template, check_prefix

if TYPE_CHECKING:
    from ..requester import Requester
    from ..statistics import RouteStatistics

__all__ = ["Router", "check_own_accept"]

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


class Router(Responder):
    """Answers requests with functions, chosen by route.

    The decorators register a function for a route (the first routing tag of a request). Without a
    route they register the handler of requests that have no routing metadata. A route without a
    handler is answered with INVALID.

    A route may have variables, such as ``"chat.{room}"`` or ``"files.{path...}"``: the parameters
    of these names receive them, converted. See "Routes" in the how-to on handlers.

    Other parameters are filled by annotation. `Payload`, `Metadata`, `CompositeMetadata`,
    `Requester`, `Setup`, `Peer`, `TransportInfo`, `Route`, `Stopping` and ``ZipkinTrace | None``
    receive these objects.
    ``Annotated[User, Principal]`` receives the principal. `ReceiveChannel[T]`, `AsyncIterable[T]`
    or ``Publisher[T]`` (`rsocket_trio.reactive_streams`) receives the items that the requester of
    a channel sends, the first included. At most one other parameter receives the data, converted
    to its annotation by `Codecs`; if it has a default, the default is used for empty data. A
    `PayloadBody` gets the data in chunks instead, while they arrive. Data that cannot be converted
    are answered with INVALID. A class of the application may raise `Invalid` with a text for the
    requester. A type that data can never be converted to or from is a `TypeError` at registration.

    Results are converted by the annotation of the result, which is checked. Their MIME type is
    the data MIME type of the connection, or the first type that the requester accepts and that
    there is a codec for: then the response (of a stream, the first item) names it. ``bytes`` are
    always of the connection's type, and a `Payload` goes as it is. A request_response handler that
    returns ``None`` completes without a value; an item ``None`` of a stream is sent as the MIME
    type writes it.

    One router serves any number of connections. Handlers registered later serve the connections
    that are accepted later.

    Args:
        codecs: The codecs. The default are those of the router that includes this one, and
            `DEFAULT_CODECS` for a router that is not included.
        on_setup: Called with the setup (and its principal) and the requester of each new
            connection; raises `RejectedSetup` to refuse it.
        on_resume: Called with `ResumeFacts` when a client wants to go on with a session over
            another transport; raises `RejectedResume` to refuse. It replaces the default rule:
            the transport must be of the same listener and the same client as that of the SETUP,
            as far as transports know (`ResumeFacts.differences`).
        authenticate: ``await authenticate(auth, facts)`` returns a principal, or `Admitted` with
            the time when it runs out, or raises `Rejected`. It is called for each connection
            (``facts`` is the `Setup`), each request (`RequestFacts`) and each resumption of a
            session (`ResumeFacts`), before all else.
            ``auth`` is the authentication in the metadata of the SETUP or the request, or
            ``None``; a resumption never has one. ``facts.principal`` is what was returned for the
            SETUP: return it to give the request the same principal. A resumption must get the
            same principal as the SETUP, if the SETUP has one. A client's own SETUP says nothing
            about the server, so the router of a client is asked about requests only.
            This function and the two above get objects with the scope ``"application"`` by further
            parameters that are marked as `Provided`.
        tracing: Takes in the traces of requests, for `current_trace` and for the requests that
            handlers make to this peer.
        explain: Whether the peer learns which field of its data was refused, and which type was
            expected: True, or a function of the connection's `Setup` (with its principal) that
            returns a bool, for connections that may know the names of the fields. The log always
            has them.
        middleware: Blocks around each request, the outermost first: async generator functions that
            yield once, or functions that return async context managers. They get the `Call`. All
            of it is around ``authenticate``. Requests without a handler pass the middleware of the
            router that is served, and of the included ones whose prefix their routes begin with.
        errors: For classes of exceptions, the `StreamError` that the requester gets, or a function
            that makes it from the exception. It is asked inside of ``middleware``; the map of the
            nearest router counts, and in it the nearest base class.
        lifespan: A block around the whole time in which this router, or one that includes it, is
            served: an async generator function that yields once, or a function with
            ``@asynccontextmanager``, without parameters or with one for this router. It is entered
            before the server listens, and left when the last connection is over. An error before
            its ``yield``, or of a task of its nursery, ends the server and comes out of it. What it
            yields fills the parameters marked as `Provided` of the type in its annotation.
        prefix: Put before the routes of all handlers of this router. Its variables are taken by
            the handlers with a parameter of that name: ``Router(prefix="chat.{room}.")``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix cannot begin a route.
    """

    # `accept` returns a responder of its own for each connection. So the names of the interactions
    # are free for the decorators.

    def __init__(
        self,
        *,
        codecs: Codecs | None = None,
        on_setup: OnSetup | None = None,
        on_resume: OnResume | None = None,
        authenticate: Authenticate | None = None,
        tracing: Tracing | None = None,
        explain: bool | Callable[[Setup], bool] | None = None,
        middleware: Iterable[Middleware] = (),
        errors: ErrorMap | None = None,
        lifespan: Callable[..., object] | None = None,
        prefix: str = "",
    ) -> None:
        check_hook("authenticate", authenticate)
        check_hook("on_setup", on_setup)
        check_hook("on_resume", on_resume)
        if explain is not None and not isinstance(explain, bool):
            check_hook("explain", explain, is_async=False)
        for option, value, kind in (("codecs", codecs, Codecs), ("tracing", tracing, Tracing)):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{option}= takes a {kind.__name__}, not {type(value).__name__}")
        blocks = check_middleware(middleware)
        if errors is not None:
            blocks += (translating(errors),)
        guard = Guard(authenticate, on_setup, on_resume)
        check_prefix(prefix)
        providers = Providers(guard)
        if lifespan is not None:
            providers.add(read_block(_given(lifespan, self), "application", "lifespan="))
        settings = Settings(codecs, explain, tracing, (providers,))
        self._table = Table(settings, Layer(guard, blocks), prefix)

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """See `Responder.accept`. Calls ``authenticate``, then ``on_setup``.

        Checkpoint: as these functions do.
        If cancelled: nothing has happened.
        """
        table = self._table
        handlers = table.snapshot()
        supplies = Supplies.now(table)
        tracing = next(table.tracings(), None)
        limits: Limits = getattr(requester, "limits", DEFAULT_LIMITS)  # a stand-in has none
        fences = tuple(table.fences())
        try:
            guards = await Guards.accept(
                table.layer, fences, setup, requester, supplies.guard, limits
            )
        except Exception as error:
            for each in table.layer.middleware:
                if isinstance(each, AccessLog):
                    each.connection_refused(setup.transport, error)
            raise
        if tracing is not None:
            requester.tracing = tracing
        context = Context(table.settings, guards.setup, requester, guarded=False, limits=limits)
        return BoundRouter(
            handlers,
            context,
            guards,
            supplies,
            traced=tracing is not None,
            accept_resume=self.accept_resume,
        )

    def request_response(  # type: ignore[override]  # decorator, see above
        self,
        route: str | None = None,
        *,
        middleware: Iterable[Middleware] = (),
        thread: bool | trio.CapacityLimiter = False,
    ) -> Callable[[F], F]:
        """Register an async function that returns one result.

        Args:
            route: The first routing tag of its requests; ``None``: they have no route.
            middleware: Blocks around this handler, inside of those of its router and of the guard;
                see `Router`.
            thread: The function is not async, and runs in a worker thread: True (trio's limiter
                bounds the threads), or a `trio.CapacityLimiter` for it. A request that is
                cancelled waits for its end; the function finds out by
                `trio.from_thread.check_cancelled`.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for such requests already; or it cannot be a route.
        """
        return self._register(Interaction.REQUEST_RESPONSE, route, middleware, thread)

    def fire_and_forget(  # type: ignore[override]  # decorator, see above
        self,
        route: str | None = None,
        *,
        middleware: Iterable[Middleware] = (),
        thread: bool | trio.CapacityLimiter = False,
    ) -> Callable[[F], F]:
        """Register an async function whose result or failure is not sent.

        Args:
            route: As for `request_response`.
            middleware: As for `request_response`.
            thread: As for `request_response`.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for such requests already; or it cannot be a route.
        """
        return self._register(Interaction.FIRE_AND_FORGET, route, middleware, thread)

    def request_stream(  # type: ignore[override]  # decorator, see above
        self, route: str | None = None, *, middleware: Iterable[Middleware] = ()
    ) -> Callable[[F], F]:
        """Register an async generator, or an async function that returns an async iterable.

        It is iterated and closed in one task. It also answers the REQUEST_SUB of clients that
        speak the ReactiveSocket draft. A subscription of the draft has no end, so a handler that
        returns ends it with an ERROR.

        Args:
            route: As for `request_response`.
            middleware: As for `request_response`.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for such requests already; or it cannot be a route.
        """
        return self._register(Interaction.REQUEST_STREAM, route, middleware)

    def request_channel(  # type: ignore[override]  # decorator, see above
        self, route: str | None = None, *, middleware: Iterable[Middleware] = ()
    ) -> Callable[[F], F]:
        """Register like `request_stream`; a parameter receives the requester's items.

        Args:
            route: As for `request_response`.
            middleware: As for `request_response`.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one for such requests already; or it cannot be a route.
        """
        return self._register(Interaction.REQUEST_CHANNEL, route, middleware)

    def metadata_push(  # type: ignore[override]  # decorator, see above
        self,
        *,
        middleware: Iterable[Middleware] = (),
        thread: bool | trio.CapacityLimiter = False,
    ) -> Callable[[F], F]:
        """Register the async function that takes metadata about the connection.

        Args:
            middleware: As for `request_response`.
            thread: As for `request_response`.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one already.
        """
        return self._register(Interaction.METADATA_PUSH, None, middleware, thread)

    @overload
    def events(
        self,
        /,
        *,
        middleware: Iterable[Middleware] = (),
        thread: bool | trio.CapacityLimiter = False,
    ) -> Callable[[F], F]: ...

    @overload
    def events(self, function: F, /) -> F: ...

    def events(
        self,
        function: Any = None,
        /,
        *,
        middleware: Iterable[Middleware] = (),
        thread: bool | trio.CapacityLimiter = False,
    ) -> Any:
        """Register the async function that takes batches of events, with or without parentheses.

        `rsocket_trio.lumberjack.serve` calls it for the router that it serves. When it returns, the
        events of the batch are acknowledged. Events come without a route, so a router has one such
        handler, those of the included routers counted. Parameters are filled by annotation:

        * ``list[T]`` (or ``Sequence[T]``, ``Iterable[T]``) receives the events of the batch, each
          converted from JSON to ``T`` by the codecs of the router. ``bytes`` are the events as they
          came.
        * `rsocket_trio.lumberjack.Batch` receives the batch, to acknowledge a part of it.
        * `TransportInfo` receives facts about the connection, ``Annotated[User, Principal]`` the
          principal.

        ``middleware`` and ``thread`` are as for `request_response`.

        Raises:
            TypeError: The function cannot be such a handler.
            ValueError: There is one already.
        """
        if function is None:
            return self._register(Delivery.EVENTS, None, middleware, thread)
        if not callable(function):
            raise TypeError(f"write @router.events(): events come without a route {function!r}")
        return self._register(Delivery.EVENTS, None, middleware, thread)(function)

    def add(
        self, served: object, *, as_: type | None = None, middleware: Iterable[Middleware] = ()
    ) -> None:
        """Serve what is marked: the methods of an object, or one function.

        `rsocket_trio.request_response`, `rsocket_trio.request_stream` and their siblings mark. A
        caller of the same class or function is `Caller.of` or `Caller.call`.

        Args:
            served: The object or the function.
            as_: The class that declares the methods, such as a `typing.Protocol`; by default that
                of the object. The object may have more methods, and its methods may have more
                parameters, which the server fills.
            middleware: Blocks around each of the handlers, as for `request_response`.

        Raises:
            TypeError: Nothing is marked; or a method is missing, does not fit its declaration, or
                cannot be such a handler.
            ValueError: There is a handler for one of the routes already. In all these cases
                nothing is added.
        """
        layer = Layer(middleware=check_middleware(middleware))
        self._table.add(
            *[
                attrs.evolve(
                    self._registered(function, declared.interaction, declared.route, layer),
                    declared=declared,
                )
                for declared, function in implemented(served, as_)
            ]
        )

    def include(
        self, other: Router, prefix: str = "", *, middleware: Iterable[Middleware] = ()
    ) -> None:
        """Serve the handlers of another router, too: those it has now, and those it gets later.

        Its guards come with them: ``authenticate``, ``on_setup`` and ``on_resume``. The guards of
        this router are asked first. Those of the other one are asked about the SETUP as well. If
        they refuse the SETUP, they refuse requests in its place: requests to its handlers, and to
        routes that begin with ``prefix`` and are not registered. Its authenticator finds in
        `RequestFacts.outer_principal` what the authenticator of this router has returned for a
        request. The principal of its handlers is the one that its own authenticator returns.

        Its settings come with them, too: ``codecs``, ``explain`` and ``tracing``. If it has none
        of its own, the setting of this router holds.

        Args:
            other: The other router; it stays as it is.
            prefix: Put before its routes. Handlers without a route stay without. It may have
                variables, which handlers take that have a parameter of that name.
            middleware: Put around the middleware and the guard of the other router.

        Raises:
            TypeError: It is no router; or a parameter has the name of a variable of the prefix and
                cannot take it; or its class has an ``accept`` or ``accept_resume`` of its
                own, which would not be called; or the codecs of this router do not convert what a
                handler takes or returns, and the other router has no codecs of its own.
            ValueError: There is a handler for the requests of one of the routes already; or the
                prefix cannot begin a route; or a route gets too long; or a router would include
                itself, or another one twice with one prefix; or more than 64 routers would include
                each other in a row. In all these cases nothing is included.
        """
        if not isinstance(other, Router):
            raise TypeError(f"include takes a Router, not {type(other).__name__}")
        check_prefix(prefix)
        check_own_accept(other, ("accept", "accept_resume"))
        layer = Layer(middleware=check_middleware(middleware))
        self._table.include(other._table, prefix, layer)

    def describe(self) -> tuple[RouteDescription, ...]:
        """Describe the handlers, by interaction and in the order of registration."""
        table = self._table
        handlers = [each for routes in table.handlers.values() for each in routes.values()]
        return tuple([described(each, table.layer) for each in handlers])

    def client_module(self, name: str = "Client") -> str:
        """Return the text of a Python module for clients that do not have this code.

        It declares the handlers that have routes as a `typing.Protocol` for `Caller.of`, and the
        classes that they take and return as dataclasses, typed dicts, named tuples and enums.
        Bounds, validators and converters stay here, and what `Codecs` has options for has to be
        given to the client's codecs too. Types without fields, such as models, are `typing.Any`.

        Args:
            name: The name of the class.
        """
        handlers = self._table.handlers
        return client_module(
            (each for kind in Interaction for each in handlers[kind].values()), name
        )

    def introspection(
        self,
        *,
        authenticate: Authenticate,
        routes: Callable[[RouteDescription, object], bool] | None = None,
    ) -> Router:
        """Return a router that answers what `describe` does, to be included under a prefix.

        ``router.include(router.introspection(authenticate=admins), "introspection.")``. Strangers
        do not learn which routes there are; so it is there only where it is included, and answers
        only requests with a principal. `Introspection` is its declaration, and ``rsocket-trio
        routes`` a client.

        Args:
            authenticate: See `Router`. It returns a principal for those who may know routes of this
                router. Guards of handlers are not asked.
            routes: Says whether a route is told to a principal: it gets both. By default all are,
                also those of included routers that would refuse a request of this principal.

        Raises:
            TypeError: One of them is no function.
        """
        if authenticate is None:
            raise TypeError("introspection needs authenticate=: it tells all routes")
        check_hook("routes", routes, is_async=False)
        router = Router(authenticate=authenticate)
        described_here = self.describe

        class Described:
            async def describe(self, call: Call) -> AsyncIterator[RouteDescription]:
                check_known(call.principal)
                for each in described_here():
                    if routes is None or routes(each, call.principal):
                        yield each

        router.add(Described(), as_=Introspection)
        return router

    @property
    def is_guarded(self) -> bool:
        """Whether a function of this router may refuse clients; those of included ones apart."""
        return self._table.layer.guard.is_needed

    def provide(
        self,
        kind: Callable[..., T],
        source: Source[T],
        *,
        scope: Literal["application", "connection", "request"] | None = None,
        held: Literal["call", "start"] | None = None,
    ) -> None:
        """Say where parameters of a type come from that are marked as `Provided`.

        ``router.provide(Database, open_database, scope="application")`` fills the parameter
        ``db: Annotated[Database, Provided]`` of handlers, and of other providers. Those of this
        router and of the routers that it includes get it, unless one of these has a provider of its
        own for the type: the nearest one counts.

        A function is called in the task of the handler, once for each object that it makes, however
        many need it. Its own parameters are filled in the same way: with what is marked as
        `Provided`, with the principal (``Annotated[T, Principal]``), and by their types `Call`,
        `Metadata`, `Route`, `Setup`, `Requester`, `TransportInfo`, `Stopping` and `Peer`. Other
        parameters need a default. Functions are called in the order of the parameters of the
        handler, inside of all middleware and guards, when the request has arrived; blocks are left
        in the reverse order, with the error of the call, if there is one.

        Whether all that handlers need is there, and fits, is checked when the router is served.

        Args:
            kind: The type: a class, or another type that can be a key of a dict.
            source: An object; or a function that returns one, and may be async; or an async
                generator function that yields it once (also one with ``@asynccontextmanager``), and
                goes on when the object is no longer used.
            scope: How long an object is used: ``"application"`` (while the router is served),
                ``"connection"``, or ``"request"``, which is the default for functions. What is used
                longer cannot need what is used for a shorter time.
            held: How long a stream or a channel holds what a block gives for a request: ``"call"``,
                to its end, or ``"start"``, until the async function of the handler has returned
                the stream. There is no default, because each open stream keeps an object to its
                end with the first, and cannot use it with the second.

        Raises:
            TypeError: The source can never be used. The text says what to change.
            ValueError: This router has a provider for the type; or ``scope`` or ``held`` are
                unknown.
        """
        self._table.providers.add(read_provider(kind, source, scope, held))
        self._table.plan_anew()

    def connection(self, function: F) -> F:
        """Register a block around each connection, as a decorator.

        It is an async generator function that yields once, or one with ``@asynccontextmanager``. It
        is entered when all guards have accepted the connection, before its first request and within
        `ConnectionConfig.setup_timeout`, and left when its last handler has ended. Its parameters
        are filled as those of a provider with the scope ``"connection"``; it may send requests to
        the peer behind its ``yield`` and from tasks of its nursery, not before. What it yields
        fills the parameters marked as `Provided` of the type in its annotation. With resumption it
        belongs to the session, which outlives lost connections. An included router brings its own.

        `RejectedSetup` before the ``yield`` refuses the connection. An error after it, also of a
        task of its nursery, ends this connection and no other, and is logged.

        Raises:
            TypeError: The function is no such block. The text says what to change.
            ValueError: This router has a provider for the type.
        """
        self._table.providers.add(read_block(function, "connection", "@router.connection"))
        self._table.plan_anew()
        return function

    @contextmanager
    def override(self, kind: Callable[..., T], source: object) -> Iterator[None]:
        """Put something in the place of what is provided, for tests.

        In the block the router is served with it, and so are those that it includes. It is used for
        as long as what it stands for; connections that are open already keep what they have. ::

            with router.override(Database, FakeDatabase()):
                async with connected_pair(router) as requester:
                    ...

        Args:
            kind: The type, as for `provide`.
            source: As for `provide`; an object may be of any class.

        Raises:
            LookupError: No handler of this router needs the type, and nothing provides it.
            TypeError: As `provide`.
        """
        table = self._table
        if not table.knows(kind):
            raise LookupError(
                f"neither this router nor one that it includes needs or provides "
                f"{annotation_name(kind)}, so there is nothing to override"
            )
        provider = read_provider(kind, source, is_any=True)
        overrides = table.providers.overrides.setdefault(kind, [])
        overrides.append(provider)
        table.plan_anew()
        try:
            yield
        finally:
            overrides.remove(provider)
            table.plan_anew()

    def _surround(self, middleware: Middleware) -> None:
        """Put middleware around all that this router has, before it is served."""
        table = self._table
        around = (*check_middleware([middleware]), *table.layer.middleware)
        table.layer = attrs.evolve(table.layer, middleware=around)

    def _metered(self) -> list[CallMeter]:
        """Return the meters in the middleware; before this is served, see that there is one."""
        if not self._meters():
            self._surround(CallMeter())
        return self._meters()

    def _meters(self) -> list[CallMeter]:
        return [each for each in self._table.layer.middleware if isinstance(each, CallMeter)]

    def call_statistics(self) -> tuple[RouteStatistics, ...]:
        """See `Responder.call_statistics`: those of the `CallMeter` in ``middleware``."""
        return metered(self._table.layer.middleware)

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """See `Responder.lifespan`: opens what is provided with the scope ``"application"``.

        Raises:
            TypeError: Something that a handler needs cannot be provided. The text says what.
        """
        return lifespan(self._table)

    def _register(
        self,
        interaction: Kind,
        route: str | None,
        middleware: Iterable[Middleware],
        thread: bool | trio.CapacityLimiter = False,
    ) -> Callable[[F], F]:
        if isinstance(route, Payload):
            raise TypeError(
                "a Router is given to serve or returned by an acceptor. To call a handler without "
                "a connection, use the responder that `await router.accept(setup, requester)` "
                "returns"
            )
        if route is not None and not isinstance(route, str):
            raise TypeError(
                f"write @router.{interaction.value}() or @router.{interaction.value}"
                f"('route'), not {route!r}"
            )
        table = self._table
        template = None if route is None else Template.parse(table.prefix + route)
        table.check_free(interaction, None if template is None else template.key)
        layer = Layer(middleware=check_middleware(middleware))

        def register(function: F) -> F:
            table.add(self._registered(function, interaction, route, layer, thread))
            return function

        return register

    def _registered(
        self,
        function: Callable[..., Any],
        interaction: Kind,
        route: str | None,
        layer: Layer,
        thread: bool | trio.CapacityLimiter = False,
    ) -> Registered:
        table = self._table
        template = None if route is None else Template.parse(table.prefix + route)
        signature = read_signature(function, interaction, thread, template)
        if route is not None:
            check_taken(signature, Template.parse(route).names if "{" in route else ())
        return Registered(signature, table.settings, (layer,) * layer.is_needed)


def _given(lifespan: Any, router: Router) -> Any:
    """Return a lifespan that gets its router, if it has a parameter for it."""
    try:
        parameters = list(inspect.signature(lifespan).parameters.values())
    except (TypeError, ValueError):  # reported where it is read
        return lifespan
    needed = [each for each in parameters if each.default is EMPTY]
    if len(needed) != 1 or marked(needed[0].annotation, Provided) is not None:
        return lifespan
    return partial(lifespan, router)


_HOOKS: Final = {"accept": "on_setup", "accept_resume": "on_resume"}


def check_own_accept(router: Router, methods: tuple[str, ...]) -> None:
    """Refuse a router whose class has a method of its own that would not be called.

    Raises:
        TypeError: It has one.
    """
    for method in methods:
        if getattr(getattr(router, method), "__func__", None) is not getattr(Router, method):
            raise TypeError(
                f"{type(router).__name__}.{method} would not be called, so nothing would be "
                f"refused that it refuses: give the router {_HOOKS[method]}= instead"
            )
