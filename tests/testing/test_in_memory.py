from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import signature
from typing import Annotated, get_type_hints

import pytest
import trustme

from rsocket_trio import (
    Caller,
    ClientResume,
    ConnectionAge,
    ConnectionConfig,
    Health,
    Lease,
    LeaseOptions,
    Metadata,
    OutgoingMiddleware,
    Provided,
    Reconnect,
    Repeats,
    Router,
    ServerResume,
    Tracing,
    connect,
    serve,
)
from rsocket_trio.errors import RejectedSetup
from rsocket_trio.frames import PayloadFrame, RequestResponseFrame, SetupFrame
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import (
    PairOptions,
    connected_pair,
    frame_peer_client,
    frame_peer_server,
    served,
)
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.testing.serving import ServeOptions


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


async def _around(call):
    yield


OPTIONS = {
    "config": ConnectionConfig(),
    "ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
    "resume": ServerResume(),
    "lease": LeaseOptions(Lease(60, 100)),
    "protocols": ["rsocket"],
    "max_connections": 1,
    "max_age": ConnectionAge(60),
    "allowed_origins": ["https://example.org"],
    "allow": lambda info: True,
    "health": Health(),
    "reuse_port": True,
    "client_responder": KnownAnswers(),
    "setup": Payload(b"who"),
    "setup_metadata": Metadata(route="a"),
    "data_mime_type": "text/plain",
    "metadata_mime_type": "text/plain",
    "client_config": ConnectionConfig(),
    "headers": {"Origin": "https://example.org"},
    "client_ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    "client_resume": ClientResume(),
    "reconnect": Reconnect(),
    "repeats": Repeats(),
    "client_lease": LeaseOptions(),
    "tracing": Tracing(),
    "protocol": "reactivesocket",
    "middleware": [_around],
}
ALSO = {
    "ssl_context": ["client_ssl_context"],
    "client_ssl_context": ["ssl_context"],
    "client_resume": ["resume"],
    "client_lease": ["lease"],
    "headers": ["allowed_origins"],
}


@pytest.mark.parametrize("name", PairOptions.__annotations__)
async def test_a_pair_takes_all_that_both_ends_take(name):
    """Each option works in memory, or the error names an address with which it works."""
    options = {each: OPTIONS[each] for each in (name, *ALSO.get(name, ()))}
    authority = trustme.CA()
    authority.issue_cert("localhost").configure_cert(OPTIONS["ssl_context"])
    authority.configure_trust(OPTIONS["client_ssl_context"])
    try:
        async with connected_pair(KnownAnswers(), **options) as requester:
            assert await requester.request_response(Payload(b"ping")) == Payload(b"ping")
    except ValueError as error:
        (uri,) = re.findall(r"needs an address: give connected_pair uri='(.*)', too", str(error))
        async with connected_pair(KnownAnswers(), uri, **options) as requester:
            assert await requester.request_response(Payload(b"ping")) == Payload(b"ping")


def _options(function) -> dict[str, object]:
    only_for_types = {"OutgoingMiddleware": OutgoingMiddleware}
    found = signature(function, eval_str=True, locals=only_for_types).parameters.values()
    return {each.name: each.annotation for each in found if each.kind is each.KEYWORD_ONLY}


def test_options_are_those_of_both_ends():
    """What one of them has anew is here too, with its type; its name tells a client's apart."""
    of_server = _options(serve)
    del of_server["task_status"]
    assert get_type_hints(ServeOptions) == of_server
    taken = signature(serve).parameters
    expected = {f"client_{k}" if k in taken else k: v for k, v in _options(connect).items()}
    assert get_type_hints(PairOptions) == of_server | expected


async def test_an_unknown_option_of_a_pair():
    """The error lists the known ones."""
    with pytest.raises(TypeError, match=r"the option 'leese', but .*, lease, "):
        async with connected_pair(KnownAnswers(), leese=1):
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
