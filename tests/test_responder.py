"""The responder without handlers, and the kinds of acceptors."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import Annotated

import pytest
import trio.testing

from rsocket_trio import (
    BearerAuthentication,
    Caller,
    ConnectionConfig,
    Invalid,
    Metadata,
    Payload,
    PayloadBody,
    Principal,
    Rejected,
    RejectedSetup,
    Requester,
    Responder,
    ResponderWrapper,
    Router,
    Setup,
    TransportInfo,
)
from rsocket_trio.metadata import MIME
from rsocket_trio.responder import accept_with, check_responder
from rsocket_trio.testing.in_memory import connected_pair

SETUP = Setup(
    data_mime_type="a/b",
    metadata_mime_type="c/d",
    keepalive_interval=1.0,
    max_lifetime=2.0,
    transport=TransportInfo(scheme="memory"),
)


async def test_interactions_without_a_handler_are_invalid():
    """Each interaction without a handler answers INVALID; the two silent ones do nothing."""
    async with connected_pair(Responder()) as requester:
        with pytest.raises(Invalid, match="does not answer request_response"):
            await requester.request_response()
        async with requester.request_stream() as items:
            with pytest.raises(Invalid, match="does not answer request_stream"):
                await items.receive()
        async with requester.request_channel([Payload()]) as replies:
            with pytest.raises(Invalid, match="does not answer request_channel"):
                await replies.receive()
        await requester.fire_and_forget()
        await requester.metadata_push(b"x")
        await trio.testing.wait_all_tasks_blocked()
        assert not requester.closed


async def test_kinds_of_acceptors():
    """A responder accepts itself; a function decides; anything else is a TypeError."""
    responder = Responder()
    assert await accept_with(responder, SETUP, None) is responder

    async def function(setup, requester):
        assert setup is SETUP
        return responder

    assert await accept_with(function, SETUP, None) is responder

    async def wrong(setup, requester):
        return "responder"

    with pytest.raises(TypeError, match="must return a Responder, not str"):
        await accept_with(wrong, SETUP, None)


class Front(Responder):
    """Answers with the given responder, and counts its calls."""

    def __init__(self, behind=None):
        self.behind = self if behind is None else behind
        self.asked = 0

    async def accept(self, setup, requester):
        self.asked += 1
        return self.behind


class Refusing(Responder):
    async def accept(self, setup, requester):
        raise RejectedSetup("no")


async def test_returned_acceptors_are_called_too():
    """The responder that an acceptor returns is called in turn, so no refusal is left out."""

    async def function(setup, requester):
        return front

    front = Front(Refusing())
    for acceptor in (function, front):
        with pytest.raises(RejectedSetup, match="no"):
            await accept_with(acceptor, SETUP, None)
    front.behind = Front()
    assert await accept_with(function, SETUP, None) is front.behind
    assert (front.asked, front.behind.asked) == (3, 0)
    front.behind = "responder"
    with pytest.raises(TypeError, match="must return a Responder, not str"):
        await accept_with(function, SETUP, None)


async def test_a_new_object_for_each_connection():
    """A class may return an object of its own class or of a subclass, which is not called again."""

    class Chat(Responder):
        made = 0

        async def accept(self, setup, requester):
            Chat.made += 1
            return (Special if Chat.made % 2 else Chat)()

    class Special(Chat): ...

    for _ in range(2):
        assert isinstance(await accept_with(Chat(), SETUP, None), Chat)
    assert Chat.made == 2


def make_router(**settings):
    router = Router(**settings)

    @router.request_response("greet")
    async def greet(user: Annotated[str | None, Principal]) -> str:
        return f"hello {user}"

    @router.request_stream("greet")
    async def stream(user: Annotated[str | None, Principal]) -> AsyncIterator[str]:
        yield f"hello {user}"

    return router


async def authenticate(auth, facts):
    if auth is None and facts.principal is None:
        raise Rejected("who are you?")
    return facts.principal if auth is None else auth.token


def acceptors(router):
    """All the ways to return this router."""

    async def function(setup, requester):
        return router

    class Behind(Responder):
        async def accept(self, setup, requester):
            return router

    async def nested(setup, requester):
        return Behind()

    async def bound(setup, requester):
        return await router.accept(setup, requester)

    class Special(Router):
        async def accept(self, setup, requester):
            return router

    return [router, function, Behind(), nested, bound, Special()]


@pytest.mark.parametrize("way", range(6))
async def test_a_router_behind_an_acceptor(way):
    """It serves as if it had been given to `serve`, with its guards."""
    called = []

    async def on_setup(setup, requester):
        called.append(setup.principal)

    router = make_router(authenticate=authenticate, on_setup=on_setup)
    acceptor = acceptors(router)[way]
    setup = Payload(b"", Metadata(auth=BearerAuthentication("ada")).encode())
    async with connected_pair(acceptor, setup=setup, data_mime_type=MIME.TEXT) as requester:
        assert (await requester.request_response(route="greet")).data == b"hello ada"
        async with requester.request_stream(route="greet") as items:
            assert [item.data async for item in items] == [b"hello ada"]
    with pytest.raises(RejectedSetup, match="who are you"):
        async with connected_pair(acceptor):
            raise AssertionError("connected")
    assert called == ["ada"]


async def test_a_router_of_the_client_behind_an_acceptor():
    """It serves the server's requests in the same way."""
    router = Router()

    @router.request_response("introduce")
    async def introduce(peer: Requester) -> bytes:
        return (await peer.request_response(route="name")).data

    mine = Router()

    @mine.request_response("name")
    async def name() -> bytes:
        return b"client"

    async def accept(setup, requester):
        return mine

    async with connected_pair(router, client_responder=accept) as requester:
        assert (await requester.request_response(route="introduce")).data == b"client"


