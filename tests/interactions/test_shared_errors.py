"""An error that an application raises again and again does not collect the frames of each time."""

from __future__ import annotations

import logging

import pytest
import trio

from rsocket_trio import (
    Metadata,
    Payload,
    Rejected,
    RejectedSetup,
    Responder,
    Router,
    Setup,
    SetupError,
    StreamError,
)
from rsocket_trio.frames import RequestResponseFrame
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client

REFUSAL = Rejected("no")
GROUP = ExceptionGroup("", [REFUSAL])
NO_CONNECTION = RejectedSetup("no")


class Refuses(Responder):
    """Raises the same error for each request."""

    async def refuse(self, payload):
        if payload.data == b"wait":
            await trio.lowlevel.checkpoint()
        raise GROUP if payload.data == b"group" else REFUSAL

    async def request_response(self, payload):
        await self.refuse(payload)

    async def fire_and_forget(self, payload):
        await self.refuse(payload)

    async def request_stream(self, payload):
        await self.refuse(payload)
        yield

    async def request_channel(self, payload, payloads):
        await self.refuse(payload)
        yield

    def body_responder(self, interaction, metadata):
        raise REFUSAL


async def ask(client, interaction, payload):
    match interaction:
        case "request_response":
            await client.request_response(payload)
        case "fire_and_forget":
            await client.fire_and_forget(payload)
        case "request_stream":
            async with client.request_stream(payload) as items:
                await items.receive()
        case "request_channel":
            async with client.request_channel([payload]) as items:
                await items.receive()


def no_frames(*errors):
    assert [error.__traceback__ for error in errors] == [None] * len(errors)


@pytest.mark.parametrize("data", [b"", b"wait", b"group"])
@pytest.mark.parametrize(
    "interaction", ["request_response", "fire_and_forget", "request_stream", "request_channel"]
)
async def test_handlers(interaction, data):
    async with connected_pair(Refuses()) as client:
        for _ in range(3):
            if interaction == "fire_and_forget":
                await ask(client, interaction, Payload(data))
            else:
                with pytest.raises(StreamError):
                    await ask(client, interaction, Payload(data))
        await trio.testing.wait_all_tasks_blocked()
        no_frames(REFUSAL, GROUP)


async def test_who_decides_about_bodies():
    async with frame_peer_client(Refuses()) as peer:
        await peer.send(RequestResponseFrame(1, follows=True, data=b"part"))
        await peer.receive()
        no_frames(REFUSAL)


async def test_acceptors():
    async def accept(_setup, _requester):
        raise NO_CONNECTION

    with pytest.raises(SetupError):
        async with connected_pair(accept):
            pass
    no_frames(NO_CONNECTION)


@pytest.mark.parametrize("refused", ["connection", "request"])
async def test_authenticators(refused):
    async def authenticate(_auth, facts):
        if refused == "connection" or not isinstance(facts, Setup):
            raise REFUSAL

    router = Router(authenticate=authenticate)

    @router.request_response("route")
    async def _answer() -> None: ...

    with pytest.raises((SetupError, StreamError)):
        async with connected_pair(router) as client:
            await client.request_response(metadata=Metadata(route="route"))
    no_frames(REFUSAL)


class Frozen(Rejected):
    """As of a frozen data class: nothing of it can be assigned, once it is made."""

    def __setattr__(self, name, value):
        if name not in {"code", "data", "stream_id"}:
            raise TypeError("frozen")
        super().__setattr__(name, value)


class Hollow(ExceptionGroup):
    """A group that says it holds nothing."""

    @property
    def exceptions(self):
        return ()


class Locked(ExceptionGroup):
    """A group that does not tell its exceptions."""

    @property
    def exceptions(self):
        raise ValueError


class Sticky(Rejected):
    """It keeps its traceback."""

    def with_traceback(self, tb):
        raise ValueError


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("kind", ["response", "stream", "channel", "fnf"])
@pytest.mark.parametrize(
    "error", [Frozen("no"), Hollow("", [KeyError()]), Locked("", [KeyError()]), Sticky("no")]
)
async def test_classes_with_ways_of_their_own(error, kind, wait, monkeypatch):
    """Such an error ends its own stream, and no other."""
    monkeypatch.setattr(
        logging.getLogger("rsocket_trio"), "disabled", True
    )  # pytest's own handler fails at a `Locked`

    class Raises(Responder):
        async def request_response(self, payload):
            if payload.data:
                return payload
            if wait:
                await trio.lowlevel.checkpoint()
            raise error

        async def fire_and_forget(self, payload):
            await self.request_response(payload)

        async def request_stream(self, payload):
            yield await self.request_response(payload)

        def request_channel(self, payload, payloads):
            return self.request_stream(payload)

    async with connected_pair(Raises()) as client:
        if kind == "fnf":
            await client.fire_and_forget()
        elif kind == "response":
            with pytest.raises(StreamError):
                await client.request_response()
        else:
            opened = (
                client.request_stream() if kind == "stream" else client.request_channel([Payload()])
            )
            async with opened as items:
                with pytest.raises(StreamError):
                    await items.receive()
        assert await client.request_response(Payload(b"x")) == Payload(b"x")
