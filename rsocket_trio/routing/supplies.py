"""What providers have made: for a served router, for a connection, and for a request.

`lifespan` opens what belongs to the application, `connection_block` what belongs to a connection.
What belongs to a request is made by `Supplying` objects; `rsocket_trio.routing.middleware.Blocks`
enters and leaves their blocks like middleware.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from ..codecs.registry import allows_none
from ..interactions.block import ungrouped
from ..metadata.builder import Metadata
from ..requester import Requester
from ..responder import Setup
from ..sockets.peer import Peer
from ..stopping import Stopping
from ..transports.base import TransportInfo
from .call import Call, RouterCall
from .marks import Principal, Provided, check_known
from .one_block import UNUSED, enter, leave, no_object
from .parameters import FACTS, Route, fact_of
from .plans import Node, Plan, Plans
from .providers import Form, Need, Provider, Span

if TYPE_CHECKING:
    from .guards import Guard, Guards
    from .handler import Context
    from .table import Table

__all__ = ["Supplies", "Supply", "Supplying", "lifespan"]

Values: TypeAlias = Mapping[object, Any]
"""What is open, by `Node.identity`."""

_Fill: TypeAlias = Callable[[RouterCall], Any]

_RUNS: Final[ContextVar[Mapping[Table, Values]]] = ContextVar("rsocket_trio_runs")
"""The routers that are served around this task, with what was opened for them."""


class Supplying:
    """How a provider makes an object for a request.

    Attributes:
        node: The provider.
        form: What the provider is.
        make: Calls it: the result is an object, a coroutine, or a block. It takes the call, if the
            provider takes anything.
        takes_any: The provider takes something.
    """

    __slots__ = ("form", "make", "node", "takes_any")

    def __init__(self, node: Node, fills: Mapping[str, _Fill]) -> None:
        self.node = node
        self.form = node.provider.form
        self.takes_any = bool(node.needs)
        self.make = _call_of(
            node.provider.source,
            [fills[need.name] for need, _ in node.needs if not need.by_keyword],
            {need.name: fills[need.name] for need, _ in node.needs if need.by_keyword},
        )


def _call_of(
    function: Callable[..., Any], fills: list[_Fill], keywords: dict[str, _Fill]
) -> Callable[..., Any]:
    if keywords:
        return lambda call: function(
            *[fill(call) for fill in fills],
            **{name: fill(call) for name, fill in keywords.items()},
        )
    if not fills:
        return function
    if len(fills) == 1:
        (only,) = fills
        return lambda call: function(only(call))
    return lambda call: function(*[fill(call) for fill in fills])


class Supply:
    """What one handler gets on one connection.

    Attributes:
        steps: What makes objects for its requests.
        start: What makes objects that are left when the function has returned its stream.
        has_blocks: Something has to be left when a stream is over.
    """

    __slots__ = ("_fills", "_nodes", "has_blocks", "start", "steps")

    def __init__(self, plan: Plan, fills: _Fills) -> None:
        self.steps = tuple([fills.step(node) for node in plan.call])
        self.start = tuple([fills.step(node) for node in plan.start])
        self.has_blocks = any(step.form is Form.BLOCK for step in self.steps)
        self._nodes = plan.parameters
        self._fills = fills

    def filler(self, parameter: str) -> Callable[[Any, Any, Any, Any], Any]:
        """Return the function for a `rsocket_trio.routing.handler.Handler` that fills it."""
        node = self._nodes[parameter]
        if node is None or node.span < Span.CALL:
            value = self._fills.value_of(node)
            return lambda _request, _payload, _arriving, _call: value
        return lambda _request, _payload, _arriving, call: call._made[node]  # noqa: SLF001


class _Fills:
    """Makes what fills parameters of providers and handlers, on one connection."""

    def __init__(self, context: Context, values: Values) -> None:
        self._context = context
        self._values = values

    def of_node(self, node: Node | None) -> _Fill:
        """Return what gives the object of a provider."""
        if node is not None and node.span >= Span.CALL:
            return lambda call: call._made[node]  # noqa: SLF001 - same package
        value = self.value_of(node)
        return lambda _: value

    def value_of(self, node: Node | None) -> Any:
        """Return the object of the application or of the connection; ``None`` for no provider."""
        return None if node is None else _value_of(node, self._values)

    def step(self, node: Node) -> Supplying:
        """Return the step for a provider."""
        return Supplying(
            node,
            {
                need.name: self.of_node(needed) if need.mark is Provided else self._fact(need)
                for need, needed in node.needs
            },
        )

    def _fact(self, need: Need) -> _Fill:
        if need.mark is Principal:
            if allows_none(need.annotation):
                return lambda call: call.principal
            return _known
        if need.annotation in _OF_CALL:
            return _OF_CALL[need.annotation]
        value = _fact_of(need, self._context.setup, self._context.requester)
        return lambda _: value


_OF_CALL: Final[dict[Any, _Fill]] = {
    Call: lambda call: call,
    Metadata: lambda call: call.metadata,
    Route: lambda call: call.route,
}


def _known(call: RouterCall) -> Any:
    check_known(call.principal)
    return call.principal


def _fact_of(need: Need, setup: Setup, requester: Requester) -> Any:
    """Return a fact about a connection.

    Raises:
        TypeError: There is none over this wire.
    """
    annotation = need.annotation
    if need.mark is Principal:
        if not allows_none(annotation):
            check_known(setup.principal)
        return setup.principal
    if annotation in FACTS:
        return fact_of(setup.transport, annotation, "a provider", need.name)
    return {
        Setup: setup,
        Requester: requester,
        TransportInfo: setup.transport,
        Stopping: setup.stopping,
        Peer: setup.peer,
    }[annotation]


def _value_of(node: Node, values: Values) -> Any:
    """Return an object of the application or of a connection.

    Raises:
        RuntimeError: It has not been opened.
    """
    if node.provider.form is Form.VALUE:
        return node.provider.source
    try:
        return values[node.identity]
    except KeyError:
        raise RuntimeError(
            f"{node.provider.name} (scope {node.provider.scope!r}) has not been called: that "
            "happens when its router is given to `serve`, `connect` or a helper for tests, and not "
            "when an acceptor function returns it, nor for what is provided, included or "
            "overridden later. Include it in the router before that is served; or "
            "call `router.accept` within `async with router.lifespan()`, and requests within the "
            "block of `connection_block()` of its result"
        ) from None


class Supplies:
    """What the handlers of a router get on one connection.

    Args:
        plans: What they need.
        values: What is open for the application.
    """

    def __init__(self, plans: Plans, values: Values) -> None:
        self._plans = plans
        self._values = {**values} if plans.connection else values

    @classmethod
    def now(cls, table: Table) -> Supplies:
        """Return what the handlers of a router get that is served around this task.

        Raises:
            TypeError: Something that a handler needs cannot be provided.
            RuntimeError: The router has a lifespan, and is not served itself.
        """
        plans, values = table.plans(), _RUNS.get({}).get(table, {})
        for node in plans.application:
            if node.provider.is_always:
                _value_of(node, values)
        return cls(plans, values)

    def guard(self, guard: Guard) -> Guard:
        """Return a guard whose hooks get what is provided for them.

        Raises:
            RuntimeError: The router is not served itself.
        """
        given = {
            option: partial(
                getattr(guard, option),
                **{
                    name: None if node is None else _value_of(node, self._values)
                    for name, node in nodes.items()
                },
            )
            for option, nodes in self._plans.hooks.get(guard, {}).items()
        }
        return attrs.evolve(guard, **given) if given else guard

    def connection_block(
        self, guards: Guards, requester: Requester
    ) -> AbstractAsyncContextManager[None] | None:
        """Return the block in which the objects of the connection are open; ``None`` is none.

        What belongs to an included router whose guard has refused the connection is left out.
        """
        setups = {
            node: guards.setup_for([each.guard for each in node.chain])
            for node in self._plans.connection
        }
        nodes = {node: setup for node, setup in setups.items() if setup is not None}
        return self._connected(nodes, requester) if nodes else None

    @asynccontextmanager
    async def _connected(
        self, nodes: Mapping[Node, Setup], requester: Requester
    ) -> AsyncIterator[None]:
        values = cast("dict[object, Any]", self._values)  # of this connection only
        facts = {
            node: partial(_fact_of, setup=setup, requester=requester)
            for node, setup in nodes.items()
        }
        async with _opened(facts, values):
            yield

    def of(self, registered: object, context: Context) -> Supply | None:
        """Return what a handler gets; ``None`` if it needs nothing."""
        plan = self._plans.handlers.get(id(registered))
        return None if plan is None else Supply(plan, _Fills(context, self._values))


def lifespan(table: Table) -> AbstractAsyncContextManager[None]:
    """Return a block in which the objects of the application are open.

    Raises:
        TypeError: Something that a handler needs cannot be provided.
    """
    plans = table.plans()
    return _running(table, plans) if plans.application else nullcontext()


@asynccontextmanager
async def _running(table: Table, plans: Plans) -> AsyncIterator[None]:
    before = _RUNS.get({})
    values: dict[object, Any] = {}
    own: list[BaseException] = []
    with ungrouped(own):
        async with _opened(dict.fromkeys(plans.application, _no_fact), values):
            _RUNS.set({**before, table: values})
            try:
                yield
            except BaseException as error:  # of what is served; it is raised again
                own.append(error)
                raise
            finally:
                _RUNS.set(before)


def _no_fact(need: Need) -> Any:
    raise AssertionError(need)


class _Entered(AbstractAsyncContextManager[Any]):
    """The block of a provider, for ``async with``."""

    def __init__(self, manager: Any, provider: Provider) -> None:
        self._manager = manager
        self._provider = provider

    async def __aenter__(self) -> Any:
        return await enter(self._manager, lambda: self._provider.name)

    async def __aexit__(self, _kind: object, error: BaseException | None, _where: object) -> bool:
        return await leave(self._manager, error, lambda: self._provider.name)


@asynccontextmanager
async def _opened(
    nodes: Mapping[Node, Callable[[Need], Any]], values: dict[object, Any]
) -> AsyncIterator[None]:
    """Call providers, keep their objects in ``values``, and leave their blocks.

    Args:
        nodes: The providers, each behind those that it needs; and what gives the facts that it
            needs.
        values: What is open already.

    Raises:
        RuntimeError: A block has absorbed that another one could not be opened.
    """
    failure: BaseException | None = None
    try:
        async with AsyncExitStack() as stack:
            try:
                for node, fact in nodes.items():
                    values[node.identity] = await _made(node, values, fact, stack)
            except BaseException as error:  # raised again; a block around it may absorb it
                failure = error
                raise
            yield
        if failure is not None:
            raise RuntimeError(
                "a block ended before all was open: it absorbed an error of what it is around, or "
                "a deadline of it has passed"
            ) from failure
    finally:
        failure = None  # its traceback has this frame


async def _made(
    node: Node,
    values: Mapping[object, Any],
    fact: Callable[[Need], Any],
    stack: AsyncExitStack,
) -> Any:
    """Call a provider, and return its object."""
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    for need, needed in node.needs:
        value = _value_of(needed, values) if needed is not None else None
        if need.mark is not Provided:
            value = fact(need)
        if need.by_keyword:
            keywords[need.name] = value
        else:
            arguments.append(value)
    provider = node.provider
    made = provider.source(*arguments, **keywords)
    if provider.form is Form.BLOCK:
        return await stack.enter_async_context(_Entered(made, provider))
    if provider.form is Form.AWAITED:
        return await made
    if type(made) in UNUSED:
        no_object(made, provider.name)
    return made
