"""One declaration for both ends: `Router.add` serves what `Caller.of` and `Caller.call` call."""

import enum
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator
from typing import Annotated, Protocol
from uuid import UUID

import attrs
import pytest
import trio

from rsocket_trio import (
    Call,
    Caller,
    CodecError,
    Codecs,
    CustomError,
    Invalid,
    Metadata,
    Payload,
    PayloadBody,
    Principal,
    Provided,
    Requester,
    Router,
    SimpleAuthentication,
    declaration,
    fire_and_forget,
    injected,
    request_channel,
    request_response,
    request_stream,
)
from rsocket_trio.testing.in_memory import connected_pair


@attrs.frozen
class Message:
    text: str
    author: str = "?"


@declaration(prefix="chat.")
class Chat:
    """A service, of which there may be many objects."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting
        self.said: list[tuple[str, object]] = []

    @request_response()
    async def join(self, name: str = "nobody", *, peer: Requester = injected) -> str:
        assert isinstance(peer, Requester)
        return f"{self.greeting} {name}"

    @fire_and_forget("{room}.say")
    async def say(self, room: str, message: Message) -> None:
        self.said.append((room, message))

    @request_stream("{room}.messages")
    async def messages(self, room: str, limit: int = 2) -> AsyncIterator[Message]:
        for number in range(limit):
            yield Message(f"{room} {number}")

    @request_channel("shout")
    async def shout(self, texts: AsyncIterable[str]) -> AsyncIterator[str]:
        async for text in texts:
            yield text.upper()

    async def helper(self) -> str:
        return self.greeting


async def words():
    yield "a"
    yield "b"


async def test_a_class_is_served_by_object_and_called_by_type():
    """Every interaction: routes, variables, defaults, what the server fills, and the types."""
    service = Chat("hello")
    router = Router()
    router.add(service)
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        assert caller.requester is requester
        chat = caller.of(Chat)
        assert await chat.join("trio") == "hello trio"
        assert await chat.join() == "hello nobody"
        assert await chat.join(name="you") == "hello you"
        await chat.say("lobby", Message("hi", author="me"))
        async with chat.messages("lobby") as items:
            assert [item async for item in items] == [Message("lobby 0"), Message("lobby 1")]
        async with chat.messages(limit=1, room="x") as items:
            assert await items.receive() == Message("x 0")
        for source in (words(), ["a", "b"]):
            async with chat.shout(source) as texts:
                assert [text async for text in texts] == ["A", "B"]
        assert repr(chat) == "<caller of Chat>"
        with pytest.raises(AttributeError, match="Chat declares no 'helper'"):
            await chat.helper()
    assert service.said == [("lobby", Message("hi", author="me"))]
    assert [each.route for each in router.describe()] == [
        "chat.join",
        "chat.{room}.say",
        "chat.{room}.messages",
        "chat.shout",
    ]


async def test_one_class_serves_several_routers():
    """The marks hold nothing of a router: two objects under two prefixes answer for themselves."""
    router = Router()
    for prefix in ("one.", "two."):
        part = Router(prefix="of.")
        part.add(Chat(prefix))
        router.include(part, prefix)
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        assert await caller.of(Chat, prefix="one.of.").join("x") == "one. x"
        assert await caller.of(Chat, prefix="two.of.").join("x") == "two. x"
        with pytest.raises(Invalid):
            await caller.of(Chat).join("x")


@request_response("greet")
async def greet(name: str, call: Call = injected) -> str:
    return f"hello {name} on {call.route.name}"


@request_stream()
async def count(end: int) -> AsyncIterator[int]:
    for number in range(end):
        yield number


async def test_functions():
    """One function is served and called alike, and stays one that can be called itself."""
    router = Router()
    router.add(greet)
    router.add(count)
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        assert await caller.call(greet, "trio") == "hello trio on greet"
        async with caller.call(count, 3) as numbers:
            assert [number async for number in numbers] == [0, 1, 2]
    assert [number async for number in count(2)] == [0, 1]


class Board(Protocol):
    @request_response("read.{key}")
    async def read(self, key: UUID) -> str | None: ...

    @request_stream("watch")
    def watch(self, key: UUID | None = None) -> AsyncIterator[str]: ...


class Memory:
    def __init__(self) -> None:
        self.texts: dict[UUID, str] = {}

    async def read(self, key: UUID, user: Annotated[str, Principal]) -> str | None:
        return user + self.texts[key] if key in self.texts else None

    async def watch(self, key: UUID | None = None) -> AsyncIterator[str]:
        for each, text in self.texts.items():
            if key in (None, each):
                yield text


async def only_alice(auth, facts):
    return getattr(auth, "username", None)


async def test_a_protocol_without_an_implementation():
    """The object need not know the protocol; what the server fills is not in it."""
    board = Memory()
    router = Router(authenticate=only_alice)
    router.add(board, as_=Board)
    key = UUID(int=7)
    board.texts[key] = "seven"
    async with connected_pair(router) as requester:
        alice = Metadata(auth=SimpleAuthentication("alice", "secret"))
        client = Caller(requester).of(Board, metadata=alice, prefetch=1)
        assert await client.read(key) == "aliceseven"
        assert await client.read(UUID(int=1)) is None
        async with client.watch() as texts:
            assert [text async for text in texts] == ["seven"]
        async with client.watch(key) as texts:
            assert [text async for text in texts] == ["seven"]


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"


@request_response("v.{text}.{number}.{colour}.{rest...}")
async def variables(text: str, number: int, colour: Colour, rest: str) -> str:
    return repr((text, number, colour.name, rest))


async def test_variables_go_both_ways():
    """What the caller writes into a route is what the handler reads, and never another route."""
    router = Router()
    router.add(variables)
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        for values in (
            ("ä b", -3, Colour.RED, "a/b.c"),
            ('"', 0, Colour.GREEN, "."),
            ("{x}", 10**20, Colour.RED, "7"),
            ("null", 1, Colour.RED, "{rest...}"),
        ):
            wanted = repr((*values[:2], values[2].name, values[3]))
            assert await caller.call(variables, *values) == wanted
        for text, rest in (("a.b", "x"), ("a/b", "x"), ("", "x"), ("a", "")):
            with pytest.raises(ValueError, match="is a part of the route, so it may not be empty"):
                caller.call(variables, text, 1, Colour.RED, rest)
        with pytest.raises(CodecError, match=r"variables: number: expected int, got str"):
            caller.call(variables, "a", "1", Colour.RED, "x")
        with pytest.raises(CodecError, match=r"variables: text: expected str, got int"):
            caller.call(variables, 1, 1, Colour.RED, "x")


async def test_arguments_are_those_declared():
    """Mistakes are raised before anything is sent, and name the method."""
    async with connected_pair(Router()) as requester:
        chat = Caller(requester).of(Chat)
        with pytest.raises(TypeError, match="say: missing a required argument: 'message'"):
            await chat.say("lobby")
        with pytest.raises(TypeError, match="join: got an unexpected keyword argument 'peer'"):
            await chat.join("x", peer=requester)
        with pytest.raises(CodecError, match="Message"):
            await chat.say("lobby", "text")


def test_a_stream_of_an_object_is_opened_by_a_caller():
    """Type checkers see the caller's side of it, so the object itself must not give another."""
    with pytest.raises(TypeError, match=r"`caller.of\(Chat\)` opens; .* Chat.messages\(the obj"):
        Chat("x").messages("lobby")
    assert isinstance(Chat.messages(Chat("x"), "lobby"), AsyncIterator)


