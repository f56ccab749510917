"""Admission to a session on resumption: the same listener, the same client, a long token."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trustme

from rsocket_trio import Responder, ResumeFacts, ServerResume, Setup, TransportInfo, serve
from rsocket_trio.errors import ErrorCode
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import open_transport
from tests.resumable_server import LOCAL, NO_SESSION, OK, RESUME, TOKEN, Server, setup


@pytest.mark.parametrize(
    ("before", "now", "differences"),
    [
        ({}, {}, ()),
        ({"peer": "a:1", "local": "b:2"}, {"peer": "c:3", "local": "d:4"}, ()),
        ({"listener": "tcp://a:1"}, {"listener": "tcp://a:2"}, ("listener",)),
        ({"listener": "tcp://a:1"}, {}, ("listener",)),
        ({"path": "/x?key=1"}, {"path": "/x?key=2"}, ("path",)),
        ({"path": "/\udc80"}, {"path": "/\udc80"}, ()),
        ({"headers": (("authorization", "a"),)}, {"headers": ()}, ("authorization",)),
        ({"headers": ()}, {"headers": (("authorization", "a"),)}, ("authorization",)),
        (
            {"headers": (("authorization", "a"), ("cookie", "c"))},
            {"headers": (("cookie", "d"), ("authorization", "a"))},
            ("cookie",),
        ),
        (
            {"headers": (("cookie", "a"), ("cookie", "b"))},
            {"headers": (("cookie", "a"),)},
            ("cookie",),
        ),
        ({"headers": (("origin", "a"),)}, {"headers": (("origin", "b"),)}, ("origin",)),
        ({"headers": (("user-agent", "a"),)}, {"headers": (("user-agent", "b"),)}, ()),
        (
            {"extra": {"peer_credentials": (1, 2, 3)}},
            {"extra": {"peer_credentials": (9, 2, 3)}},
            (),
        ),
        (
            {"extra": {"peer_credentials": (1, 2, 3)}},
            {"extra": {"peer_credentials": (1, 0, 3)}},
            ("user",),
        ),
        (
            {"extra": {"peer_credentials": (1, 2, 3)}},
            {"extra": {"peer_credentials": (1, 2, 0)}},
            ("user",),
        ),
        ({"extra": {"peer_credentials": (1, 2, 3)}}, {}, ("user",)),
        ({"extra": {"peer_certificate": {"subject": "a"}}}, {}, ("certificate",)),
        (
            {"extra": {"peer_certificate": {"subject": "a", "serialNumber": 1}}},
            {"extra": {"peer_certificate": {"subject": "a", "serialNumber": 2}}},
            (),
        ),
        (
            {"extra": {"peer_certificate": {"subject": "a", "subjectAltName": "b"}}},
            {"extra": {"peer_certificate": {"subject": "a", "subjectAltName": "c"}}},
            ("certificate",),
        ),
        (
            {"extra": {"peer_certificate": {"subject": (), "serialNumber": 1}}},
            {"extra": {"peer_certificate": {"subject": (), "serialNumber": 2}}},
            ("certificate",),
        ),
        ({"extra": {"other": 1}}, {"extra": {"other": 2}}, ()),
    ],
)  # fmt: skip
async def test_facts_that_tell_clients_apart(before, now, differences):
    """Listener and client must be those of the SETUP; addresses may change."""
    facts = [TransportInfo(scheme="memory", **each) for each in (before, now)]
    first = Setup(
        data_mime_type="", metadata_mime_type="", keepalive_interval=1, max_lifetime=1,
        transport=facts[0],
    )  # fmt: skip
    assert ResumeFacts(setup=first, transport=facts[1]).differences == differences
    async with trio.open_nursery() as nursery:
        server = Server(nursery, KnownAnswers())
        async with server.session(**before):
            pass
        assert await server.resume(**now) == (NO_SESSION if differences else OK)
        assert await server.resume(**before) == OK
        nursery.cancel_scope.cancel()


def test_another_scheme_is_another_listener():
    """A client that began over TLS cannot resume without it."""
    first = Setup(
        data_mime_type="", metadata_mime_type="", keepalive_interval=1, max_lifetime=1,
        transport=TransportInfo(scheme="tls"),
    )  # fmt: skip
    plain = TransportInfo(scheme="tcp")
    assert ResumeFacts(setup=first, transport=plain).differences == ("listener",)


@asynccontextmanager
async def dialled(uri, **settings):
    async with open_transport(uri, **settings) as transport:
        yield FramePeer(transport, cushion=0.05)


async def began(uri, token=TOKEN, **settings):
    async with dialled(uri, **settings) as peer:
        await peer.send(setup(token))
        await peer.expect_alive()


async def resumed(uri, token=TOKEN, **settings):
    async with dialled(uri, **settings) as peer:
        await peer.send(attrs.evolve(RESUME, token=token))
        return await peer.receive()


async def test_another_address_of_the_server_does_not_resume(nursery, tmp_path, caplog):
    """A session is resumed at its own address; the log gives the reason of a refusal."""
    caplog.set_level("INFO")
    uris = [LOCAL, LOCAL, f"unix://{tmp_path}/socket", "ws://127.0.0.1:0/path"]
    start = partial(serve, KnownAnswers(), *uris, resume=ServerResume())
    server = await nursery.start(start)
    for number, uri in enumerate(server.uris):
        token = TOKEN + bytes([number])
        await began(uri, token)
        for other in server.uris:
            if other != uri:
                assert await resumed(other, token) == NO_SESSION
        assert await resumed(uri, token) == OK
    assert "differs from that of the SETUP in listener" in caplog.text
    await server.aclose(grace=0)


async def test_servers_that_share_sessions(nursery):
    """Two servers with the same options do not accept each other's addresses."""
    start = partial(serve, KnownAnswers(), LOCAL, resume=ServerResume())
    one, other = [await nursery.start(start) for _ in range(2)]
    await began(one.uris[0])
    assert await resumed(other.uris[0]) == NO_SESSION
    assert await resumed(one.uris[0]) == OK
    for server in (one, other):
        await server.aclose(grace=0)


