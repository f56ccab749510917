"""Plans against a naive resolver: any graph of providers, on any router of a chain."""

from itertools import pairwise
from typing import Annotated, Any

import attrs
import hypothesis.strategies as st
from hypothesis import given, settings

from rsocket_trio import Provided, Router
from rsocket_trio.routing.plans import Plan

KINDS = [type(f"Kind{n}", (), {}) for n in range(6)]
SCOPES = ["application", "connection", "request"]
NUMBERS = st.integers(0, len(KINDS) - 1)


@attrs.frozen
class Offer:
    """A provider: on which router of the chain, the innermost being 0, and what it needs."""

    router: int
    kind: int
    scope: str
    needs: tuple[int, ...]


OFFERS = st.lists(
    st.builds(
        Offer,
        router=st.integers(0, 2),
        kind=NUMBERS,
        scope=st.sampled_from(SCOPES),
        needs=st.lists(NUMBERS, max_size=3, unique=True).map(tuple),
    ),
    max_size=12,
    unique_by=lambda offer: (offer.router, offer.kind),
)


def provider_of(offer: Offer) -> Any:
    """Return a function with the annotations of an offer."""

    def make(**_needed: object) -> Any:
        return KINDS[offer.kind]()

    async def function(**needed: object) -> Any:
        return make(**needed)

    return _with_parameters(function, offer.needs)


def _with_parameters(function: Any, needs: tuple[int, ...]) -> Any:
    names = ", ".join(f"p{n}: A{n}" for n in needs)
    hints = {f"A{n}": Annotated[KINDS[n], Provided] for n in needs}
    space: dict[str, Any] = {"inner": function, **hints}
    call = ", ".join(f"p{n}=p{n}" for n in needs)
    exec(f"async def made({names}):\n return await inner({call})", space)
    return space["made"]


class Mistake(Exception):
    pass


def naive(offers: list[Offer], wanted: tuple[int, ...]) -> list[Offer]:
    """Return the providers in the order of their calls, in the plainest way."""
    order: list[Offer] = []

    def visit(kind: int, first_router: int, above: tuple[Offer, ...]) -> Offer:
        near = [o for o in offers if o.kind == kind and o.router >= first_router]
        if not near:
            raise Mistake
        offer = min(near, key=lambda each: each.router)
        if offer in above:
            raise Mistake
        for need in offer.needs:
            needed = visit(need, offer.router, (*above, offer))
            if SCOPES.index(needed.scope) > SCOPES.index(offer.scope):
                raise Mistake
        if offer not in order:
            order.append(offer)
        return offer

    for kind in wanted:
        visit(kind, 0, ())
    return order


@given(offers=OFFERS, wanted=st.lists(NUMBERS, min_size=1, max_size=3, unique=True).map(tuple))
@settings(deadline=None, max_examples=300)
def test_as_the_naive_resolver(offers: list[Offer], wanted: tuple[int, ...]) -> None:
    """The same is refused, and otherwise the same is called in the same order, each once."""
    routers = [Router(), Router(), Router()]
    for inner, outer in pairwise(routers):
        outer.include(inner)
    by_function = {}
    for offer in offers:
        function = provider_of(offer)
        by_function[function] = offer
        routers[offer.router].provide(KINDS[offer.kind], function, scope=offer.scope)  # type: ignore[arg-type]

    async def nothing(**_needed: object) -> None:
        raise AssertionError

    routers[0].fire_and_forget("x")(_with_parameters(nothing, wanted))
    table = routers[-1]._table
    try:
        expected = naive(offers, wanted)
    except Mistake:
        expected = None
    try:
        plans = table.plans()
    except TypeError:
        assert expected is None
        return
    assert expected is not None
    plan: Plan = next(iter(plans.handlers.values()))
    got = {
        scope: [by_function[node.provider.source] for node in nodes]
        for scope, nodes in zip(
            SCOPES, (plans.application, plans.connection, plan.call), strict=True
        )
    }
    assert got == {scope: [o for o in expected if o.scope == scope] for scope in SCOPES}


def test_many_ways_to_one_provider() -> None:
    """A diamond on a diamond, 200 of them: each is made once, and the plan takes no time."""
    router = Router()
    kinds = [type(f"Layer{n}", (), {}) for n in range(200)]
    router.provide(kinds[0], kinds[0]())

    def add(below: Any, kind: Any) -> None:
        def make(one: Annotated[below, Provided], other: Annotated[below, Provided]) -> Any:
            return kind()

        router.provide(kind, make)

    for below, kind in pairwise(kinds):
        add(below, kind)

    @router.request_response("x")
    async def handler(top: Annotated[kinds[-1], Provided]) -> str:  # type: ignore[valid-type]
        raise AssertionError(top)

    plan = next(iter(router._table.plans().handlers.values()))
    assert [type(node.provider.source).__name__ for node in plan.call] == ["function"] * 199