def fits(cls):
    Router().add(cls(), as_=Board)


def test_an_object_that_does_not_fit_is_refused():
    """Each way to differ from the declaration has its text."""

    class Missing:
        async def read(self, key: UUID) -> str | None: ...

    class Renamed(Memory):
        async def read(self, name: UUID) -> str | None: ...

    class OtherType(Memory):
        async def read(self, key: int) -> str | None: ...

    class OtherResult(Memory):
        async def read(self, key: UUID) -> str: ...

    class More(Memory):
        async def read(self, key: UUID, more: int) -> str | None: ...

    class Demanding(Memory):
        async def watch(self, key: UUID | None) -> AsyncIterator[str]:
            yield ""

    class NoStream(Memory):
        async def watch(self, key: UUID | None = None) -> str: ...

    class Inherited(Board):
        async def read(self, key: UUID) -> str | None: ...

    for cls, text in (
        (Missing, "has no method 'watch'"),
        (Renamed, "it has no parameter 'key'"),
        (OtherType, "its parameter 'key' is int, and not UUID"),
        (OtherResult, r"it returns str, and not str \| None"),
        (More, "callers do not give 'more'"),
        (Demanding, "its parameter 'key' needs a default"),
        (NoStream, "its answer is a stream"),
        (Inherited, "watch is declared, and has to be written"),
    ):
        with pytest.raises(TypeError, match=text):
            fits(cls)