async def test_a_router_without_a_connection():
    """A call of the router itself is an error that names the right call."""
    for method in ("request_response", "fire_and_forget", "request_stream"):
        with pytest.raises(
            TypeError, match="a Router is given to serve or returned by an acceptor"
        ):
            getattr(make_router(), method)(Payload())


# -- responders around others ---------------------------------------------------------------------


def test_a_wrapper_passes_on_everything():
    """A method that `Responder` gets must be passed on, too; so none can be forgotten."""
    methods = {name for name in vars(Responder) if not name.startswith("_")}
    assert methods == {name for name in vars(ResponderWrapper) if not name.startswith("_")}
    with pytest.raises(TypeError, match="wrapped"):
        ResponderWrapper(5)


async def test_a_wrapper_changes_nothing_but_what_it_overrides():
    """Lifespan, connection block, fragments and each interaction get to the router behind it."""
    trace, seen = [], []

    async def lifespan():
        trace.append("lifespan")
        yield

    router = Router(lifespan=lifespan)

    @router.connection
    async def connection():
        trace.append("connection")
        yield

    @router.request_response("size")
    async def size(data: bytes) -> int:
        return len(data)

    @router.request_stream("sizes")
    async def sizes(body: PayloadBody) -> AsyncIterator[int]:
        yield sum([len(part) async for part in body])

    @router.request_channel("double")
    async def double(items: AsyncIterator[int]) -> AsyncIterator[int]:
        async for item in items:
            yield 2 * item

    class Watching(ResponderWrapper):
        async def request_response(self, payload):
            seen.append(len(payload.data))
            return await super().request_response(payload)

    config = ConnectionConfig(fragment_size=1000)
    async with connected_pair(Watching(router), config=config) as requester:
        caller = Caller(requester)
        for data in (b"x", bytes(10_000)):
            assert await caller.request_response("size", data, returns=int) == len(data)
        async with caller.request_stream("sizes", bytes(10_000), returns=int) as items:
            assert [item async for item in items] == [10_000]
        async with caller.request_channel("double", [1, 2], returns=int) as items:
            assert [item async for item in items] == [2, 4]
    assert trace == ["lifespan", "connection"]
    assert seen == [1, 10_000]


class Misspelt(Responder):
    async def request_responce(self, payload):
        return payload


class MisspeltWrapper(ResponderWrapper):
    async def request_response(self, payload):
        return payload

    def requestStream(self, payload):  # noqa: N802
        return payload


class MisspeltStatic(Responder):
    @staticmethod
    async def request_responce(payload):
        return payload


def logged(function):
    @functools.wraps(function)
    async def run(*args, **kwargs):
        return await function(*args, **kwargs)

    return run


class MisspeltDecorated(Responder):
    @logged
    async def request_responce(self, payload):
        return payload


def wraps_itself():
    wrapper = ResponderWrapper(Router())
    wrapper.wrapped = ResponderWrapper(wrapper)
    return wrapper


class Nothing(Responder):
    def helper(self):
        return 1


class NothingAround(ResponderWrapper):
    pass


@pytest.mark.parametrize(
    ("responder", "text"),
    [
        (Misspelt(), "Misspelt.request_responce is never called: name it request_response"),
        (MisspeltWrapper(Router()), "requestStream is never called: name it request_stream"),
        (ResponderWrapper(Misspelt()), "request_responce is never called"),
        (MisspeltStatic(), "MisspeltStatic.request_responce is never called"),
        (MisspeltDecorated(), "MisspeltDecorated.request_responce is never called"),
        (wraps_itself(), "the ResponderWrapper wraps itself"),
        (Nothing(), "Nothing overrides none of the methods that are called: accept, "),
        (NothingAround(Router()), "NothingAround overrides none"),
    ],
)
async def test_methods_that_would_never_run_are_refused(responder, text):
    """Where the object is given, and for a responder that ``accept`` returns, with its connection.

    A guard that is never called would leave everything open, and nobody would know.
    """
    with pytest.raises(TypeError, match=text):
        async with connected_pair(responder):
            pass

    async def accept(setup, requester):
        return responder

    with pytest.raises(TypeError, match=text):
        await accept_with(accept, None, None)


async def test_methods_of_an_object_count_and_helpers_do_not():
    """A method may be an attribute of the object; a helper with other parameters is none."""
    late = Nothing()
    late.request_response = Router().request_response

    class Helped(Responder):
        def request_streams(self):
            return []

        async def request_response(self, payload):
            return payload

    for responder in (late, Helped(), Responder(), ResponderWrapper(Responder())):
        check_responder(responder)
