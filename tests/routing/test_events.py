"""`Router.events`: what a handler of events may take, and which mistakes its registration finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated, Any, TypedDict

import attrs
import pytest
import trio

from rsocket_trio import (
    Metadata,
    Payload,
    Principal,
    Rejected,
    Requester,
    Route,
    Router,
    Setup,
    TransportInfo,
)
from rsocket_trio.lumberjack import Batch
from rsocket_trio.metadata import CompositeMetadata
from rsocket_trio.routing import Delivery
from rsocket_trio.routing.parameters import Source
from rsocket_trio.routing.signature import read_signature


@attrs.frozen
class Login:
    user: str


class Line(TypedDict):
    message: str


class Unconvertible:
    pass


async def everything(
    batch: Batch,
    events: list[Login],
    transport: TransportInfo,
    *,
    user: Annotated[str, Principal],
) -> None: ...


def test_parameters_are_recognized_by_annotation():
    """The events have the type of one event."""
    signature = read_signature(everything, Delivery.EVENTS)
    assert [(p.name, p.source, p.annotation, p.by_keyword) for p in signature.parameters] == [
        ("batch", Source.BATCH, Batch, False),
        ("events", Source.EVENTS, Login, False),
        ("transport", Source.TRANSPORT, TransportInfo, False),
        ("user", Source.PRINCIPAL, str, True),
    ]


@pytest.mark.parametrize(
    ("annotation", "item"),
    [
        (list[Line], Line),
        (Sequence[Login], Login),
        (Iterable[bytes], bytes),
        (list, Any),
        (list[Login | Line], Login | Line),
        (list[dict[str, Any]], dict[str, Any]),
    ],
    ids=str,
)
def test_lists_of_events(annotation, item):
    """Each annotation that a list fits receives the events."""

    async def handler(events) -> None: ...

    handler.__annotations__["events"] = annotation
    (parameter,) = read_signature(handler, Delivery.EVENTS).parameters
    assert (parameter.source, parameter.annotation) == (Source.EVENTS, item)


async def not_annotated(events) -> None: ...
async def one_event(event: dict[str, Any]) -> None: ...
async def of_a_strange_class(events: list[Unconvertible]) -> None: ...
async def not_of_json(events: list[Fraction]) -> None: ...
async def two_lists(events: list[Login], others: list[Line]) -> None: ...
async def no_events(transport: TransportInfo) -> None: ...
async def a_channel(events: trio.abc.ReceiveChannel[Login]) -> None: ...
async def any_number(*events: list[Login]) -> None: ...
async def a_bare_principal(batch: Batch, user: Principal) -> None: ...
async def a_part_marked(events: list[Annotated[Login, Principal]]) -> None: ...
async def optional_batch(batch: Batch | None) -> None: ...
def not_async(events: list[Login]) -> None: ...
async def with_a_requester(batch: Batch, requester: Requester) -> None: ...
async def with_a_setup(batch: Batch, setup: Setup) -> None: ...
async def with_a_route(batch: Batch, route: Route) -> None: ...
async def with_a_payload(batch: Batch, payload: Payload) -> None: ...
async def with_metadata(batch: Batch, metadata: Metadata) -> None: ...
async def with_entries(batch: Batch, entries: CompositeMetadata) -> None: ...


async def a_generator(events: list[Login]) -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (not_annotated, "'events' has no annotation: annotate what it receives"),
        (one_event, r"'event' is dict\[str, Any\]: write `list\[T\]` to receive the events"),
        (of_a_strange_class, r"events\[\]: Unconvertible is not a type that data can be converted"),
        (not_of_json, r"'events' cannot be read: events\[\]: Fraction"),
        (two_lists, "it may have one events parameter, but it has events and others"),
        (no_events, r"no parameter receives the events: annotate one `list\[T\]`"),
        (a_channel, r"'events' is ReceiveChannel\[Login\]: write `list\[T\]`"),
        (any_number, "takes any number of arguments"),
        (a_bare_principal, r"'user': write `Annotated\[T, Principal\]`"),
        (a_part_marked, "only a part of its parameter 'events' is marked as Principal"),
        (optional_batch, r"'batch' is Batch \| None: write `list\[T\]`"),
        (not_async, "it is not async: write `async def`"),
        (a_generator, "it yields, but its answer is not a stream"),
        (with_a_requester, "'requester' is Requester: which a sender of events does not have"),
        (with_a_setup, "'setup' is Setup: which a sender of events does not have"),
        (with_a_route, "'route' is Route: which"),
        (with_a_payload, "'payload' is Payload: which"),
        (with_metadata, "'metadata' is Metadata: which"),
        (with_entries, "'entries' is CompositeMetadata: which"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_mistakes_are_found_at_registration(function, text):
    """The text names the handler, and says what to change."""
    router = Router()
    with pytest.raises(TypeError, match=text) as caught:
        router.events()(function)
    assert f"{function.__name__} cannot be an events handler: " in str(caught.value)
    assert router.describe() == ()


def test_with_and_without_parentheses():
    """Both forms register, and return the function."""
    for decorate in (lambda router: router.events, lambda router: router.events()):
        router = Router()
        assert decorate(router)(everything) is everything
        name = f"{__name__}.everything"
        found = [(each.interaction, each.route, each.handler) for each in router.describe()]
        assert found == [(Delivery.EVENTS, None, name)]


def test_events_have_no_route():
    """A name would choose nothing."""
    with pytest.raises(TypeError, match=r"write @router.events\(\): events come without a route"):
        Router().events("logs")


def test_there_is_one_handler():
    """Nothing in a batch could choose between two, also if they are in two routers."""
    router, other = Router(), Router()
    router.events(everything)
    with pytest.raises(ValueError, match=f"an events handler already, {__name__}.everything"):
        router.events()
    with pytest.raises(ValueError, match="an events handler already"):
        router.events(everything)

    other.events()(everything)

    @other.request_response("a")
    async def a() -> None: ...

    with pytest.raises(ValueError, match="an events handler already"):
        router.include(other, "other.")
    assert len(router.describe()) == 1, "nothing is included"
    empty = Router()
    router.include(empty)
    with pytest.raises(ValueError, match="an events handler already"):
        empty.events(everything)
    assert empty.describe() == ()


def test_the_codecs_of_the_including_router_must_fit():
    """The codec of JSON counts, and no other one."""

    class OnlyText:
        def check_decode(self, annotation):
            if annotation is not str:
                raise TypeError("only text")

        def encode(self, value, annotation): ...
        def decode(self, data, annotation): ...

    from rsocket_trio import Codecs

    only_text = Codecs({"application/json": OnlyText()})
    inner = Router()
    inner.events(everything)
    with pytest.raises(TypeError, match="only text"):
        Router(codecs=only_text).include(inner)
    Router(codecs=Codecs({"application/cbor": OnlyText()})).include(inner)


async def test_an_events_handler_guards_no_requests(bind):
    """The guard of an included router with events only is not asked about requests."""

    async def refuse(auth, facts):
        raise Rejected("no")

    logs = Router(authenticate=refuse)
    logs.events(everything)
    router = Router()
    router.include(logs, "logs.")
    bound = await bind(router)
    with pytest.raises(Exception, match="no request_response handler for requests without a route"):
        await bound.request_response(Payload())
    with pytest.raises(Rejected, match="no"):
        with_route = Metadata(route="logs.x").encode()
        body = bound.request_response(Payload(b"", with_route))
        await body
