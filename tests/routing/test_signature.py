from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import pytest
from trio.abc import ReceiveChannel

from rsocket_trio.metadata.builder import Metadata
from rsocket_trio.metadata.composite import CompositeMetadata
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.requester import Requester
from rsocket_trio.responder import Setup
from rsocket_trio.routing.marks import Principal
from rsocket_trio.routing.parameters import Route, Source
from rsocket_trio.routing.router import Router
from rsocket_trio.routing.signature import read_signature
from rsocket_trio.transports.base import TransportInfo

if TYPE_CHECKING:
    from somewhere import Absent

RESPONSE, FNF, STREAM, CHANNEL, PUSH = (
    Interaction.REQUEST_RESPONSE,
    Interaction.FIRE_AND_FORGET,
    Interaction.REQUEST_STREAM,
    Interaction.REQUEST_CHANNEL,
    Interaction.METADATA_PUSH,
)


async def everything(
    data: int,
    payload: Payload,
    metadata: CompositeMetadata,
    requester: Requester,
    setup: Setup,
    transport: TransportInfo,
    *,
    route: Route,
    items: ReceiveChannel[str],
) -> AsyncIterator[float]:
    yield 1.0


def test_parameters_are_recognized_by_annotation():
    """A type that is not one of ours is data; the items of a channel have their own type."""
    signature = read_signature(everything, CHANNEL)
    assert [(p.name, p.source, p.annotation, p.by_keyword) for p in signature.parameters] == [
        ("data", Source.DATA, int, False),
        ("payload", Source.PAYLOAD, Payload, False),
        ("metadata", Source.COMPOSITE, CompositeMetadata, False),
        ("requester", Source.REQUESTER, Requester, False),
        ("setup", Source.SETUP, Setup, False),
        ("transport", Source.TRANSPORT, TransportInfo, False),
        ("route", Source.ROUTE, Route, True),
        ("items", Source.CHANNEL, str, True),
    ]
    assert signature.result is float
    assert signature.is_generator
    assert signature.name.endswith("test_signature.everything")


@pytest.mark.parametrize("channel", [ReceiveChannel, AsyncIterable, AsyncIterator])
def test_kinds_of_channels(channel):
    """A channel has one of three types, with or without a type of items."""

    async def typed(items: channel[int]) -> AsyncIterable[int]: ...

    async def bare(items: channel) -> AsyncIterable[int]: ...

    assert read_signature(typed, CHANNEL).parameters[0].annotation is int
    assert read_signature(bare, CHANNEL).parameters[0].annotation is Any


@pytest.mark.parametrize(
    ("annotation", "result"),
    [
        (AsyncIterator[int], int),
        (AsyncGenerator[int, None], int),
        (AsyncIterable[int], int),
        (ReceiveChannel[int], int),
        (ReceiveChannel, Any),
        (Any, Any),
    ],
)
def test_kinds_of_streams(annotation, result):
    """A stream is a generator or is returned; its items have the annotated type."""

    async def generator():
        yield 1

    async def function(): ...

    for handler in (generator, function):
        with pytest.raises(TypeError, match="its result has no annotation: write `-> AsyncIter"):
            read_signature(handler, STREAM)
        handler.__annotations__["return"] = annotation
        assert read_signature(handler, STREAM).result is result


def test_methods_are_handlers():
    """A bound method is a handler; self is not a parameter."""

    class Service:
        async def greet(self, name: str) -> str: ...

    signature = read_signature(Service().greet, RESPONSE)
    assert [parameter.name for parameter in signature.parameters] == ["name"]
    assert signature.result is str


class Callable:
    async def __call__(self, data: int) -> int:
        return 3 * data


class Streams:
    async def __call__(self, data: int) -> AsyncIterator[int]:
        yield data


async def with_database(database: object, data: int, *, factor: dict) -> int:
    return factor["x"] * data


BOUND = partial(partial(with_database, "db"), factor={"x": 3})


@pytest.mark.parametrize("handler", [Callable(), partial(Callable()), BOUND, partial(BOUND)])
async def test_what_else_can_be_called(bind, handler):
    """Arguments that are bound already are not filled."""
    router = Router()
    router.request_response("x")(handler)
    assert router.describe()[0].handler in (
        f"{__name__}.Callable.__call__",
        f"{__name__}.with_database",
    )
    bound = await bind(router)
    answer = await bound.request_response(Payload(b"2", Metadata(route="x").encode()))
    assert answer == Payload(b"6")


@pytest.mark.parametrize("handler", [Streams(), partial(Streams().__call__)])
def test_generators_that_are_called_otherwise(handler):
    assert read_signature(handler, STREAM).is_generator


def decorated(function):
    @wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


async def marker(who: Principal) -> int: ...


def sync(data: int) -> int: ...


async def generator(data: int) -> AsyncIterator[int]:
    yield 1


async def once(data: int) -> int: ...


async def two_data(one: int, items: ReceiveChannel[int], two: str) -> AsyncIterator[int]: ...


async def two_channels(one: ReceiveChannel[int], two: AsyncIterable[int]) -> AsyncIterator[int]: ...


async def unannotated(data) -> int: ...


async def any_number(*data: int) -> int: ...


async def any_keywords(**data: int) -> int: ...


async def absent(data: "Absent") -> int: ...


async def takes_channel(items: ReceiveChannel[int]) -> AsyncIterator[int]: ...


async def listed(data: int) -> list[int]: ...


async def takes_payload(payload: Payload) -> None: ...


async def takes_route(route: Route) -> None: ...


@pytest.mark.parametrize(
    ("function", "interaction", "reason"),
    [
        (sync, RESPONSE, "not async: write `async def`"),
        (generator, RESPONSE, "it yields, .*: `return` the result"),
        (generator, FNF, "it yields"),
        (generator, PUSH, "it yields"),
        (two_data, CHANNEL, "it may have one data parameter, but it has one and two"),
        (two_channels, CHANNEL, "it may have one channel parameter, but it has one and two"),
        (unannotated, RESPONSE, "'data' has no annotation"),
        (any_number, RESPONSE, "'data' takes any number of arguments"),
        (any_keywords, RESPONSE, "'data' takes any number of arguments"),
        (absent, RESPONSE, "annotated with 'Absent', .* import it outside `if TYPE_CHECKING`"),
        (generator, CHANNEL, "a parameter annotated ReceiveChannel.* is missing"),
        (takes_channel, STREAM, "'items' is a channel, which only request_channel has"),
        (listed, STREAM, "annotate its result AsyncIterator"),
        (once, STREAM, "annotate its result AsyncIterator"),
        (once, PUSH, "there are no data for 'data': annotate it bytes or CompositeMetadata"),
        (takes_payload, PUSH, "there are no data for 'payload'"),
        (takes_route, PUSH, "there are no data for 'route'"),
        (None, RESPONSE, "NoneType cannot be .* nor an object that can be called"),
        (Callable, RESPONSE, "Callable cannot be .* neither a function, nor a method, nor an"),
        (partial(sync, 1), RESPONSE, "sync cannot be .* not async: write `async def`"),
        (decorated(generator), STREAM, "a decorator of it returns a function that is not async"),
        (marker, RESPONSE, r"'who': write `Annotated\[T, Principal\]`, T being the type of what"),
    ],
)
def test_a_function_that_cannot_be_a_handler_is_explained(function, interaction, reason):
    """The error names the function and says what to change."""
    with pytest.raises(TypeError, match=reason) as caught:
        read_signature(function, interaction)
    assert getattr(function, "__qualname__", "") in str(caught.value)
