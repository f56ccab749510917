"""Wrong conversions of a handler are found when it is registered."""

import typing
from collections.abc import AsyncIterator
from typing import Annotated, Any, NoReturn

import attrs
import pytest
from trio.abc import ReceiveChannel

from rsocket_trio import (
    Metadata,
    Payload,
    PayloadBody,
    Principal,
    Requester,
    Router,
    Setup,
    StreamedPayload,
    ZipkinTrace,
)
from rsocket_trio.codecs import Codecs
from rsocket_trio.metadata import CompositeMetadata

if typing.TYPE_CHECKING:
    from elsewhere import Absent


class Plain:
    def __init__(self, x):
        self.x = x


@attrs.frozen
class Customer:
    plain: Plain


@attrs.frozen
class Order:
    customers: list[Customer]


@attrs.frozen
class Hidden:
    absent: "Absent"


async def plain_data(data: Plain) -> None: ...


async def plain_inside(order: Order | None) -> None: ...


async def hidden(data: Hidden) -> None: ...


async def plain_result() -> Plain: ...


async def plain_items() -> AsyncIterator[list[Plain]]:
    yield []


async def plain_channel(items: ReceiveChannel[Plain]) -> AsyncIterator[int]:
    yield 1


async def no_result(data: int): ...


async def no_items(data: int):
    yield 1


async def optional_metadata(metadata: Metadata | None) -> None: ...


async def setup_or_data(data: Setup | int) -> None: ...


NO_TYPE = (
    "is not a type that data can be converted to: make it an attrs class, a dataclass, "
    "a TypedDict or a"
)
WRONG = [
    ("request_response", plain_data, f"its parameter 'data' cannot be read: data: Plain {NO_TYPE}"),
    (
        "request_response",
        plain_inside,
        rf"parameter 'order' cannot be read: order.customers\[\].plain: Plain {NO_TYPE}",
    ),
    ("request_response", hidden, "cannot be read: data: Hidden is annotated with 'Absent', which"),
    ("request_response", plain_result, f"its result cannot be written: result: Plain {NO_TYPE}"),
    ("request_stream", plain_items, rf"its result cannot be written: result\[\]: Plain {NO_TYPE}"),
    ("request_channel", plain_channel, "its parameter 'items' cannot be read: items: Plain"),
    ("fire_and_forget", plain_data, "its parameter 'data' cannot be read"),
    (
        "request_response",
        no_result,
        "its result needs an annotation to be converted: write `-> T`, or `-> Any`",
    ),
    ("request_stream", no_items, "its result has no annotation: write `-> AsyncIterator"),
    ("request_channel", no_items, "a parameter annotated ReceiveChannel"),
    (
        "request_response",
        optional_metadata,
        r"'metadata' is Metadata \| None: write `Metadata`, which every request has",
    ),
    ("request_response", setup_or_data, "'data' is Setup | int: write `Setup`"),
]


@pytest.mark.parametrize(("interaction", "function", "reason"), WRONG)
def test_types_that_can_never_be_converted(interaction, function, reason):
    """The text names the function, the parameter or result, and the place in its type."""
    router = Router()
    with pytest.raises(TypeError, match=reason) as caught:
        getattr(router, interaction)("a")(function)
    name = f"tests.routing.test_registration.{function.__qualname__} cannot be a {interaction}"
    assert str(caught.value).startswith(name)
    assert router.describe() == ()


def test_types_that_need_no_conversion():
    """Payloads, bytes, injected parameters, and results that are not sent."""
    router = Router()

    @router.request_response("a")
    async def either(
        payload: Payload, who: Annotated[Plain, Principal]
    ) -> Payload | Order2 | None: ...

    @router.request_response("b")
    async def streamed(data: bytes | None = None) -> StreamedPayload | bytes: ...

    @router.request_response("c")
    async def anything(data: Any) -> Any: ...

    @router.request_response("d")
    async def never(trace: ZipkinTrace | None) -> NoReturn: ...

    @router.request_stream("e")
    async def items(body: PayloadBody, peer: Requester) -> AsyncIterator[Payload | int]:
        yield 1

    @router.request_channel("f")
    async def channel(payloads: ReceiveChannel[Payload]) -> ReceiveChannel[Payload]: ...

    @router.fire_and_forget("g")
    async def unheard(entries: CompositeMetadata) -> Plain: ...

    @router.fire_and_forget("h")
    async def unannotated(data: int): ...

    @router.metadata_push()
    async def push(metadata: bytes): ...

    assert len(router.describe()) == 9


@attrs.frozen
class Order2:
    item: str


class PlainCodec:
    def encode(self, value, annotation):
        return str(value.x).encode()

    def decode(self, data, annotation):
        return annotation(int(data))


async def test_a_custom_codec_may_convert_any_type(bind):
    """A codec that does not declare its types is assumed to convert every type."""
    router = Router(codecs=Codecs({"x/plain": PlainCodec()}))

    @router.request_response("double")
    async def double(plain: Plain) -> Plain:
        return Plain(2 * plain.x)

    bound = await bind(router, data="x/plain")
    metadata = Metadata(route="double").encode()
    assert await bound.request_response(Payload(b"21", metadata)) == Payload(b"42")


def test_a_custom_codec_may_refuse_a_type():
    """A codec that declares its types refuses others at registration."""

    class Picky(PlainCodec):
        def check_decode(self, annotation):
            raise TypeError("only on Sundays")

    router = Router(codecs=Codecs({"application/cbor": Picky()}))
    with pytest.raises(TypeError, match="its parameter 'data' cannot be read: only on Sundays"):

        @router.request_response()
        async def wait(data: complex) -> None: ...
