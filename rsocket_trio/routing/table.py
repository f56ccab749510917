"""The handlers of a router and of the routers that it includes: `Table`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

from ..codecs import DEFAULT_CODECS
from ..protocol.interaction import Interaction
from .guards import Fence
from .kinds import Delivery, Kind
from .layers import Layer
from .plans import Chain, Plans, plans_of
from .registered import Registered, Registrations, Settings
from .signature import check_conversions
from .templates import Routes, Template

if TYPE_CHECKING:
    from ..tracing import Tracing

__all__ = ["MAX_NESTED", "Table"]

MAX_NESTED: Final = 64
"""The most routers of which each includes the next one. Each level costs stack frames when a
handler is registered and when a connection is accepted."""

_Added: TypeAlias = "tuple[Table, Kind, str | None, Registered]"
"""A table, and a handler that is to be added to it."""


class Table:
    """The handlers of a router, by interaction and route.

    A handler that is added also goes to the tables that include this one. So a mistake is found
    when the handler is registered, and a connection finds all handlers in one place.

    Attributes:
        handlers: All handlers, those of the included tables too.
        settings: The settings of the router for its handlers.
        layer: What the router puts around its handlers.
        prefix: What the routes of the router itself begin with; it is in them already.
        providers: The providers of the router.
    """

    def __init__(self, settings: Settings, layer: Layer, prefix: str) -> None:
        self.handlers: Registrations = {kind: {} for kind in (*Interaction, *Delivery)}
        self.settings = settings
        self.layer = layer
        self.providers = settings.providers[0]
        self.prefix = prefix
        self.included: list[tuple[Table, str, Layer]] = []
        self._snapshot: dict[Kind, Routes] | None = None
        self._plans: Plans | None = None
        self._within: dict[Settings, Settings] = {}
        # Weak: an acceptor may make a router for each connection, and include a common one.
        self.included_in: WeakKeyDictionary[Table, dict[str, Layer]] = WeakKeyDictionary()

    def add(self, *new: Registered) -> None:
        """Add handlers here and to the tables that include this one: all of them, or none.

        Raises:
            TypeError: The codecs of one of them do not convert the types of a handler.
            ValueError: One of them has a handler for a route, or the route gets too long there.
        """
        for each in new:
            _check(each)
        _add(
            [
                added
                for each in new
                for added in self.reached(each.signature.interaction, each.key, each)
            ]
        )

    def include(self, other: Table, prefix: str, layer: Layer) -> None:
        """Add the handlers of another table, and those that it gets later.

        Args:
            other: The other table.
            prefix: Put before its routes.
            layer: Put around the layer of the other table.

        Raises:
            TypeError: As `add`.
            ValueError: As `add`; or a table would include itself, or another one twice; or there
                would be more than `MAX_NESTED` tables within each other.
        """
        if other.has(self):
            raise ValueError("a router cannot include itself, nor a router that includes it")
        around, within = _nested(self, _outer, {}), _nested(other, _inner, {})
        if around + within > MAX_NESTED:
            raise ValueError(
                f"at most {MAX_NESTED} routers can be within each other, not {around + within}: "
                "include some of them in the outermost router"
            )
        _add(
            [
                added
                for interaction, routes in other.handlers.items()
                for route, registered in routes.items()
                for added in self.reached(
                    interaction, *other.as_part_of(self, prefix, layer, route, registered)
                )
            ]
        )
        if prefix in other.included_in.get(self, {}):  # and there is no handler yet
            raise ValueError(f"this router is included with the prefix {prefix!r} already")
        self.included.append((other, prefix, layer))
        other.included_in.setdefault(self, {})[prefix] = layer
        self.plan_anew()

    def snapshot(self) -> dict[Kind, Routes]:
        """Return the handlers of now. Connections share them."""
        if self._snapshot is None:
            self._snapshot = {i: Routes(routes.items()) for i, routes in self.handlers.items()}
        return self._snapshot

    def plans(self) -> Plans:
        """Return what the handlers of now need.

        Raises:
            TypeError: Something that one of them needs cannot be provided.
        """
        if self._plans is None:
            handlers = [each for routes in self.handlers.values() for each in routes.values()]
            self._plans = plans_of(handlers, self._chains())
        return self._plans

    def plan_anew(self) -> None:
        """Find out again what the handlers of this table, and of those around it, need."""
        self._plans = None
        for outer in self.included_in:
            outer.plan_anew()

    def knows(self, key: object) -> bool:
        """Whether a type is provided by this table or an included one, or needed there."""
        if any(key in chain[0].by_key or chain[0].needs(key) for chain in self._chains()):
            return True
        return any(
            needed.annotation == key
            for routes in self.handlers.values()
            for each in routes.values()
            for needed in each.signature.provided
        )

    def _chains(self) -> list[Chain]:
        """Return the providers of this table and of the included ones, each with those around."""
        chains: dict[Chain, None] = {}
        waiting: list[tuple[Table, Chain]] = [(self, ())]
        while waiting:
            table, around = waiting.pop()
            chain = (table.providers, *around)
            if chain not in chains:
                chains[chain] = None
                waiting += [(other, chain) for other, _, _ in reversed(table.included)]
        return list(chains)

    def put(self, interaction: Kind, route: str | None, registered: Registered) -> None:
        """Add a handler here only, without a check."""
        self.handlers[interaction][route] = registered
        self._snapshot = self._plans = None

    def reached(
        self, interaction: Kind, route: str | None, registered: Registered
    ) -> Iterator[_Added]:
        """Yield a new handler, with its route, for this table and for each that includes it."""
        yield self, interaction, route, registered
        if not self.included_in:
            return  # iterating over weak references takes long
        for outer, prefixes in self.included_in.items():
            for prefix, layer in prefixes.items():
                part = self.as_part_of(outer, prefix, layer, route, registered)
                yield from outer.reached(interaction, *part)

    def as_part_of(
        self, outer: Table, prefix: str, layer: Layer, route: str | None, registered: Registered
    ) -> tuple[str | None, Registered]:
        """Return the route and the handler for a table that includes this one.

        Raises:
            TypeError: The codecs of that table do not convert what the handler takes or returns;
                or a variable of the prefix has the name of a parameter that cannot take it.
            ValueError: The prefix and the route are no route.
        """
        signature = registered.signature
        if prefix and signature.template is not None:
            template = Template.parse(prefix + signature.template.text)
            signature = signature.at(template)
            route = template.key
        part = Registered(
            signature,
            outer.around(registered.settings),
            self.layers(layer) + registered.layers,
            registered.declared,
        )
        # An acceptor may include a large router for each connection, so this must cost little.
        if part.settings.codecs is not registered.settings.codecs or "{" in prefix:
            _check(part)
        return route, part

    def around(self, inner: Settings) -> Settings:
        """Return the settings of the handlers of an included table; many have the same ones."""
        settings = self._within.get(inner)
        if settings is None:
            settings = self._within[inner] = inner.within(self.settings)
        return settings

    def layers(self, around: Layer) -> tuple[Layer, ...]:
        """Return the layer of an inclusion and that of the router, as far as there is anything."""
        return tuple([layer for layer in (around, self.layer) if layer.is_needed])

    def has(self, table: Table) -> bool:
        """Whether a table is this one, or a part of it."""
        seen, waiting = {self}, [self]
        while waiting:
            new = _inner(waiting.pop()) - seen
            seen |= new
            waiting += new
        return table in seen

    def fences(self) -> Iterator[Fence]:
        """Yield the layers around the routes of the included tables."""
        for other, prefix, around in self.included:
            layers = other.layers(around)
            for fence in other.fences():
                yield fence.within(prefix + other.prefix, layers)
            if layers:
                routeless = any(
                    None in routes
                    for interaction, routes in other.handlers.items()
                    # These have no routes at all.
                    if interaction not in (Interaction.METADATA_PUSH, Delivery.EVENTS)
                )
                yield Fence(prefix + other.prefix, layers, routeless)

    def tracings(self) -> Iterator[Tracing]:
        """Yield the `Tracing` objects of this table and of the included tables."""
        if self.settings.tracing is not None:
            yield self.settings.tracing
        for other, _, _ in self.included:
            yield from other.tracings()

    def check_free(self, interaction: Kind, route: str | None) -> None:
        """Refuse a route that has a handler already.

        Raises:
            ValueError: The route is refused.
        """
        taken = self.handlers[interaction].get(route)
        if taken is not None:
            raise _taken(interaction, taken)


def _inner(table: Table) -> set[Table]:
    return {other for other, _, _ in table.included}


def _outer(table: Table) -> set[Table]:
    return set(table.included_in)


def _nested(
    table: Table, next_ones: Callable[[Table], Iterable[Table]], known: dict[Table, int]
) -> int:
    """Return the number of tables on the longest way from a table, that table included."""
    if table not in known:
        further = [_nested(each, next_ones, known) for each in next_ones(table)]
        known[table] = 1 + max(further, default=0)
    return known[table]


def _add(added: list[_Added]) -> None:
    """Add handlers to the tables that get them: all of them or none."""
    seen: dict[tuple[Table, Kind, str | None], Registered] = {}
    for table, interaction, route, registered in added:
        table.check_free(interaction, route)
        twin = seen.setdefault((table, interaction, route), registered)
        if twin is not registered:
            raise _taken(interaction, twin)
    for table, interaction, route, registered in added:
        table.put(interaction, route, registered)


def _check(registered: Registered) -> None:
    """Refuse a handler whose data or results its codecs do not convert."""
    codecs = registered.settings.codecs
    check_conversions(registered.signature, DEFAULT_CODECS if codecs is None else codecs)


def _taken(interaction: Kind, by: Registered) -> ValueError:
    if interaction is Delivery.EVENTS:
        return ValueError(
            f"there is an events handler already, {by.signature.name}: events come without a "
            "route, so there can be one; serve another Router for them at another address"
        )
    template = by.signature.template
    which = "requests without a route have" if template is None else f"route {template.text!r} has"
    return ValueError(f"{which} a {interaction.value} handler already: {by.signature.name}")
