from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import pytest

from rsocket_trio import Caller, ClientResume, Provided, Router, ServerResume, connect
from rsocket_trio.errors import RejectedSetup
from rsocket_trio.frames import PayloadFrame, RequestResponseFrame, SetupFrame
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import (
    connected_pair,
    frame_peer_client,
    frame_peer_server,
    served,
)
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers


class Refusing(Responder):
    async def accept(self, setup, requester):
        raise RejectedSetup("not today")


async def test_a_pair_is_connected_both_ways():
    """Requests go from the client to the responder, and from the server to the client's."""
    requesters = []

    async def acceptor(setup, requester):
        assert setup.data == b"who"
        requesters.append(requester)
        return KnownAnswers()

    async with connected_pair(
        acceptor, client_responder=KnownAnswers(), setup=Payload(b"who")
    ) as there:
        assert await there.request_response(Payload(b"to the server")) == Payload(b"to the server")
        (back,) = requesters
        assert await back.request_response(Payload(b"to the client")) == Payload(b"to the client")


async def test_a_refused_pair_does_not_enter_its_block():
    """The pair raises the refusal of the responder."""
    with pytest.raises(RejectedSetup, match="not today"):
        async with connected_pair(Refusing()):
            raise AssertionError("entered")


async def test_several_clients_of_one_application():
    """What one client leaves in the application another one finds, and the lifespan is one."""
    lifespans = []

    async def lifespan() -> AsyncIterator[None]:
        lifespans.append("entered")
        yield
        lifespans.append("left")

    router = Router(lifespan=lifespan)
    router.provide(list[str], list, scope="application")

    @router.request_response("add")
    async def add(text: str, texts: Annotated[list[str], Provided]) -> list[str]:
        texts.append(text)
        return texts

    async with assert_no_leaks(), served(router) as dial:
        async with connect(dial) as first, connect(dial) as second:
            assert await Caller(first).request_response("add", "a") == ["a"]
            assert await Caller(second).request_response("add", "b") == ["a", "b"]
        async with connect(dial) as third:
            assert await Caller(third).request_response("add", "c") == ["a", "b", "c"]
        assert lifespans == ["entered"]
    assert lifespans == ["entered", "left"]


async def test_a_client_goes_on_with_its_session():
    """A client dials again when its connection is lost: nothing of a stream is lost."""
    dialled = []

    @asynccontextmanager
    async def dial_and_keep():
        async with dial() as transport:
            dialled.append(transport)
            yield transport

    async with served(KnownAnswers(), resume=ServerResume()) as dial:
        async with connect(dial_and_keep, resume=ClientResume()) as requester:
            await requester.request_response(Payload(b"one"))
            dialled[0].close()
            assert await requester.request_response(Payload(b"two")) == Payload(b"two")
    assert len(dialled) == 2


async def test_a_scripted_client_may_send_its_own_setup():
    """Without the automatic SETUP the script writes the first frame itself."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        assert not peer.received
        await peer.setup()
        await peer.send(RequestResponseFrame(1, data=b"hello"))
        assert (await peer.receive(PayloadFrame)).data == b"hello"


async def test_a_scripted_server_has_received_the_setup():
    """The SETUP that the script accepted is the first frame of its log."""
    async with frame_peer_server(setup=Payload(b"who", b"am i")) as (peer, _requester):
        setup = peer.received[0]
        assert isinstance(setup, SetupFrame)
        assert (setup.data, setup.metadata) == (b"who", b"am i")


@pytest.mark.parametrize("make", [frame_peer_client, connected_pair, served])
async def test_an_error_of_the_block_comes_out_unchanged(make):
    """It is neither grouped nor replaced, and no task is left running."""

    async def use():
        async with make(KnownAnswers()):
            raise ZeroDivisionError

    async def use_checked():
        try:
            await use()
        except ZeroDivisionError:
            return "as itself"

    async with assert_no_leaks():
        assert await use_checked() == "as itself"


async def test_no_task_is_left_after_a_block():
    """Leaving the block ends the tasks of both ends."""
    async with assert_no_leaks():
        async with connected_pair(KnownAnswers()):
            pass
        async with frame_peer_client(KnownAnswers()):
            pass
        async with frame_peer_server():
            pass
