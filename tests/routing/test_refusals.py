"""Texts about a request that is refused or fails: to its peer, and in the log."""

import gc
import logging
import weakref
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Annotated, Literal

import attrs
import pytest
from trio.abc import ReceiveChannel

from rsocket_trio import Metadata, Payload, Provided, Router, rsio
from rsocket_trio.codecs.mismatch import Mismatch
from rsocket_trio.errors import ApplicationError, Invalid
from rsocket_trio.metadata import MIME, CompositeMetadata
from rsocket_trio.responder import Setup
from rsocket_trio.routing import RequestFacts
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.transports.base import TransportInfo
from tests.routing.requests import request

SECRET = "terces"[::-1]


@attrs.frozen
class Item:
    quantity: int


@attrs.frozen
class Order:
    items: list[Item]


@attrs.frozen
class Picky:
    word: str

    def __attrs_post_init__(self):
        raise ValueError(f"{self.word} is not nice")


def make_router(**options):
    router = Router(**options)

    @router.request_response("buy")
    async def buy(order: Order) -> None: ...

    @router.request_response("pick")
    async def pick(picky: Picky) -> None: ...

    @router.request_stream("watch")
    async def watch(order: Order) -> AsyncIterator[int]:
        yield 1

    @router.fire_and_forget("log")
    async def log(order: Order) -> None: ...

    @router.request_channel("sum")
    async def add(numbers: ReceiveChannel[int]) -> AsyncIterator[int]:
        async for number in numbers:
            yield number

    @router.metadata_push()
    async def push(metadata: CompositeMetadata) -> None: ...

    return router


def connected(router, *, peer="10.0.0.1:4711", **transport):
    setup = Setup(
        data_mime_type=MIME.JSON,
        metadata_mime_type=MIME.COMPOSITE_METADATA,
        keepalive_interval=1.0,
        max_lifetime=2.0,
        transport=TransportInfo(scheme="tcp", peer=peer, **transport),
    )
    return router.accept(setup, SimpleNamespace())


WRONG = b'{"items": [{"quantity": 1}, {"quantity": "%s"}]}' % SECRET.encode()
REASON = "order.items[1].quantity: expected int, got str"
BARE = "INVALID: route {!r} expects {} as 'application/json'"


def asked(route):
    return Payload(WRONG, Metadata(route=route).encode())


async def ask(bound, interaction, payload):
    result = getattr(bound, interaction)(payload)
    if hasattr(result, "__aiter__"):
        return [item async for item in result]
    return await result


@pytest.mark.parametrize(
    ("interaction", "route", "function"),
    [
        ("request_response", "buy", "buy"),
        ("request_stream", "watch", "watch"),
        ("fire_and_forget", "log", "log"),
    ],
)
async def test_the_log_says_why_a_request_was_refused(interaction, route, function, caplog):
    """One line has interaction, route, handler, peer, field and types, and no value."""
    bound = await connected(make_router())
    with caplog.at_level(logging.INFO, "rsocket_trio"), pytest.raises(Invalid) as caught:
        await ask(bound, interaction, asked(route))
    assert str(caught.value) == BARE.format(route, "Order")
    [record] = caplog.records
    assert record.getMessage() == (
        f"data refused: {interaction} {route!r} "
        f"(tests.routing.test_refusals.make_router.<locals>.{function}) from 10.0.0.1:4711, "
        f"as 'application/json': {REASON}"
    )
    assert record.exc_info is None


