"""Authentications that run out and are renewed, and the end of what a principal has open."""

from collections.abc import AsyncIterator
from functools import partial
from math import inf
from typing import Annotated, Any

import pytest
import trio
import trio.testing

from rsocket_trio import (
    Admitted,
    ApplicationError,
    BearerAuthentication,
    Caller,
    Forbidden,
    Metadata,
    Payload,
    Peer,
    Principal,
    Rejected,
    ResumeFacts,
    Router,
    Setup,
    StreamError,
    Unauthenticated,
)
from rsocket_trio.testing.in_memory import connected_pair

HOUR = 3600.0


def bearer(token: str) -> Metadata:
    return Metadata(auth=BearerAuthentication(token))


async def authenticate(auth: Any, facts: Any) -> Any:
    """``name:seconds`` is a token that holds so long; ``name`` one that holds for ever."""
    if auth is None:
        if facts.principal is None:
            raise Rejected("who are you?")
        return facts.principal
    name, _, seconds = auth.token.partition(":")
    if name == "mallory":
        raise Rejected("not you")
    if name == "broken":
        raise ValueError("a secret")
    return Admitted(name, trio.current_time() + float(seconds)) if seconds else name


def application(trace: list[str] | None = None, **options: Any) -> Router:
    router = Router(**{"authenticate": authenticate, **options})
    seen: list[str] = [] if trace is None else trace

    @router.request_response("who")
    async def who(user: Annotated[str, Principal]) -> str:
        return user

    @router.request_response("wait")
    async def wait() -> None:
        await trio.sleep_forever()

    @router.request_stream("ticks")
    async def ticks(seconds: float = 60) -> AsyncIterator[int]:
        try:
            for n in range(1000):
                yield n
                await trio.sleep(seconds)
        finally:
            seen.append("closed")

    @router.request_channel("echo")
    async def echo(items: AsyncIterator[int]) -> AsyncIterator[int]:
        async for item in items:
            yield item

    @router.request_response("renew")
    async def renew(metadata: Metadata, peer: Peer) -> None:
        await peer.renew(metadata.auth)

    @router.metadata_push()
    async def pushed(metadata: Metadata, peer: Peer) -> None:
        await peer.renew(metadata.auth)

    return router


def client_of(router: Router, token: str) -> Any:
    return connected_pair(router, setup=Payload(b"", bearer(token).encode()))


async def drained(caller: Caller, seconds: float = 60, **options: Any) -> list[int]:
    """Return the items of a stream that ends with `Unauthenticated`."""
    items: list[int] = []
    with pytest.raises(Unauthenticated, match="the authentication has run out"):
        async with caller.request_stream("ticks", seconds, returns=int, **options) as stream:
            async for item in stream:
                items.append(item)
    return items


async def test_what_is_open_ends_when_the_authentication_does(autojump_clock: object) -> None:
    """A call that waits, streams with and without credit and a channel, all at that moment."""
    trace: list[str] = []
    ended: list[float] = []

    async def note(function: Any) -> None:
        with pytest.raises(Unauthenticated, match="the authentication has run out"):
            await function()
        ended.append(trio.current_time() - began)

    async def uncredited() -> None:
        async with caller.request_stream("ticks", returns=int, prefetch=0) as stream:
            while True:  # there is no credit for a second one
                await stream.receive()

    async def channel() -> None:
        async def items() -> AsyncIterator[int]:
            yield 1
            await trio.sleep_forever()

        async with caller.request_channel("echo", items(), returns=int) as stream:
            async for _ in stream:
                pass

    async with client_of(application(trace), f"ada:{HOUR}") as requester:
        began, caller = trio.current_time(), Caller(requester)
        assert await caller.request_response("who", returns=str) == "ada"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, partial(caller.request_response, "wait"))
            nursery.start_soon(note, uncredited)
            nursery.start_soon(note, channel)
            items = await drained(caller)
        assert items == list(range(60))
        assert ended == [pytest.approx(HOUR)] * 3
        assert trace == ["closed", "closed"]
        with pytest.raises(Unauthenticated, match="the authentication has run out"):
            await caller.request_response("who", returns=str)
        # An authentication of its own is as good as ever.
        assert await caller.request_response("who", returns=str, metadata=bearer("bob")) == "bob"