def test_nothing_is_added_if_one_method_is_refused():
    """A service is there as a whole, or not at all."""
    router = Router()

    @router.request_channel("chat.shout")
    async def taken(texts: AsyncIterable[str]) -> AsyncIterator[str]:
        yield ""

    with pytest.raises(ValueError, match="has a request_channel handler already"):
        router.add(Chat("x"))
    assert [each.route for each in router.describe()] == ["chat.shout"]


async def test_a_subclass_implements_what_its_base_declares():
    """Also an abstract one. Marked again, a stream is typed; its route stays that of the base."""

    class Clock(ABC):
        @request_response("now")
        @abstractmethod
        async def time(self) -> int: ...

        @request_stream("ticks")
        @abstractmethod
        def ticks(self) -> AsyncIterator[int]: ...

    with pytest.raises(TypeError, match="abstract"):
        Clock()

    class Real(Clock):
        async def time(self) -> int:
            return 5

        @request_stream()
        async def ticks(self) -> AsyncIterator[int]:
            yield 1

    router = Router()
    router.add(Real())
    async with connected_pair(router) as requester:
        clock = Caller(requester).of(Clock)
        assert await clock.time() == 5
        async with clock.ticks() as ticks:
            assert await ticks.receive() == 1

    class Moved(Clock):
        @request_stream("other")
        async def ticks(self) -> AsyncIterator[int]:
            yield 1

    with pytest.raises(TypeError, match="is marked otherwise than in"):
        Caller(requester).of(Moved)


def test_marks_that_have_no_effect_are_refused():
    """They would be missed only when the first request comes."""
    with pytest.raises(TypeError, match=r"write @request_response\(\) or"):
        request_response(greet)
    with pytest.raises(TypeError, match="is no async function"):
        request_response()(lambda: None)
    with pytest.raises(ValueError, match="cannot be a route"):
        request_stream("{")
    with pytest.raises(TypeError, match="cannot be marked"):
        request_stream()(Chat("x"))

    class Static:
        @staticmethod
        @request_response()
        async def f() -> None: ...

    class Bare:
        async def f(self) -> None: ...

    for wrong, text in ((Static(), "no method of an object"), (Bare(), "no method of .* is")):
        with pytest.raises(TypeError, match=text):
            Router().add(wrong)
    with pytest.raises(TypeError, match="Chat is a class"):
        Router().add(Chat)
    with pytest.raises(TypeError, match="cannot be injected"):
        request = request_response()

        @request
        async def f(name: str = injected) -> None: ...

        Router().add(f)


async def test_what_a_caller_cannot_call():
    """It is said when the object is made, and not by the first call."""

    @request_response("raw")
    async def raw(payload: Payload) -> None: ...

    @request_response("body")
    async def body(body: PayloadBody) -> None: ...

    @request_response("answer")
    async def answer() -> Payload: ...

    @request_channel("first")
    async def first(head: int, items: AsyncIterable[int]) -> AsyncIterator[int]:
        yield 1

    @request_response("odd")
    async def odd(value: trio.Event) -> None: ...

    async with connected_pair(Router()) as requester:
        caller = Caller(requester)
        for function in (raw, body, answer, first, odd):
            with pytest.raises(TypeError, match="a Caller cannot call it"):
                caller.call(function, 1)
        with pytest.raises(TypeError, match="is not marked"):
            caller.call(words)
        with pytest.raises(TypeError, match=r"call Chat by Caller\.of"):
            caller.call(Chat)
        with pytest.raises(TypeError, match=r"Caller\.call"):
            caller.of(greet)


async def test_codecs_and_middleware():
    """The caller's codecs write the arguments; the blocks of ``add`` are around each method."""
    seen = []

    async def block(call):
        seen.append(call.route.template)
        yield

    codecs = Codecs(enums="name")

    @request_response("paint.{colour}")
    async def paint(colour: Colour, other: Colour) -> Colour:
        return other

    router = Router(codecs=codecs)
    router.add(paint, middleware=[block])
    async with connected_pair(router) as requester:
        caller = Caller(requester, codecs=codecs)
        assert await caller.call(paint, Colour.RED, Colour.GREEN) is Colour.GREEN
    assert seen == ["paint.{colour}"]


