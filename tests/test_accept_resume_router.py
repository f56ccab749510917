"""Admission to a session on resumption, by routers and their authenticators."""

from __future__ import annotations

from typing import Annotated, Any

import attrs
import pytest

from rsocket_trio import (
    Metadata,
    Principal,
    Rejected,
    RejectedResume,
    RequestFacts,
    ResumeFacts,
    Router,
    Setup,
)
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    PayloadFrame,
    RequestResponseFrame,
)
from tests.resumable_server import KEY, NO_SESSION, OK, RESUME, Server


@attrs.define(slots=False)
class Door:
    """An authenticator that notes the connections it is asked about."""

    asked: list = attrs.field(factory=list)
    banned: set = attrs.field(factory=set)

    async def __call__(self, auth, facts):
        self.asked.append((auth, type(facts), facts.principal))
        principal = facts.principal if auth is None else auth.token
        if principal is None:
            raise Rejected("who are you?")
        if principal in self.banned:
            raise Rejected("banned")
        return principal


def make_router(door, **settings):
    router = Router(authenticate=door, **settings)

    @router.request_response("who")
    async def who(user: Annotated[Any, Principal]) -> str:
        return user

    return router


async def test_the_authenticator_is_called_for_each_resume(nursery):
    """It gets the principal of the SETUP; its result is the principal from then on."""
    door = Door()
    server = Server(nursery, make_router(door))
    async with server.session(KEY):
        pass
    async with server.dial() as peer:
        await peer.send(RESUME)
        assert await peer.receive() == OK
        await peer.send(RequestResponseFrame(1, metadata=Metadata(route="who").encode()))
        assert (await peer.receive(PayloadFrame)).data == b"ada"
    assert door.asked == [
        (KEY, Setup, None),
        (None, ResumeFacts, "ada"),
        (None, RequestFacts, "ada"),
    ]
    door.banned.add("ada")
    answer = await server.resume()
    assert (answer.code, answer.data) == (ErrorCode.REJECTED_RESUME, b"banned")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("principal", ["eve", None])
async def test_another_principal_does_not_resume(nursery, principal, caplog):
    """An authenticator that knows clients by their transport finds another principal."""
    caplog.set_level("INFO")

    async def authenticate(auth, facts):
        if isinstance(facts, ResumeFacts):
            return principal if facts.transport.peer == "elsewhere" else facts.principal
        return "ada"

    server = Server(nursery, make_router(authenticate))
    async with server.session():
        pass
    assert await server.resume(peer="elsewhere") == NO_SESSION
    assert "another principal" in caplog.text
    assert await server.resume() == OK
    nursery.cancel_scope.cancel()


async def test_a_session_without_a_principal(nursery):
    """If the SETUP has no principal there is none to compare with."""

    async def authenticate(auth, facts):
        return "ada" if isinstance(facts, ResumeFacts) else None

    server = Server(nursery, make_router(authenticate))
    async with server.session():
        pass
    assert await server.resume() == OK
    nursery.cancel_scope.cancel()


async def test_a_router_compares_transports(nursery):
    """The default check holds beside the authenticator, and before it."""
    door = Door()
    server = Server(nursery, make_router(door))
    async with server.session(KEY, listener="one"):
        pass
    assert await server.resume(listener="two") == NO_SESSION
    assert len(door.asked) == 1
    nursery.cancel_scope.cancel()


async def test_on_resume_replaces_the_default(nursery):
    """``on_resume`` replaces the default, and the authenticator is still called."""
    seen = []

    async def on_resume(facts):
        seen.append((facts.principal, facts.differences))
        if "user" in facts.differences:
            raise RejectedResume("another user")

    door = Door()
    server = Server(nursery, make_router(door, on_resume=on_resume))
    async with server.session(KEY, listener="one"):
        pass
    assert await server.resume(listener="two") == OK
    answer = await server.resume(extra={"peer_credentials": (1, 2, 3)})
    assert answer.data == b"another user"
    assert seen == [("ada", ("listener",)), ("ada", ("listener", "user"))]
    door.banned.add("ada")
    assert (await server.resume()).data == b"banned"
    nursery.cancel_scope.cancel()


async def test_a_router_class_with_accept_resume(nursery):
    """A subclass of the router may decide with a method, as any responder may."""

    class Careful(Router):
        async def accept_resume(self, facts):
            if facts.transport.peer == "elsewhere":
                raise RejectedResume("no")

    server = Server(nursery, Careful())
    async with server.session(listener="one"):
        pass
    assert await server.resume(listener="two") == OK
    assert (await server.resume(peer="elsewhere")).data == b"no"
    nursery.cancel_scope.cancel()


async def test_included_guards(nursery):
    """Each guard that admitted the connection may refuse; one that did not is not called."""
    doors = [Door() for _ in range(3)]
    asked = []

    async def on_resume(facts):
        asked.append(facts.principal)

    outer = Router()
    outer.include(make_router(doors[0]), "a.")
    outer.include(make_router(doors[1], on_resume=on_resume), "b.")
    stranger = Door(banned={"ada"})
    outer.include(make_router(stranger), "c.")
    server = Server(nursery, outer)
    async with server.session(KEY):
        pass
    assert await server.resume() == OK
    assert await server.resume(listener="another") == NO_SESSION
    assert asked == ["ada"]
    assert len(stranger.asked) == 1
    doors[1].banned.add("ada")
    assert (await server.resume()).data == b"banned"
    nursery.cancel_scope.cancel()