async def test_a_call_with_an_authentication_of_its_own(autojump_clock: object) -> None:
    """It ends with that, whatever the connection has; and one that is over is refused."""
    async with client_of(application(), "ada") as requester:
        caller = Caller(requester)
        assert len(await drained(caller, metadata=bearer("bob:600"))) == 10
        with pytest.raises(Unauthenticated):
            await caller.request_response("who", returns=str, metadata=bearer("bob:-1"))
        assert await caller.request_response("who", returns=str) == "ada"


@pytest.mark.parametrize("by", ["request", "push"])
async def test_renewal(autojump_clock: object, by: str) -> None:
    """Before the time is over: what is open goes on until the new time."""
    async with client_of(application(), f"ada:{HOUR}") as requester:
        caller = Caller(requester)

        async def renew() -> None:
            await trio.sleep(HOUR / 2)
            if by == "push":
                await requester.metadata_push(bearer(f"ada:{HOUR}").encode())
            else:
                await caller.request_response("renew", metadata=bearer(f"ada:{HOUR}"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(renew)
            assert len(await drained(caller)) == 90


async def test_renewal_when_it_is_over(autojump_clock: object) -> None:
    """The request for it is authenticated itself; then the connection is as before."""
    async with client_of(application(), "ada:60") as requester:
        caller = Caller(requester)
        await trio.sleep(100)
        with pytest.raises(Unauthenticated):
            await caller.request_response("renew")
        await caller.request_response("renew", metadata=bearer("ada"))
        assert await caller.request_response("who", returns=str) == "ada"
        await trio.sleep(HOUR)
        await caller.request_response("renew", metadata=bearer("ada:60"))
        assert len(await drained(caller, 1)) == 60


@pytest.mark.parametrize(
    ("token", "kind", "text"),
    [
        ("bob:99", Forbidden, "another principal than that of the connection"),
        ("mallory", Rejected, "not you"),
        ("broken", ApplicationError, "this request was not admitted"),
        ("", Unauthenticated, "is renewed by another one"),
    ],
)
async def test_refused_renewals_change_nothing(
    autojump_clock: object, token: str, kind: type[StreamError], text: str
) -> None:
    """Another user's token, a wrong one, a fault and none: the old time holds."""
    router = application()
    caught: list[StreamError] = []

    @router.request_response("try")
    async def attempt(token: str, peer: Peer) -> None:
        try:
            await peer.renew(BearerAuthentication(token) if token else None)
        except StreamError as error:
            caught.append(error)

    async with client_of(router, "ada:60") as requester:
        caller = Caller(requester)
        await caller.request_response("try", token)
        (error,) = caught
        assert type(error) is kind
        assert text in str(error)
        assert len(await drained(caller, seconds=1.0)) == 60


async def test_nobody_takes_what_has_run_out_for_a_principal(autojump_clock: object) -> None:
    """An authenticator that looks at the connection first does not admit any token for ever."""

    async def careless(auth: Any, facts: Any) -> Any:
        if facts.principal is not None:
            return facts.principal
        return await authenticate(auth, facts)

    async with client_of(application(authenticate=careless), "ada:60") as requester:
        caller = Caller(requester)
        with trio.fail_after(61), pytest.raises(Unauthenticated):
            await caller.request_response("wait", metadata=bearer("mallory"))
        with pytest.raises(Rejected, match="not you"):
            await caller.request_response("who", returns=str, metadata=bearer("mallory"))


async def test_authenticators_of_included_routers(autojump_clock: object) -> None:
    """Each has a time of its own for its routes, and a renewal is of all."""
    inner_until = 30.0

    async def inner(auth: Any, facts: Any) -> Any:
        if auth is None:
            return facts.principal
        return Admitted("admin", trio.current_time() + inner_until)

    admin = Router(authenticate=inner)

    @admin.request_response("who")
    async def who(user: Annotated[str, Principal]) -> str:
        return user

    router = application()
    router.include(admin, "admin.")
    async with client_of(router, f"ada:{HOUR}") as requester:
        caller = Caller(requester)
        assert await caller.request_response("admin.who", returns=str) == "admin"
        await trio.sleep(31)
        with pytest.raises(Unauthenticated):
            await caller.request_response("admin.who", returns=str)
        assert await caller.request_response("who", returns=str) == "ada"
        await caller.request_response("renew", metadata=bearer("ada"))
        assert await caller.request_response("admin.who", returns=str) == "admin"


async def test_no_renewal_without_an_authenticator() -> None:
    router = application(authenticate=None)
    caught: list[Exception] = []

    @router.request_response("try")
    async def attempt(peer: Peer) -> None:
        with pytest.raises(RuntimeError, match="no Router with an authenticator"):
            await peer.renew(BearerAuthentication("x"))
        assert peer.principal is None
        caught.append(RuntimeError())

    # A handler with a principal needs an authenticator.
    async with connected_pair(router) as requester:
        await Caller(requester).request_response("try")
    assert caught


async def test_middleware_sees_the_end(autojump_clock: object) -> None:
    """Around the guard, the call has failed; inside of it, it was cancelled."""
    seen: list[str] = []

    async def outside(call: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            seen.append(f"outside {call.outcome} {type(call.error).__name__}")

    async def inside(call: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            seen.append(f"inside {call.outcome}")

    router = application(middleware=[outside])

    @router.request_response("long", middleware=[inside])
    async def long() -> None:
        await trio.sleep_forever()

    async with client_of(router, "ada:5") as requester:
        with pytest.raises(Unauthenticated):
            await Caller(requester).request_response("long")
    assert seen == ["inside cancelled", "outside failed Unauthenticated"]


@pytest.mark.parametrize("route", ["wait", "ticks"])
async def test_cancelled_at_each_moment(autojump_clock: object, route: str) -> None:
    """A caller that gives up around the end sees its cancellation, and nothing is left over."""
    router = application()
    peers: list[Peer] = []

    @router.request_response("me")
    async def me(peer: Peer) -> None:
        peers.append(peer)

    async with client_of(router, "ada") as requester:
        caller = Caller(requester)
        await caller.request_response("me")
        for n in range(12):
            with trio.move_on_after(n), pytest.raises(Unauthenticated):
                async with caller.request_stream(
                    route if route == "ticks" else "ticks", metadata=bearer("bob:6"), returns=int
                ) as stream:
                    if route == "wait":
                        await caller.request_response("wait", metadata=bearer("bob:6"))
                    async for _ in stream:
                        pass
            await trio.testing.wait_all_tasks_blocked()
            assert not peers[0]._own
        assert await caller.request_response("who", returns=str) == "ada"


async def test_a_session_is_not_resumed_with_an_authentication_that_is_over(
    autojump_clock: object,
) -> None:
    """Nobody is asked for a new one by a RESUME, so the rule is the authenticator's."""
    facts: list[Any] = []

    async def remembers(auth: Any, each: Any) -> Any:
        facts.append(each)
        return await authenticate(auth, each)

    from rsocket_trio.routing.guards import Guard, Guards
    from rsocket_trio.routing.layers import Layer
    from rsocket_trio.transports.base import TransportInfo

    setup = Setup(
        metadata=bearer("ada:60").encode(),
        data_mime_type="text/plain",
        metadata_mime_type="message/x.rsocket.composite-metadata.v0",
        keepalive_interval=1,
        max_lifetime=1,
        transport=TransportInfo(scheme="memory"),
    )
    guards = await Guards.accept(Layer(Guard(remembers)), (), setup, None, lambda each: each)  # type: ignore[arg-type]

    async def default(_facts: ResumeFacts) -> None:
        return

    resumed = ResumeFacts(setup=setup, transport=TransportInfo(scheme="memory"))
    await guards.accept_resume(resumed, default)
    assert facts[-1].principal == "ada"
    await trio.sleep(61)
    with pytest.raises(Rejected):
        await guards.accept_resume(resumed, default)
    assert facts[-1].principal is None


def test_mistakes() -> None:
    with pytest.raises(TypeError, match="until"):
        Admitted("ada", "soon")  # type: ignore[arg-type]
    assert Admitted("ada").until == inf
    assert "ada" not in repr(Admitted("ada"))
