"""Authentication of connections and of requests, and the principal in handlers."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import attrs
import pytest
from trio.abc import ReceiveChannel

from rsocket_trio import (
    ApplicationError,
    BearerAuthentication,
    Invalid,
    InvalidSetup,
    Metadata,
    Payload,
    Principal,
    Rejected,
    RejectedSetup,
    RequestFacts,
    Route,
    Router,
    Setup,
    SimpleAuthentication,
)
from rsocket_trio.metadata import MIME
from rsocket_trio.routing import Interaction
from rsocket_trio.testing.in_memory import connected_pair


@attrs.frozen
class User:
    name: str


ADA = Metadata(auth=SimpleAuthentication("ada", "secret"))
EVE = Metadata(auth=SimpleAuthentication("eve", "guess"))


class Door:
    """An authenticator that admits ada; strangers may connect."""

    def __init__(self):
        self.asked = []

    async def __call__(self, auth, facts):
        self.asked.append((auth, facts))
        match auth:
            case SimpleAuthentication(username=name, password=password):
                if password == "secret":
                    return User(name)
                raise Rejected("wrong password")
            case None:
                return facts.principal
        raise Rejected("no tokens here")


def make_router(door):
    router = Router(authenticate=door)

    @router.request_response("me")
    async def me(user: Annotated[User, Principal]) -> bytes:
        return user.name.encode()

    @router.request_response("anybody")
    async def anybody(user: Annotated[User | None, Principal], data: bytes) -> bytes:
        return b"nobody" if user is None else user.name.encode()

    @router.request_stream("me")
    async def stream(*, user: Annotated[User, Principal]) -> AsyncIterator[bytes]:
        yield user.name.encode()

    @router.request_channel("me")
    async def channel(
        items: ReceiveChannel[bytes], user: Annotated[User, Principal]
    ) -> ReceiveChannel[bytes]:
        return items

    @router.fire_and_forget("me")
    async def note(user: Annotated[User, Principal]) -> None:
        router.noted = user

    @router.metadata_push()
    async def push(metadata: bytes, user: Annotated[Any, Principal]) -> None:
        router.noted = user

    return router


def setup_of(metadata):
    return Payload(b"", metadata.encode())


async def collect(opened):
    async with opened as items:
        return [item.data async for item in items]


async def test_every_interaction_knows_the_principal():
    """Requests without credentials have the SETUP's principal; the authenticator sees each one."""
    door = Door()
    router = make_router(door)
    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert (await requester.request_response(route="me")).data == b"ada"
        assert await collect(requester.request_stream(route="me")) == [b"ada"]
        assert await collect(requester.request_channel([Payload(b"x")], route="me")) == [b"x"]
        await requester.fire_and_forget(route="me")
        await requester.request_response(route="me")
        assert router.noted == User("ada")
        del router.noted
        await requester.metadata_push(Metadata(route="me").encode())
        await requester.request_response(route="me")
        assert router.noted == User("ada")
    (auth, setup), *requests = door.asked
    assert auth == ADA.auth
    assert isinstance(setup, Setup)
    assert setup.principal is None
    assert [auth for auth, _ in requests] == [None] * 7
    assert [facts.interaction.value for _, facts in requests] == [
        "request_response", "request_stream", "request_channel", "fire_and_forget",
        "request_response", "metadata_push", "request_response",
    ]  # fmt: skip
    assert {facts.principal for _, facts in requests} == {User("ada")}


async def test_credentials_of_a_request_replace_those_of_the_setup():
    """The facts for the authenticator name interaction and route of the request."""
    door = Door()
    bob = Metadata(auth=SimpleAuthentication("bob", "secret"), route="me", tags=("eu",))
    async with connected_pair(make_router(door), setup=setup_of(ADA)) as requester:
        for _ in range(2):
            assert (await requester.request_response(metadata=bob)).data == b"bob"
        with pytest.raises(Rejected, match="wrong password"):
            await requester.request_response(route="me", metadata=EVE)
    auth, facts = door.asked[1]
    assert auth == bob.auth
    assert isinstance(facts, RequestFacts)
    assert (facts.interaction, facts.route) == (Interaction.REQUEST_RESPONSE, Route("me", ("eu",)))
    assert facts.setup == attrs.evolve(door.asked[0][1], principal=User("ada"))
    assert facts.principal == User("ada")
    assert facts.outer_principal is None
    assert len(door.asked) == 4


