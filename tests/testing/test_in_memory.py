from __future__ import annotations

import pytest

from rsocket_trio.errors import RejectedSetup
from rsocket_trio.frames import PayloadFrame, RequestResponseFrame, SetupFrame
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server
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


@pytest.mark.parametrize("make", [frame_peer_client, connected_pair])
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
