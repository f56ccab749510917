"""How an authenticator is called: its arguments, its task, its refusals."""

import gc
import logging
import weakref
from collections.abc import AsyncIterator

import attrs
import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    BearerAuthentication,
    Metadata,
    Payload,
    Rejected,
    RejectedResume,
    RejectedSetup,
    Requester,
    RequestFacts,
    Router,
    Setup,
)
from rsocket_trio.testing.in_memory import connected_pair
from tests.routing.guarded import ADA, ask, keeper, make, setup_of


@pytest.mark.parametrize("kind", [Rejected, RejectedSetup, RejectedResume])
async def test_an_authenticator_may_raise_the_same_refusal_everywhere(kind):
    """It may also raise it in a nursery."""

    async def authenticate(auth, facts):
        if auth is not None:
            async with trio.open_nursery():
                raise kind("no")

    router = make("x", authenticate=authenticate)
    async with connected_pair(router) as requester:
        assert await ask(requester, "x", ADA) == "REJECTED: no"
    if kind is not RejectedResume:
        with pytest.raises(RejectedSetup, match="REJECTED_SETUP: no"):
            async with connected_pair(router, setup=setup_of(ADA)):
                raise AssertionError("connected")


async def test_the_setup_has_the_principal():
    """``on_setup`` and handlers find it there."""
    seen = []

    async def on_setup(setup, requester):
        seen.append(setup.principal)

    router = Router(authenticate=keeper("door"), on_setup=on_setup)

    @router.request_response("x")
    async def handler(setup: Setup) -> bytes:
        return setup.principal.encode()

    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "x") == "door:ada"
    assert seen == ["door:ada"]
    assert "pass" not in repr(Setup(
        metadata=b"password", data_mime_type="", metadata_mime_type="",
        keepalive_interval=1.0, max_lifetime=1.0, transport=None,
    ))  # fmt: skip


async def test_a_clients_setup_does_not_authenticate_its_server():
    """The client's authenticator is called for the server's requests."""
    asked = []

    async def authenticate(auth, facts):
        asked.append((auth, facts.principal))
        if auth is None:
            raise Rejected("who are you?")
        return auth.token

    mine = make("secret", authenticate=authenticate)
    router = Router()

    @router.request_response("ask")
    async def ask_back(data: bytes, peer: Requester) -> bytes:
        return (await ask(peer, "secret", ADA if data else None)).encode()

    async with connected_pair(router, client_responder=mine, setup=setup_of(ADA)) as requester:
        answer = await requester.request_response(route="ask")
        assert answer.data == b"REJECTED: who are you?"
        answer = await requester.request_response(Payload(b"x"), route="ask")
        assert answer.data == b"ada"
    assert asked == [(None, None), (ADA.auth, None)]


async def test_an_authenticator_runs_in_the_task_of_the_handler():
    """Its waits, and its context variables, are those of the handler."""
    tasks = []

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts):
            await trio.lowlevel.checkpoint()
            tasks.append(trio.lowlevel.current_task())

    router = Router(authenticate=authenticate)

    @router.request_response("x")
    async def handler() -> None:
        tasks.append(trio.lowlevel.current_task())

    @router.request_stream("x")
    async def stream() -> AsyncIterator[bytes]:
        tasks.append(trio.lowlevel.current_task())
        yield b""

    async with connected_pair(router) as requester:
        await requester.request_response(route="x")
        async with requester.request_stream(route="x") as items:
            await items.receive()
    assert tasks[0] is tasks[1]
    assert tasks[2] is tasks[3]


async def test_cancel_reaches_a_waiting_authenticator():
    """CANCEL reaches a request that is still at its guard."""
    entered, left = trio.Event(), trio.Event()

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts):
            entered.set()
            try:
                await trio.sleep_forever()
            finally:
                left.set()

    router = make("x", authenticate=authenticate)
    async with connected_pair(router) as requester:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, requester, "x")
            await entered.wait()
            nursery.cancel_scope.cancel()
        await left.wait()


async def test_a_binding_serves_one_connection(bind, caplog):
    """The bound router of a connection, and its principal, serve no other."""
    bound = None

    async def accept(setup, requester):
        nonlocal bound
        if bound is None:
            bound = await make("x", authenticate=keeper("door")).accept(setup, requester)
        return bound

    async with connected_pair(accept, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "x") == "door:ada"
    with pytest.raises(RejectedSetup, match="the acceptor failed"):
        async with connected_pair(accept):
            raise AssertionError("connected")
    assert "returns a responder for one connection" in caplog.text


async def test_an_acceptor_may_change_the_facts():
    """An acceptor may give a router other facts about the connection."""
    router = make("x", authenticate=keeper("door"))

    async def accept(setup, requester):
        return await router.accept(attrs.evolve(setup, metadata=ADA.encode()), requester)

    async with connected_pair(accept) as requester:
        assert await ask(requester, "x") == "door:ada"


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a group"])
@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("kind", [Rejected, RejectedSetup, ValueError])
async def test_a_refused_request_is_freed(bind, kind, included, alone, caplog):
    """No traceback of the refusal keeps the request, also without the garbage collector."""
    seen = []

    async def authenticate(auth, facts):
        if auth is not None:
            seen.append(weakref.ref(auth))
            raise kind("no") if alone else ExceptionGroup("", [kind("no")])

    caplog.set_level(logging.CRITICAL, "rsocket_trio")  # records that are kept keep tracebacks
    router = make("a", authenticate=authenticate)
    if included:
        outer = Router()
        outer.include(router)
        router = outer
    bound = await bind(router)
    gc.collect()
    gc.disable()
    try:
        metadata = Metadata(route="a", auth=BearerAuthentication("ada")).encode()
        with pytest.raises((kind, Rejected, ApplicationError, ExceptionGroup)):
            await bound.request_response(Payload(b"", metadata))
        assert [ref() for ref in seen] == [None]
    finally:
        gc.enable()