async def test_requests_of_a_connection_without_a_principal():
    """Each request is authenticated by itself; a handler may require a principal."""
    door = Door()
    async with connected_pair(make_router(door)) as requester:
        answer = await requester.request_response(route="anybody")
        assert answer.data == b"nobody"
        with pytest.raises(Rejected, match="authentication is needed"):
            await requester.request_response(route="me")
        assert (await requester.request_response(route="me", metadata=ADA)).data == b"ada"
    assert [auth for auth, _ in door.asked] == [None, None, None, ADA.auth]


async def test_strangers_learn_no_routes():
    """A request is authenticated before its route is looked up."""

    async def authenticate(auth, facts):
        if auth is None and isinstance(facts, RequestFacts):
            raise Rejected("who are you?")

    async with connected_pair(Router(authenticate=authenticate)) as requester:
        with pytest.raises(Rejected, match="who are you"):
            await requester.request_response(route="nowhere")
        with pytest.raises(Invalid, match="no request_response handler for route 'nowhere'"):
            await requester.request_response(route="nowhere", metadata=ADA)


@pytest.mark.parametrize(
    ("metadata", "kind", "text"),
    [
        (EVE.encode(), RejectedSetup, "wrong password"),
        (Metadata(auth=BearerAuthentication("t")).encode(), RejectedSetup, "no tokens here"),
        (b"\xfc\x00\x00\x09\x80", InvalidSetup, "cannot be read"),
        (b"\xfc\x00\x00\x02\x81\xff", InvalidSetup, "cannot be read"),
    ],
)
async def test_a_refused_setup_gets_the_reason(metadata, kind, text):
    """A client that is refused gets the reason; damaged credentials are refused too."""
    with pytest.raises(kind, match=text):
        async with connected_pair(make_router(Door()), setup=Payload(b"", metadata)):
            raise AssertionError("connected")


async def test_a_setup_error_for_a_request():
    """An authenticator may raise the same error for both: a request is answered with REJECTED."""

    async def authenticate(auth, facts):
        if auth is None:
            return
        raise RejectedSetup("no")

    async with connected_pair(Router(authenticate=authenticate)) as requester:
        with pytest.raises(Rejected, match="REJECTED: no"):
            await requester.request_response(metadata=ADA)


async def test_damaged_authentication_is_refused():
    """Credentials that cannot be read are not treated as missing."""
    door = Door()
    async with connected_pair(make_router(door), setup=setup_of(ADA)) as requester:
        for damaged in (b"\xfc\0\0\2\x81\xff", b"\xfc\0\0\xff", b"\xd0"):
            with pytest.raises(Invalid, match="cannot be read"):
                await requester.request_response(Payload(b"", damaged), route="me")
    assert len(door.asked) == 1


async def test_a_metadata_push_is_authenticated(bind):
    """A push is authenticated like a request; damaged credentials are refused."""
    door = Door()
    router = make_router(door)
    bound = await bind(router)
    await bound.metadata_push(ADA.encode())
    assert router.noted == User("ada")
    with pytest.raises(Rejected):
        await bound.metadata_push(EVE.encode())
    with pytest.raises(Invalid):
        await bound.metadata_push(b"\xd0")


async def test_a_connection_of_authentication_metadata(bind):
    """If all metadata are authentication, they are read as credentials."""
    router = Router(authenticate=Door())

    @router.request_response()
    async def me(user: Annotated[User, Principal]) -> bytes:
        return user.name.encode()

    bound = await bind(router, metadata=MIME.AUTHENTICATION)
    assert (await bound.request_response(Payload(b"", ADA.auth.encode()))).data == b"ada"


async def test_a_handler_with_a_principal_needs_an_authenticator(caplog):
    """Without one in the router the handler does not run."""
    router = Router()

    @router.request_response("me")
    async def me(user: Annotated[User | None, Principal]) -> None:
        raise AssertionError("run")

    async with connected_pair(router) as requester:
        with pytest.raises(ApplicationError, match="the handler failed"):
            await requester.request_response(route="me", metadata=ADA)
    assert "give it authenticate=" in caplog.text


async def test_an_authenticated_request_may_complete_without_a_payload():
    router = Router(authenticate=Door())

    @router.request_response("nothing")
    async def nothing() -> None: ...

    async with connected_pair(router) as requester:
        assert await requester.request_response(route="nothing") is None