async def test_all_addresses_of_a_name_are_one_listener(nursery):
    """An address of `serve` may be several of the machine; they are one listener."""
    seen = []

    async def accept(setup, requester):
        seen.append(setup.transport.listener)
        return Responder()

    server = await nursery.start(partial(serve, accept, "tcp://localhost:0"))
    for uri in server.uris:
        await began_plain(uri)
    assert set(seen) == {server.uris[0]}
    await server.aclose(grace=0)


async def began_plain(uri):
    async with dialled(uri) as peer:
        await peer.setup()
        await peer.expect_alive()


async def test_other_headers_do_not_resume(nursery):
    """A WebSocket client must show the headers again that it is known by."""
    start = partial(serve, KnownAnswers(), "ws://127.0.0.1:0/path", resume=ServerResume())
    server = await nursery.start(start)
    [uri] = server.uris
    mine = [("Authorization", "Bearer ada"), ("Cookie", "session=1")]
    await began(uri, headers=mine)
    for headers in (
        [],
        mine[:1],
        mine[1:],
        [("Authorization", "Bearer eve"), mine[1]],
        [mine[0], ("Cookie", "session=2")],
        [*mine, ("Cookie", "session=2")],
    ):
        assert await resumed(uri, headers=headers) == NO_SESSION
    assert await resumed(f"{uri}?key=value", headers=mine) == NO_SESSION
    assert await resumed(uri, headers=[*mine, ("User-Agent", "another")]) == OK
    await server.aclose(grace=0)


@pytest.mark.parametrize("scheme", ["tls", "wss"])
async def test_another_certificate_of_the_same_name_resumes(nursery, scheme):
    """A client's certificate may be renewed: its name must be the same."""
    authority = trustme.CA()
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server_context)
    authority.configure_trust(server_context)
    server_context.verify_mode = ssl.CERT_OPTIONAL

    def client(name):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        if name is not None:
            issued = authority.issue_cert(name, common_name=name, organization_unit_name="people")
            issued.configure_cert(context)
        return context

    start = partial(
        serve, KnownAnswers(), f"{scheme}://127.0.0.1:0", resume=ServerResume(),
        ssl_context=server_context,
    )  # fmt: skip
    server = await nursery.start(start)
    [uri] = server.uris
    await began(uri, ssl_context=client("ada.example"))
    for name in ("eve.example", None):
        assert await resumed(uri, ssl_context=client(name)) == NO_SESSION
    assert await resumed(uri, ssl_context=client("ada.example")) == OK
    await server.aclose(grace=0)


@pytest.mark.parametrize(("options", "size"), [({}, 16), ({"min_token_size": 3}, 3)])
async def test_short_tokens_are_refused(nursery, options, size):
    """A token that can be guessed names no session: 16 bytes are the minimum by default."""
    server = Server(nursery, KnownAnswers(), ServerResume(**options))
    async with server.dial() as peer:
        await peer.send(setup(b"x" * (size - 1)))
        error = await peer.expect_closed(ErrorCode.REJECTED_SETUP)
        assert error.data == f"a resume token must have at least {size} bytes".encode()
    assert len(server.options.store) == 0
    async with server.dial() as peer:
        await peer.send(setup(b"x" * size))
        await peer.expect_alive()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [0, 65536, 1.5, "16"])
def test_valid_token_sizes(size):
    """Tokens have 1 to 65535 bytes."""
    with pytest.raises((ValueError, TypeError)):
        ServerResume(min_token_size=size)
