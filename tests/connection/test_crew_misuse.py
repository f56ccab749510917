"""Workers and handlers that misuse context variables, cancel scopes and groups."""

from __future__ import annotations

import contextvars
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    ConnectionClosed,
    ConnectionConfig,
    Limits,
    Payload,
    Rejected,
    Responder,
)
from rsocket_trio.frames import RequestResponseFrame
from rsocket_trio.server import serve_transport
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.transports.memory import memory_transport_pair

SEEN = contextvars.ContextVar("SEEN", default="clean")


async def ask(client, data=b""):
    return (await client.request_response(Payload(data))).data


async def at_rest():
    """The worker of the last request is waiting for the next."""
    await trio.testing.wait_all_tasks_blocked()


class Uncomparable:
    """As an array of numpy: ``==`` gives no truth value."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("ambiguous")


VALUE = contextvars.ContextVar("VALUE")


@pytest.mark.parametrize("wait", [False, True])
async def test_context_variables_that_cannot_be_compared(wait):
    """A value that a handler sets stays with its request, and later requests are served."""

    class Sets(Responder):
        async def request_response(self, payload):
            seen.append(VALUE.get())
            VALUE.set(Uncomparable())
            if wait:
                await trio.lowlevel.checkpoint()
            return payload

    seen = []
    VALUE.set(first := Uncomparable())
    async with connected_pair(Sets()) as client:
        for _ in range(3):
            await client.request_response(Payload(b"x"))
    assert all(value is first for value in seen)


class Unusual(BaseException):
    """Not an `Exception`, as the cancellations of other frameworks."""


class Interrupts:
    """Raises a `BaseException` when it is compared."""

    __hash__ = None

    def __eq__(self, other):
        raise Unusual


class Alike:
    """Equal to each other value of its class."""

    __hash__ = None

    def __eq__(self, other):
        return True


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("make", [dict, list, Alike, Interrupts])
async def test_context_variables_with_an_equal_value(make, wait):
    """A different object is a different value, even if it is equal, e.g. a dict still empty."""

    class Sets(Responder):
        async def request_response(self, payload):
            seen.append(VALUE.get())
            VALUE.set(make())
            if wait:
                await trio.lowlevel.checkpoint()
            return payload

    seen = []
    VALUE.set(first := make())
    async with connected_pair(Sets()) as client:
        for _ in range(5):
            await client.request_response(Payload(b"x"))
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.request_response, Payload(b"x"))
    assert all(value is first for value in seen)


class Unsplittable(BaseExceptionGroup):
    """A group that cannot be split: its `derive` fails."""

    def derive(self, excs):
        raise TypeError


class Unsplit(Unsplittable):
    def split(self, condition):
        raise TypeError


@pytest.mark.parametrize("group", [Unsplittable, Unsplit])
@pytest.mark.parametrize("wait", ["", "wait", "cancelled"])
async def test_a_group_that_cannot_be_split(group, wait, caplog):
    """It is an ordinary failure, with a cancellation beside it or without."""

    class Raises(Responder):
        async def request_response(self, payload):
            if payload.data:
                return payload
            try:
                if wait:
                    await (trio.lowlevel.checkpoint if wait == "wait" else trio.sleep_forever)()
            finally:
                raise group("", [Unusual(), ValueError()])

    async with connected_pair(Raises()) as client:
        if wait == "cancelled":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.request_response)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        else:
            with pytest.raises(ApplicationError):
                await client.request_response()
        assert await client.request_response(Payload(b"x")) == Payload(b"x")
    assert "please report" not in caplog.text


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("later", [False, True])
async def test_a_scope_left_open_is_cancelled(wait, later, caplog):
    """It is noticed, at once or while its task reads; the connection lives."""

    class Leaves(Responder):
        async def request_response(self, payload):
            if payload.data:
                scopes.append(trio.CancelScope())
                scopes[-1].__enter__()
                if not later:
                    scopes[-1].cancel()
                elif wait:
                    await trio.lowlevel.checkpoint()
            return payload

    scopes = []
    async with connected_pair(Leaves()) as client:
        await ask(client)
        await at_rest()
        await ask(client)  # The scope of its task, opened just now, is open for some time.
        assert await ask(client, b"x") == b"x"
        await at_rest()
        scopes[0].cancel()
        await at_rest()
        assert await ask(client) == b""
    assert "left a cancel scope open" in caplog.text
    assert "please report" not in caplog.text


async def leave_scope():
    trio.CancelScope().__enter__()
    await trio.sleep_forever()


async def leave_scope_late():
    try:
        await trio.sleep_forever()
    finally:
        trio.CancelScope().__enter__()


async def leave_nursery():
    await trio.open_nursery().__aenter__()
    await trio.sleep_forever()


async def raise_unusual():
    try:
        await trio.sleep_forever()
    finally:
        raise Unusual


async def raise_unusual_in_a_nursery():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raise_unusual)
        nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize(
    "misuse",
    [leave_scope, leave_scope_late, leave_nursery, raise_unusual, raise_unusual_in_a_nursery],
)
@pytest.mark.parametrize("side", ["server", "client"])
async def test_misuse_at_the_end_of_a_connection(misuse, side, caplog):
    """The connection ends as any other: no server fails, and no block of a client fails."""

    class Misuses(Responder):
        async def request_response(self, payload):
            begun.set()
            await misuse()

    async def accept(_setup, requester):
        if side == "server":
            return Misuses()
        nursery.start_soon(unanswered, requester)
        return Responder()

    async def unanswered(requester):
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises((ConnectionClosed, trio.ClosedResourceError)):
            await requester.request_response()

    begun = trio.Event()
    async with trio.open_nursery() as nursery:
        async with connected_pair(accept, client_responder=Misuses()) as client:
            if side == "server":
                nursery.start_soon(unanswered, client)
            await begun.wait()
            await trio.testing.wait_all_tasks_blocked()
    assert "please report" not in caplog.text


class Shields(Responder):
    """Leaves shielded scopes open, at once or before it waits."""

    def __init__(self):
        self.scopes = []
        self.requester = None

    async def accept(self, setup, requester):
        self.requester = requester
        return self

    async def request_response(self, payload):
        if b"shield" in payload.data:
            scope = trio.CancelScope(shield=True)
            scope.__enter__()
            self.scopes.append(scope)
        if b"wait" in payload.data:
            await trio.lowlevel.checkpoint()
        return payload


@pytest.mark.parametrize("misuse", [b"shield", b"shield, wait"])
@pytest.mark.parametrize("end", ["it is closed", "the server is cancelled"])
async def test_a_connection_ends_although_a_scope_left_open_is_shielded(misuse, end):
    """The tasks in such a scope that read or wait for work are woken."""
    shields = Shields()
    config = ConnectionConfig(close_timeout=0.01)  # the peer does not close its end
    client_end, server_end = memory_transport_pair()
    async with trio.open_nursery() as nursery, FramePeer(client_end) as peer:
        nursery.start_soon(partial(serve_transport, shields, server_end, config=config))
        await peer.setup()
        await peer.expect_alive()
        # Tasks that have run for a while find out later that a scope was left open.
        stream_ids = iter(range(1, 1000, 2))
        for data in [b"wait"] * 3 + [misuse] * 3:
            await peer.send(*(RequestResponseFrame(next(stream_ids), data=data) for _ in range(10)))
            await peer.drain()
        if end == "it is closed":
            shields.requester._connection.close_gracefully()
        else:
            nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await at_rest()
            with trio.move_on_after(5):
                while nursery.child_tasks:
                    await trio.sleep(0.01)
        ended = not nursery.child_tasks
        for scope in shields.scopes:
            scope.shield = False  # or the test would never end if it fails
        nursery.cancel_scope.cancel()
    assert ended


async def test_requests_whose_tasks_still_run_are_counted(autojump_clock):
    """A peer cannot have more tasks kept than requests, by a handler that leaves a nursery open."""

    async def slow_to_end():
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)

    class Leaves(Responder):
        async def request_response(self, payload):
            nursery = await trio.open_nursery().__aenter__()
            nursery.start_soon(slow_to_end)
            await trio.lowlevel.checkpoint()
            return payload

    config = ConnectionConfig(limits=Limits(max_active_requests=5))
    async with connected_pair(Leaves(), config=config) as client:
        for _ in range(5):
            assert await ask(client, b"x") == b"x"
        with pytest.raises(Rejected):
            await ask(client, b"x")
        await trio.sleep(11)
        assert await ask(client, b"x") == b"x"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("place", ["handler", "handler that waits", "source"])
async def test_a_scope_left_open_does_not_hide_the_end_of_the_program(place, error):
    """trio replaces the error with one of its own where the scope around the handler ends."""

    async def fail():
        trio.CancelScope().__enter__()
        if place != "handler":
            await trio.lowlevel.checkpoint()
        raise error

    class Fails(Responder):
        async def request_response(self, payload):
            await fail()

        async def request_channel(self, payload, payloads):
            async for each in payloads:
                yield each

    async def source():
        yield Payload()
        await fail()

    with pytest.raises((error, BaseExceptionGroup)) as raised:
        async with connected_pair(Fails()) as client:
            if place == "source":
                async with client.request_channel(source()) as items:
                    async for _ in items:
                        pass
            else:
                await ask(client)
    found = raised.value
    assert isinstance(found, error) or found.split(error)[0] is not None
