"""Behaviour that all operations share: how a failure becomes an answer."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    Invalid,
    Payload,
    Responder,
)
from rsocket_trio.testing.in_memory import connected_pair


class Forgetful(ApplicationError):
    """Does not call the constructor of its base."""

    def __init__(self):
        pass


class Changed(ApplicationError):
    """Its data are not bytes any more."""

    def __init__(self):
        super().__init__("text")
        self.data = "text"


async def response(client):
    await client.request_response()


async def stream(client):
    async with client.request_stream() as items:
        await items.receive()


async def channel(client):
    async with client.request_channel([Payload()]) as items:
        await items.receive()


@pytest.mark.parametrize("error", [Forgetful, Changed])
@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("request_", [response, stream, channel])
async def test_an_error_that_cannot_be_sent(error, wait, request_, caplog):
    """It ends its stream as any exception that is not meant for the peer."""

    async def fail():
        if wait:
            await trio.lowlevel.checkpoint()
        raise error()

    class Fails(Responder):
        async def request_response(self, payload):
            if not payload.data:
                await fail()
            return payload

        async def request_stream(self, payload):
            await fail()
            yield payload

        async def request_channel(self, payload, payloads):
            await fail()
            yield payload

    async with connected_pair(Fails()) as client:
        with pytest.raises(ApplicationError, match="the handler failed"):
            await request_(client)
        assert await client.request_response(Payload(b"x")) == Payload(b"x")
    assert "cannot be sent" in caplog.text


async def test_an_error_text_that_is_too_long():
    """More than a frame holds: the part that can be sent is."""
    text = "x" * 17_000_000

    class Fails(Responder):
        async def request_response(self, payload):
            raise Invalid(text)

    async with connected_pair(Fails()) as client:
        with pytest.raises(Invalid) as caught:
            await client.request_response()
    assert text.startswith(caught.value.message)
    assert caught.value.message