async def test_demand_by_hand():
    """A Caller's streams can be asked for by hand, as a Requester's can."""
    router = Router()
    router.add(count)
    async with connected_pair(router) as requester:
        opened = Caller(requester).request_stream(
            "count", 5, returns=int, prefetch=0, initial_request_n=2
        )
        async with opened as numbers:
            assert [await numbers.receive(), await numbers.receive()] == [0, 1]
            numbers.request_n(1)
            assert await numbers.receive() == 2
            assert numbers.statistics().received == 3


async def test_what_is_provided_is_not_given():
    """What the server's router provides is no argument of a call, as the rest that it fills."""

    class Counts:
        tea = 3

    class Stock:
        @request_response("stock.{item}")
        async def count(self, item: str, *, known: Annotated[Counts, Provided] = injected) -> int:
            return getattr(known, item)

    router = Router()
    router.provide(Counts, Counts())
    router.add(Stock())
    async with connected_pair(router) as requester:
        assert await Caller(requester).of(Stock).count("tea") == 3
    (described,) = router.describe()
    assert [each.name for each in described.arguments] == ["item"]


class SoldOut(CustomError):
    """There is none left."""

    default_code = 0x1001


class Closed(SoldOut):
    default_code = 0x1002


@declaration(prefix="market.", errors=[SoldOut, Closed])
class Market(Protocol):
    @request_response()
    async def buy(self, item: str) -> int: ...

    @request_stream()
    def prices(self, item: str) -> AsyncIterator[int]: ...

    @request_channel()
    def orders(self, items: AsyncIterable[str]) -> AsyncIterator[int]: ...


class Stall:
    """Each method fails in the way that its argument names."""

    async def buy(self, item: str) -> int:
        raise {"none": SoldOut("no tea"), "shut": Closed(), "odd": CustomError(code=0x1003)}[item]

    async def prices(self, item: str) -> AsyncIterator[int]:
        yield 1
        await self.buy(item)

    async def orders(self, items: AsyncIterable[str]) -> AsyncIterator[int]:
        async for item in items:
            yield 1
            await self.buy(item)


async def bought(market, item):
    await market.buy(item)


async def priced(market, item):
    async with market.prices(item) as prices:
        assert await prices.receive() == 1
        await prices.receive()


async def ordered(market, item):
    async with market.orders([item]) as numbers:
        async for number in numbers:
            assert number == 1


@pytest.mark.parametrize("use", [bought, priced, ordered])
@pytest.mark.parametrize(
    ("item", "kind", "code"),
    [("none", SoldOut, 0x1001), ("shut", Closed, 0x1002), ("odd", CustomError, 0x1003)],
)
async def test_declared_errors_come_back_as_their_classes(use, item, kind, code):
    """In every interaction with an answer; others stay what they are, and all are the peer's."""
    router = Router()
    router.add(Stall(), as_=Market)
    async with connected_pair(router) as requester:
        market = Caller(requester).of(Market)
        with pytest.raises(CustomError) as caught:
            await use(market, item)
    assert (type(caught.value), caught.value.code) == (kind, code)
    assert caught.value.message == ("no tea" if item == "none" else "")
    assert caught.value.of_our_request


async def test_exceptions_become_declared_errors():
    """The map of a router makes the error that the declaration names."""
    router = Router(errors={KeyError: SoldOut("no such thing")})
    router.add(Stall(), as_=Market)
    async with connected_pair(router) as requester:
        with pytest.raises(SoldOut, match="no such thing"):
            await Caller(requester).of(Market).buy("unknown")


def test_errors_that_cannot_be_told_apart_are_refused():
    class Twin(CustomError):
        default_code = 0x1001

    class NoCode(CustomError): ...

    for errors, error, text in [
        ([SoldOut, Twin], ValueError, "SoldOut and Twin have one code, 0x1001"),
        ([NoCode], ValueError, "NoCode.default_code must be 0x301 or more, not 0x201"),
        ([Invalid], TypeError, "errors= takes subclasses of CustomError, not Invalid"),
        ([SoldOut()], TypeError, "errors= takes subclasses of CustomError, not SoldOut"),
    ]:
        with pytest.raises(error, match=text):
            declaration(errors=errors)