async def test_the_debug_log_has_tracebacks_without_values(caplog):
    """A programmer needs the place of a refusal; the error text of a class may show a value."""
    bound = await connected(make_router(explain=True))
    data = b'{"word": "%s"}' % SECRET.encode()
    with caplog.at_level(logging.DEBUG, "rsocket_trio"), pytest.raises(Invalid) as caught:
        await bound.request_response(Payload(data, Metadata(route="pick").encode()))
    reason = "picky: expected Picky, got a value that it refuses (ValueError)"
    assert str(caught.value) == f"{BARE.format('pick', 'Picky')}: {reason}"
    assert "__attrs_post_init__" in caplog.text
    assert "Traceback" in caplog.text
    assert SECRET not in caplog.text
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    ("explain", "told"),
    [
        (False, False),
        (True, True),
        (lambda setup: setup.transport.path == "/inside", True),
        (lambda setup: setup.transport.path == "/outside", False),
    ],
    ids=["no", "yes", "trusted", "not trusted"],
)
async def test_a_trusted_peer_gets_the_explanation(explain, told):
    """By default no peer is trusted; a function of the setup decides."""
    bound = await connected(make_router(explain=explain), path="/inside")
    with pytest.raises(Invalid) as caught:
        await bound.request_response(asked("buy"))
    assert str(caught.value) == BARE.format("buy", "Order") + (f": {REASON}" if told else "")


async def test_trust_may_depend_on_the_principal():
    """The setup has the principal that the router's authenticator found."""

    async def authenticate(auth, facts):
        return "ada"

    asked_about = []

    def explain(setup):
        asked_about.append(setup.principal)
        return True

    bound = await connected(make_router(explain=explain, authenticate=authenticate))
    with pytest.raises(Invalid, match="expected int, got str"):
        await bound.request_response(asked("buy"))
    assert asked_about == ["ada"]


@attrs.frozen
class Left:
    to: Literal["left"]


@attrs.frozen
class Right:
    to: Literal["right"]


@pytest.mark.parametrize("route", ["buy", "pick", "turn"])
async def test_refused_data_are_freed(route):
    """No traceback of the refusal keeps them, also without the garbage collector."""
    router = make_router()

    @router.request_response("turn")
    async def turn(way: Left | Right) -> None: ...

    bound = await connected(router)
    data = {"buy": WRONG, "pick": b'{"word": "x"}', "turn": b'{"to": "top"}'}[route]
    payload = Payload(data, Metadata(route=route).encode())
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(Invalid) as caught:
            await bound.request_response(payload)
        refusal = weakref.ref(caught.value)
        del caught
        assert refusal() is None
        assert not [each for each in gc.get_objects() if type(each) is Mismatch]
    finally:
        gc.enable()


async def test_a_refused_item_of_a_channel(caplog):
    """It is refused with the same text as a request."""
    async with connected_pair(make_router(explain=True), data_mime_type=MIME.JSON) as requester:
        source = [Payload(b"1"), Payload(b'"%s"' % SECRET.encode())]
        with caplog.at_level(logging.INFO, "rsocket_trio"):
            async with requester.request_channel(source, route="sum") as sums:
                assert (await sums.receive()).data == b"1"
                with pytest.raises(Invalid, match="as 'application/json': numbers: expected int,"):
                    await sums.receive()
    assert "data refused: request_channel 'sum' (" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(("length", "shown"), [(64, "x" * 64), (65, "x" * 64)])
async def test_a_quoted_text_has_64_characters_at_most(length, shown):
    """A peer's own text is sent back whole up to there, and shortened beyond, with dots."""
    bound = await connected(make_router())
    dots = "..." if length > 64 else ""
    with pytest.raises(Invalid) as caught:
        await bound.request_response(Payload(b"", Metadata(route="x" * length).encode()))
    assert caught.value.message == f"no request_response handler for route '{shown}'{dots}"
    named = Metadata(route="buy", data_mime_type="x/" + "y" * (length - 2)).encode()
    with pytest.raises(Invalid) as caught:
        await bound.request_response(Payload(b"1", named))
    expected = "x/" + "y" * 62
    assert f"route 'buy' cannot read these data: there is no codec for '{expected}'{dots}, " in (
        caught.value.message
    )


