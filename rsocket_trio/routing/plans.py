"""Which providers the handlers of a router need, and in which order: `plans_of`.

It is found out once, when a router is served, and never for a request. A provider gets what it
needs from its own router or from those around that one; so a router that is included in two others
may have two objects of one provider, each with other needs. Mistakes are found here: a type that
nobody provides, providers that need each other, and objects that would be used longer than what
they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from ..codecs.annotations import NONE, annotation_name
from ..codecs.registry import allows_none
from .marks import Principal, Provided
from .parameters import name_of
from .providers import SPANS, Form, Need, Provider, Providers, Span, hook_needs

if TYPE_CHECKING:
    from .guards import Guard
    from .registered import Registered

__all__ = ["Chain", "Node", "Plan", "Plans", "plans_of"]

_HOOKS: Final = {"authenticate": 2, "on_setup": 2, "on_resume": 1}
"""The functions of a guard, and how many arguments each is called with."""

Chain: TypeAlias = tuple[Providers, ...]
"""The providers of a router and of those around it, up to the one that is served."""


@attrs.frozen(eq=False)
class Node:
    """A provider in its place: one object in its scope comes from it.

    Attributes:
        provider: The provider.
        chain: Where it gets what it needs.
        needs: Its parameters, each with the node that fills it; ``None`` for another source, and
            for a type that may be ``None`` and is not provided.
        span: How long its object is used.
    """

    provider: Provider
    chain: Chain
    needs: tuple[tuple[Need, Node | None], ...]
    span: Span

    @property
    def identity(self) -> object:
        """What is equal for one node of two plans."""
        return self.provider if self.provider.is_always else (self.provider, self.chain)


@attrs.frozen(eq=False)
class Plan:
    """What one handler needs.

    Attributes:
        parameters: The node for each parameter that is marked as `Provided`; ``None`` if the type
            may be ``None`` and is not provided.
        call: What is made for each request, in order.
        start: What is made after these, and left when the function has returned its stream.
    """

    parameters: Mapping[str, Node | None]
    call: tuple[Node, ...]
    start: tuple[Node, ...]


@attrs.frozen(eq=False)
class Plans:
    """What all handlers of a router need.

    Attributes:
        handlers: The plans of the handlers that need something, by the ids of the handlers.
        application: What is opened while the router is served, in order.
        connection: What is opened for each connection, in order.
        hooks: What the hooks of guards get, by the names of options and of parameters.
    """

    handlers: Mapping[int, Plan]
    application: tuple[Node, ...]
    connection: tuple[Node, ...]
    hooks: Mapping[Guard, Mapping[str, Mapping[str, Node | None]]]


def plans_of(handlers: Iterable[Registered], chains: Iterable[Chain]) -> Plans:
    """Find out what handlers need.

    Args:
        handlers: The handlers of the router that is served.
        chains: For that router and for each that it includes, its providers and those around it;
            the outermost first.

    Raises:
        TypeError: Something is not provided, or cannot be. The text says what to change.
    """
    solver = _Solver()
    for chain in chains:
        for provider in chain[0].always:
            if not _overridden(provider.key, chain):
                solver.place(provider, chain)
        solver.ask(chain)
    plans: dict[int, Plan] = {}
    for registered in handlers:
        parameters = registered.signature.provided
        if parameters:
            plans[id(registered)] = solver.plan(registered)
    every = solver.nodes.values()
    return Plans(
        plans,
        tuple([node for node in every if node.span is Span.APPLICATION and _is_opened(node)]),
        tuple([node for node in every if node.span is Span.CONNECTION]),
        solver.hooks,
    )


def _is_opened(node: Node) -> bool:
    return node.provider.form is not Form.VALUE


class _Solver:
    """Finds the nodes of one router.

    Attributes:
        nodes: The nodes so far, each behind those that it needs.
        hooks: What the hooks of guards get.
    """

    def __init__(self) -> None:
        self.nodes: dict[object, Node] = {}
        self.hooks: dict[Guard, dict[str, dict[str, Node | None]]] = {}
        self._open: dict[object, Provider] = {}
        self._twins: dict[tuple[Provider, Provider], Provider] = {}

    def plan(self, registered: Registered) -> Plan:
        """Return what a handler needs.

        Raises:
            TypeError: As `plans_of`.
        """
        signature = registered.signature
        what = f"the handler {signature.name}"
        parameters = {
            each.name: self._found(each.annotation, registered.settings.providers, what, each.name)
            for each in signature.provided
        }
        order = _with_needs(parameters.values())
        call = tuple([node for node in order if node.span is Span.CALL])
        start = tuple([node for node in order if node.span is Span.START])
        if not signature.interaction.is_stream:
            # Its call ends where a stream begins. The order is one in which each can be made.
            return Plan(parameters, tuple([n for n in order if n.span >= Span.CALL]), ())
        for node in call:
            if node.provider.form is Form.BLOCK and node.provider.held is None:
                raise TypeError(_unheld(node.provider, what))
        if start and signature.is_generator:
            raise TypeError(
                f"{start[0].provider.name} is held='start', and {what} is an async generator, "
                "which starts with its first item: make it an `async def` that returns its stream, "
                "or hold the object with held='call'"
            )
        return Plan(parameters, call, start)

    def ask(self, chain: Chain) -> None:
        """Find what the hooks of a router get, before a connection is accepted.

        Raises:
            TypeError: As `plans_of`; or it is not there then, or another object in another place.
        """
        guard = chain[0].guard
        found: dict[str, dict[str, Node | None]] = {}
        for option, given in _HOOKS.items():
            function = getattr(guard, option)
            for need in hook_needs(function, given):
                what = f"{option}={name_of(function)}"
                node = self._found(need.annotation, chain, what, need.name)
                if node is not None and node.span is not Span.APPLICATION:
                    raise TypeError(
                        f"{what} is called before a connection is accepted, and needs "
                        f"{node.provider.name}, which has {_BELONGS[node.span]}: give it the scope "
                        "'application'"
                    )
                found.setdefault(option, {})[need.name] = node
        if found and self.hooks.setdefault(guard, found) != found:
            raise TypeError(
                "the hooks of a router that is included in several places would get another object "
                "in each of them: provide in that router what they need"
            )

    def place(self, provider: Provider, chain: Chain) -> Node:
        """Return the node of a provider.

        Args:
            provider: The provider.
            chain: The providers of its router and of those around that one.

        Raises:
            TypeError: As `plans_of`.
        """
        # What is always open is there once, in however many ways its router is included.
        identity = provider if provider.is_always else (provider, chain)
        node = self.nodes.get(identity)
        if node is not None:
            return node
        if identity in self._open:
            names = [*self._open.values(), provider]
            names = names[names.index(provider) :]
            circle = ", which needs ".join(each.name for each in names)
            raise TypeError(f"providers need each other: {circle}")
        self._open[identity] = provider
        span = SPANS[provider.scope]
        if provider.held == "start":
            span = Span.START
        needs: list[tuple[Need, Node | None]] = []
        for need in provider.needs:
            needed = self._filled(provider, need, chain)
            needs.append((need, needed))
            if needed is None:
                continue
            if span is Span.CALL and provider.form is not Form.BLOCK:
                span = max(span, needed.span)  # it may use what is open only at the start
            elif needed.span > span:
                raise TypeError(_too_short(provider, needed, span))
        del self._open[identity]
        node = self.nodes[identity] = Node(provider, chain, tuple(needs), span)
        return node

    def _filled(self, provider: Provider, need: Need, chain: Chain) -> Node | None:
        """Return the node for a parameter of a provider; ``None`` if something else fills it."""
        if need.mark is Provided:
            return self._found(need.annotation, chain, provider.name, need.name)
        if need.span > SPANS[provider.scope]:
            raise TypeError(
                f"{provider.name} has the scope {provider.scope!r}, and its parameter "
                f"{need.name!r} is a fact about "
                + ("a request" if need.span is Span.CALL else "a connection")
                + ": give it a narrower scope"
            )
        if need.mark is Principal and not any(each.guard.authenticate for each in chain):
            raise TypeError(
                f"{provider.name} takes the principal as {need.name!r}, but neither its Router nor "
                "one around it has an authenticator: give it authenticate="
            )
        return None

    def _found(self, key: object, chain: Chain, what: str, parameter: str) -> Node | None:
        """Return the node for a type; ``None`` if it may be ``None`` and nobody provides it."""
        found = self._find(key, chain)
        if found is None and allows_none(key):
            for member in _members(key):
                found = found or self._find(member, chain)
            if found is None:
                return None
        if found is None:
            raise TypeError(
                f"nobody provides {annotation_name(key)}, which {what} takes as {parameter!r}: "
                f"call `provide({annotation_name(key)}, ...)` of its Router, or of one that "
                "includes it"
            )
        return self.place(*found)

    def _find(self, key: object, chain: Chain) -> tuple[Provider, Chain] | None:
        """Return the nearest provider of a type with its chain.

        What a test has put in its place counts before it, that of the outermost router first. It is
        used for as long as what it stands for.
        """
        found = next(
            ((each.by_key[key], chain[n:]) for n, each in enumerate(chain) if key in each.by_key),
            None,
        )
        override = _overridden(key, chain)
        if override is None:
            return found
        if override.form is Form.VALUE:
            return override, chain
        provider, at = (override, chain) if found is None else found
        held = provider.held or ("call" if override.form is Form.BLOCK else None)
        if provider.scope != "request" or override.form is not Form.BLOCK:
            held = None
        twin = attrs.evolve(override, scope=provider.scope, held=held)
        return self._twins.setdefault((override, provider), twin), at


def _overridden(key: object, chain: Chain) -> Provider | None:
    outermost = next((each for each in reversed(chain) if each.overrides.get(key)), None)
    return None if outermost is None else outermost.overrides[key][-1]


def _members(key: object) -> tuple[object, ...]:
    return tuple([each for each in getattr(key, "__args__", ()) if each not in (None, NONE)])


def _with_needs(wanted: Iterable[Node | None]) -> list[Node]:
    """Return nodes and what they need, each once and behind those that it needs."""
    order: dict[Node, None] = {}
    waiting = [(node, False) for node in reversed([*wanted])]
    while waiting:
        node, is_ready = waiting.pop()
        if node is None or node in order:
            continue
        if is_ready:
            order[node] = None
            continue
        waiting.append((node, True))
        waiting += [(needed, False) for _, needed in reversed(node.needs)]
    return list(order)


_BELONGS: Final = {
    Span.CONNECTION: "the scope 'connection'",
    Span.CALL: "the scope 'request'",
    Span.START: "held='start'",
}


def _too_short(provider: Provider, needed: Node, span: Span) -> str:
    own = "is held='call'" if span is Span.CALL else f"has the scope {provider.scope!r}"
    return (
        f"{provider.name} {own}, and needs {needed.provider.name}, which has "
        f"{_BELONGS[needed.span]}: it would be used when that one is over"
    )


def _unheld(provider: Provider, what: str) -> str:
    return (
        f"{provider.name} must say how long a stream holds it, as {what} needs it: with "
        "held='call' each open stream keeps one to its end, so a few dozen idle streams empty a "
        "pool; with held='start' it is given back when the function of the handler has returned "
        "its stream"
    )
