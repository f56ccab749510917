"""Acceptors: they refuse a connection, or choose its responder."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionConfig,
    InvalidSetup,
    LocalProtocolError,
    Payload,
    RejectedSetup,
    Responder,
    SetupError,
    UnsupportedSetup,
    connect,
    serve,
    serve_transport,
)
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.transports.memory import memory_transport_pair
from tests.gated import LOCAL


@pytest.mark.parametrize(
    "error",
    [
        RejectedSetup("go away"),
        InvalidSetup("malformed"),
        UnsupportedSetup("not that"),
        SetupError("custom", code=0x003),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_acceptor_that_refuses(error):
    """connect raises the acceptor's error, typed, bare, with its reason."""

    async def accept(_setup, _requester):
        raise error

    with pytest.raises(SetupError, match=error.message) as caught:
        async with connected_pair(accept):
            raise AssertionError("there is no connection")
    assert caught.value.code == error.code


@pytest.mark.parametrize("answer", [ValueError("secret"), None])
async def test_an_acceptor_that_fails(answer, caplog):
    """Its connection is rejected without details; these are logged."""

    async def accept(_setup, _requester):
        if answer is not None:
            raise answer

    with pytest.raises(RejectedSetup, match="the acceptor failed"):
        async with connected_pair(accept):
            raise AssertionError("there is no connection")
    assert "the acceptor failed" in caplog.text


async def test_an_acceptor_that_refuses_in_a_nursery():
    """A nursery wraps the refusal in a group; the client still gets the reason."""

    async def accept(_setup, _requester):
        async with trio.open_nursery():
            raise RejectedSetup("not today")

    with pytest.raises(RejectedSetup, match="not today"):
        async with connected_pair(accept):
            raise AssertionError("there is no connection")


async def test_a_reason_longer_than_a_frame():
    """The part of it that fits is sent."""

    async def accept(_setup, _requester):
        raise RejectedSetup(b"x" * 2**24)

    with pytest.raises(RejectedSetup) as caught:
        async with connected_pair(accept):
            raise AssertionError("there is no connection")
    assert caught.value.data == b"x" * (2**24 - 1 - 10)


async def test_an_acceptor_that_hangs(autojump_clock, caplog):
    """After setup_timeout it is cancelled, and its waiting client gets the error."""
    ended = []

    async def accept(_setup, _requester):
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    here, there = memory_transport_pair()
    patient = ConnectionConfig(setup_timeout=60)
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, accept, there)
        with pytest.raises(RejectedSetup, match="in time"):
            async with connect(here, config=patient):
                raise AssertionError("there is no connection")
    assert [round(end - start, 3) for end in ended] == [10]
    assert "the acceptor did not answer within 10 s" in caplog.text


async def test_a_responder_per_connection():
    """accept may return another responder for each connection, chosen by the SETUP."""

    class One(Responder):
        def __init__(self, name):
            self.name = name

        async def request_response(self, _payload):
            return Payload(self.name)

    class Many(Responder):
        async def accept(self, setup, requester):
            return One(setup.data)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Many(), LOCAL)
        for name in (b"a", b"b"):
            async with connect(server.uris[0], setup=Payload(name, b"m")) as requester:
                assert await requester.request_response() == Payload(name)
        nursery.cancel_scope.cancel()


async def test_the_acceptors_requester():
    """It works once the connection is accepted, and not before."""
    seen = []

    class Client(Responder):
        async def request_response(self, payload):
            return Payload(b"from the client")

    async def accept(setup, requester):
        with pytest.raises(LocalProtocolError, match="not accepted yet"):
            await requester.request_response()
        with pytest.raises(LocalProtocolError):
            await requester.metadata_push(b"")
        seen.append(setup.metadata_mime_type)
        nursery.start_soon(ask, requester)
        return Responder()

    async def ask(requester):
        await trio.testing.wait_all_tasks_blocked()
        seen.append((await requester.request_response()).data)
        done.set()

    done = trio.Event()
    async with trio.open_nursery() as nursery:
        async with connected_pair(accept, client_responder=Client()):
            await done.wait()
    assert seen == ["message/x.rsocket.composite-metadata.v0", b"from the client"]