async def reason_for(field):
    """What is wrong with the data, for an object with a field of this name."""
    kind = attrs.make_class("Wide", {field: attrs.field(type=int)})
    router = Router(explain=True)

    @router.request_response()
    async def wide(value: kind) -> None: ...

    bound = await connected(router)
    with pytest.raises(Invalid) as caught:
        await bound.request_response(Payload(b'{"%s": "x"}' % field.encode()))
    return caught.value.message.partition("'application/json': ")[2]


async def test_a_long_reason_is_shortened():
    """It has 1000 characters at most."""
    field = "f" * 1100
    assert await reason_for(field) == f"value.{field}"[:1000] + "..."
    beside = len(await reason_for("f")) - 1
    longest = await reason_for("f" * (1000 - beside))
    assert len(longest) == 1000
    assert await reason_for("f" * (1001 - beside)) == longest.replace("f: ", "ff: ")[:1000] + "..."


@pytest.mark.parametrize(
    "metadata", [b"\xfe", Metadata(route="buy", extra=[(MIME.MIME_TYPE, b"")]).encode()]
)
async def test_unreadable_metadata_in_the_log(metadata, caplog):
    """The log names the peer, and the readable part of the request."""
    bound = await connected(make_router())
    with caplog.at_level(logging.INFO, "rsocket_trio"), pytest.raises(Invalid):
        await bound.request_response(Payload(b"", metadata))
    [record] = caplog.records
    request = "request_response" if metadata == b"\xfe" else "request_response 'buy'"
    assert record.getMessage().startswith(f"metadata refused: {request}")
    assert " from 10.0.0.1:4711: " in record.getMessage()


async def test_a_transport_without_an_address_in_the_log(caplog):
    """The log names its scheme."""
    bound = await connected(make_router(), peer=None)
    with caplog.at_level(logging.INFO, "rsocket_trio"), pytest.raises(Invalid):
        await bound.metadata_push(b"\xff")
    assert "metadata refused: metadata_push (" in caplog.text
    assert ") from tcp: the entry of" in caplog.text


def failing_router(error):
    router = Router()

    @router.request_response("a")
    async def respond() -> int:
        raise error

    @router.request_response("unwritable")
    async def unwritable() -> Item:
        return error

    @router.request_stream("a")
    async def stream() -> AsyncIterator[int]:
        yield 1
        raise error

    @router.request_stream("later")
    async def later() -> AsyncIterator[int]:
        raise error

    @router.fire_and_forget("a")
    async def forget() -> None:
        raise error

    @router.metadata_push()
    async def push() -> None:
        raise error

    return router


@pytest.mark.parametrize(
    ("interaction", "route"),
    [
        ("request_response", "a"),
        ("request_response", "unwritable"),
        ("request_stream", "a"),
        ("request_stream", "later"),
        ("fire_and_forget", "a"),
        ("metadata_push", None),
    ],
)
async def test_a_failure_names_its_request(interaction, route):
    """The logged traceback has a note: interaction, route, handler and peer."""
    error = RuntimeError("ouch")
    bound = await connected(failing_router(error))
    payload = b"" if route is None else Payload(b"", Metadata(route=route).encode())
    for _ in range(3):
        with pytest.raises(Exception) as caught:
            await ask(bound, interaction, payload)
        [note] = caught.value.__notes__
        start = f"while answering {interaction}" + (f" {route!r}" if route else "")
        assert note.startswith(f"{start} (tests.routing.test_refusals.failing_router.")
        assert note.endswith(" from 10.0.0.1:4711")


@pytest.mark.parametrize("interaction", ["request_response", "request_stream"])
async def test_a_failing_authenticator_names_its_request(interaction, caplog):
    """The log names the authenticator, also for an unregistered route; the peer learns nothing."""

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts):
            raise RuntimeError(SECRET)

    bound = await connected(make_router(authenticate=authenticate))
    with pytest.raises(ApplicationError, match="APPLICATION_ERROR: this request was not admitted"):
        await ask(bound, interaction, Payload(b"", Metadata(route="nowhere").encode()))
    [record] = caplog.records
    assert record.getMessage() == (
        f"authenticate= of a Router failed, so {interaction} 'nowhere' from 10.0.0.1:4711 was "
        f"refused: fix {__name__}.test_a_failing_authenticator_names_its_request.<locals>."
        "authenticate"
    )
    assert str(record.exc_info[1]) == SECRET


