"""The middleware of `serve`: the same blocks as those of a Router, for each kind of call."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

import rsocket_trio
from rsocket_trio import Router
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.ttrpc import (
    Call,
    MessageCodec,
    Method,
    MethodKind,
    PermissionDenied,
    StatusCode,
    serve_stream,
)
from tests.ttrpc.scenes import data, end, one, opening, request, stranger_to, things

KEY = (("key", "1"),)


def recorder(name, trace):
    """Middleware that says what it sees."""

    async def recorded(call):
        trace.append(f"+{name} {call.route.name.rpartition('/')[2]}")
        try:
            yield
        finally:
            error = "" if call.error is None else f" {type(call.error).__name__}"
            trace.append(f"-{name} {call.outcome} {call.items}{error}")

    return recorded


def all_kinds(**options):
    """One call of each kind."""
    return (
        request(1, payload=b"x", **options),
        request(3, "Count", b"2", **options),
        opening(5, **options),
        end(5),
        opening(7, "Chat", **options),
        data(7, b"x"),
        end(7),
    )


async def test_each_kind_has_the_same_blocks():
    """In order, and left in reverse; streams count their items."""
    trace = []
    both = [recorder("a", trace), recorder("b", trace)]
    async with stranger_to(things(), middleware=both) as stranger:
        await stranger.send(request(1, payload=b"x"))
        assert (await stranger.frame()).payload == b"x"
        assert trace == ["+a Echo", "+b Echo", "-b completed 0", "-a completed 0"]
        trace.clear()
        await stranger.send(request(3, "Count", b"2"))
        assert [each.body for each in await stranger.drain()] == [b"0", b"1", b""]
        assert trace == ["+a Count", "+b Count", "-b completed 2", "-a completed 2"]
        trace.clear()
        await stranger.send(opening(5, "Join"), data(5, b"x"), end(5))
        assert (await stranger.frame()).payload == b"x"
        await stranger.send(opening(7, "Chat"), data(7, b"x"), end(7))
        assert [each.body for each in await stranger.drain()] == [b"X", b""]
        assert trace[2:4] == ["-b completed 0", "-a completed 0"]
        assert trace[6:] == ["-b completed 1", "-a completed 1"]


async def test_a_block_refuses_every_kind():
    """One block guards all kinds: there is no method to override, so none to forget."""

    async def guard(call: Call):
        if not call.values("key"):
            raise PermissionDenied("no key")
        yield

    async with stranger_to(things(), middleware=[guard]) as stranger:
        await stranger.send(*all_kinds())
        codes = [each.code for each in await stranger.drain()]
        assert codes == [StatusCode.PERMISSION_DENIED] * 4
        await stranger.send(request(11, payload=b"x", metadata=KEY))
        assert (await stranger.frame()).payload == b"x"


async def test_unknown_methods_and_damaged_requests_are_seen():
    """As with a Router: a limit or a log that did not see them would be no limit and no log."""
    seen = []

    async def record(call):
        try:
            yield
        finally:
            seen.append((call.route.name, call.handler is None, type(call.error).__name__))

    def decode(_payload):
        raise ValueError("damaged")

    service = things()
    service.methods["Echo"] = damaged(service.methods["Echo"], decode)
    async with stranger_to(service, middleware=[record]) as stranger:
        long = "n" * 1000
        await stranger.send(
            request(1, payload=b"x"), request(3, "Absent", b"x"), opening(5, "None"), end(5),
            request(7, long, b"x"),
        )  # fmt: skip
        answers = await stranger.drain()
    assert [each.code for each in answers] == [StatusCode.INTERNAL, *[StatusCode.UNIMPLEMENTED] * 3]
    name = service.name
    assert seen == [
        (f"{name}/Echo", False, "Internal"),
        (f"{name}/Absent", True, "Unimplemented"),
        (f"{name}/None", True, "Unimplemented"),
        (f"{name}/{'n' * 256}", True, "Unimplemented"),
    ]


def damaged(bound, decode):
    """A method whose requests are read by something else."""
    method = bound.method
    codec = MessageCodec("Damaged", decode, method.request.encode)
    changed = Method(method.service, method.name, method.kind, codec, method.response)
    return attrs.evolve(bound, method=changed)


async def test_it_runs_under_the_deadline(autojump_clock):
    """The deadline of the client is around the blocks; a deadline of a block is CANCELLED."""

    async def slow(call):
        await trio.sleep(5)
        yield

    async def short(call):
        with trio.move_on_after(1):
            yield

    async def wait(_request):
        await trio.sleep(2)

    async with stranger_to(things(), middleware=[slow]) as stranger:
        await stranger.send(request(1, timeout=10**9))
        assert (await stranger.frame()).code == StatusCode.DEADLINE_EXCEEDED
    async with stranger_to(one(MethodKind.UNARY, wait), middleware=[short]) as stranger:
        await stranger.send(request(1))
        assert (await stranger.frame()).code == StatusCode.CANCELLED


async def test_the_call_is_that_of_all_wires():
    """What a middleware for a Router looks at is there, and the handler sees its attributes."""
    seen = []

    async def token(call: rsocket_trio.Call):
        auth = call.metadata.auth
        call.principal = auth.token if auth is not None else None
        call.attributes["user"] = "ali"
        seen.append((call.interaction, call.route.name, call.transport is call.setup.transport))
        with pytest.raises(rsocket_trio.ConnectionClosed):
            await call.requester.request_response()
        yield

    service = things()

    @service.method("Who")
    async def who(_request: bytes, call: rsocket_trio.Call) -> bytes:
        assert isinstance(call, Call)
        assert call.deadline < float("inf")
        assert not call.stopping.is_set()
        return f"{call.principal} {call.attributes['user']}".encode()

    async with stranger_to(service, middleware=[token]) as stranger:
        bearer = (("authorization", "Bearer me"),)
        await stranger.send(request(1, "Who", metadata=bearer, timeout=10**10))
        assert (await stranger.frame()).payload == b"me ali"
    assert seen == [(Interaction.REQUEST_RESPONSE, f"{service.name}/Who", True)]


@pytest.mark.parametrize("wrong", [5, recorder("a", []), [5], [lambda: None]])
async def test_what_can_never_run_is_refused(wrong):
    """As for a Router, before anything is opened."""
    with pytest.raises(TypeError, match="middleware"):
        await serve_stream(things(), None, middleware=wrong)


async def test_a_router_has_middleware_of_its_own():
    """A second chain would have an order of its own."""
    with pytest.raises(TypeError, match="a Router has middleware of its own"):
        await serve_stream(Router(), None, middleware=[recorder("a", [])])
    with pytest.raises(TypeError, match="data_mime_type= is for a Router only"):
        await serve_stream(things(), None, data_mime_type="application/json")
