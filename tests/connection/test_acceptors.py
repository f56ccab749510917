"""Misbehaving acceptors: each costs its own connection, and no other."""

from __future__ import annotations

import contextlib

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionClosed,
    Payload,
    RejectedSetup,
    Responder,
    connect,
    serve,
)

LOCAL = "tcp://127.0.0.1:0"


class Unusual(BaseException):
    """Not an `Exception`, as the cancellations of other frameworks."""


class Unsplittable(BaseExceptionGroup):
    """A group that cannot be split: its `derive` fails."""

    def derive(self, excs):
        raise TypeError


async def stray_cancellation():
    kept = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept = error
            raise
    raise kept


async def unusual():
    raise Unusual


async def unusual_in_a_nursery():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(unusual)
        nursery.start_soon(trio.sleep_forever)


async def unsplittable():
    raise Unsplittable("", [Unusual(), ValueError()])


async def leave_scope():
    trio.CancelScope().__enter__()


async def leave_nursery():
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(trio.sleep_forever)


async def fail_beside():
    """Fail beside another task, in a nursery."""
    trio.lowlevel.current_task().parent_nursery.start_soon(unusual)


async def cancel_around():
    trio.lowlevel.current_task().parent_nursery.cancel_scope.cancel()


class Misuses(Responder):
    """Does what the data of the SETUP says."""

    def __init__(self, misuse):
        self.misuse = misuse

    async def accept(self, setup, requester):
        if setup.data:
            await self.misuse()
        return self

    async def request_response(self, payload):
        await trio.lowlevel.checkpoint()
        return payload


@contextlib.asynccontextmanager
async def serving(responder):
    """Yield an address; check that a connection made before works until the end."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, responder, LOCAL)
        async with connect(server.uris[0]) as other:
            yield server.uris[0]
            assert await other.request_response(Payload(b"x")) == Payload(b"x")
        with trio.fail_after(30):
            await server.aclose(grace=2)


@pytest.mark.parametrize(
    "misuse",
    [
        stray_cancellation,
        unusual,
        unusual_in_a_nursery,
        unsplittable,
        leave_scope,
        leave_nursery,
    ],
)
async def test_an_acceptor_that_raises_anything_refuses_its_client(misuse, caplog):
    """Its client is refused as if it had raised an `Exception`."""
    async with serving(Misuses(misuse)) as uri:
        with pytest.raises(RejectedSetup, match="the acceptor failed"):
            async with connect(uri, setup=Payload(b"misuse")):
                pass
    assert "the acceptor failed" in caplog.text


@pytest.mark.parametrize("misuse", [fail_beside, cancel_around])
async def test_the_nursery_around_an_acceptor_is_its_connections(misuse):
    """The nursery belongs to this connection alone."""
    async with serving(Misuses(misuse)) as uri:
        with pytest.raises(ConnectionClosed):
            async with connect(uri, setup=Payload(b"misuse")) as requester:
                await requester.request_response()