async def test_an_error_for_the_peer_has_no_note():
    """It is not logged."""
    error = Invalid("no")
    bound = await connected(failing_router(error))
    with pytest.raises(Invalid):
        await bound.request_response(Payload(b"", Metadata(route="a").encode()))
    assert not hasattr(error, "__notes__")


@attrs.frozen
class Part:
    sku: str
    quantity: int = attrs.field(default=1, validator=attrs.validators.gt(0))


@attrs.frozen
class Basket:
    parts: list[Part]
    owner: str
    sizes: tuple[int, str] = (1, "a")
    prices: dict[str, float] = attrs.field(factory=dict)


async def refused(router, data, route="buy"):
    bound = await connected(router)
    with pytest.raises(Invalid) as caught:
        await bound.request_response(Payload(data, Metadata(route=route).encode()))
    return caught.value


async def test_all_mistakes_are_told():
    """Each with its field, also those of validators, and none of them with a value."""
    router = Router(explain=True)

    @router.request_response("buy")
    async def buy(basket: Basket) -> None: ...

    error = await refused(
        router,
        b'{"parts":[{"sku":"a"},{"sku":7,"quantity":"geheim"},{"sku":"c","quantity":-1},{}],'
        b'"sizes":["geheim",1],"prices":{"geheim":"geheim","b":1,"c":[]}}',
    )
    assert error.fields == (
        ("basket.parts[1].sku", "expected str, got int"),
        ("basket.parts[1].quantity", "expected int, got str"),
        ("basket.parts[2].quantity", "Part refuses the value (ValueError)"),
        ("basket.parts[3].sku", "expected str, got nothing"),
        ("basket.owner", "expected str, got nothing"),
        ("basket.sizes[0]", "expected int, got str"),
        ("basket.sizes[1]", "expected str, got int"),
        ("basket.prices[value 0]", "expected float, got str"),
        ("basket.prices[value 2]", "expected float, got list"),
    )
    assert "geheim" not in error.message


async def test_sixteen_mistakes_are_enough():
    """Of a million, the text would be long, and the search too."""
    seen = []

    class Odd(int):
        def __new__(cls, value):
            seen.append(value)
            raise ValueError

    router = Router(explain=True)

    @router.request_response("buy")
    async def buy(basket: list[Odd]) -> None: ...

    error = await refused(router, b"[" + b"1," * 10_000 + b"1]")
    places = [place for place, _ in error.fields]
    assert places == [f"basket[{number}]" for number in range(14)]  # more is cut off
    assert len(seen) == 16


async def test_mistakes_are_told_only_if_the_router_explains():
    router = Router()

    @router.request_response("buy")
    async def buy(basket: Basket) -> None: ...

    assert (await refused(router, b"{}")).fields == ()
    assert Invalid("route 'a' cannot be read").fields == ()
    assert Invalid("this request expects int as 'x': v: no data").fields == (("v", "no data"),)


@pytest.mark.parametrize("taker", ["handler", "provider"])
async def test_what_another_wire_knows_is_missing_in_one_sentence(bind, taker):
    """A handler of rsio connections, served over something else, says which parameter it is."""
    router = Router()

    def read(peer: rsio.Connection) -> list[int]:
        return []

    async def of_handler(peer: rsio.Connection) -> None: ...
    async def of_provider(numbers: Annotated[list[int], Provided]) -> None: ...

    router.provide(list[int], read)
    router.request_response("x")(of_handler if taker == "handler" else of_provider)
    bound = await bind(router)
    with pytest.raises(TypeError) as caught:
        await bound.request_response(request(b"", "x"))
    assert str(caught.value).endswith(
        " takes a Connection as 'peer', and memory:// connections have none"
    )
