"""Admission to a session on resumption: the token alone is not enough."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trio.testing
import trustme

from rsocket_trio import (
    ConnectionConfig,
    Rejected,
    RejectedResume,
    RejectedSetup,
    Responder,
    ResumeFacts,
    ServerResume,
    Setup,
    TransportInfo,
    serve,
)
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestResponseFrame,
)
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import open_transport
from tests.resumable_server import LOCAL, NO_SESSION, OK, RESUME, TOKEN, Server, setup

# -- the same listener, and the same client ------------------------------------------------------


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


# -- an application's own rules ------------------------------------------------------------------


class Watchful(Responder):
    """Decides about resumption as the test says."""

    def __init__(self, decide):
        self.decide = decide
        self.asked = []

    async def accept_resume(self, facts):
        self.asked.append(facts)
        await self.decide(facts)

    async def request_response(self, payload):
        return payload


async def admit(facts): ...


async def test_a_responder_may_decide(nursery):
    """`Responder.accept_resume` replaces the default, each time."""
    watchful = Watchful(admit)
    server = Server(nursery, watchful)
    async with server.session(listener="one"):
        pass
    assert await server.resume(listener="two") == OK
    assert await server.resume(listener="three", peer="there") == OK
    assert [facts.setup.transport.listener for facts in watchful.asked] == ["one", "one"]
    assert [facts.transport.listener for facts in watchful.asked] == ["two", "three"]
    assert watchful.asked[0].principal is None
    nursery.cancel_scope.cancel()


async def test_the_responder_of_the_connection_decides(nursery):
    """The responder that the acceptor returned decides, also if it is not the acceptor."""
    watchful = Watchful(admit)

    async def accept(setup, requester):
        return watchful

    server = Server(nursery, accept)
    async with server.session():
        pass
    assert await server.resume() == OK
    assert len(watchful.asked) == 1
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RejectedResume("no"), ErrorCode.REJECTED_RESUME, b"no"),
        (RejectedResume("now", code=0x101), ErrorCode.CONNECTION_ERROR, b"now"),
        (RejectedResume("odd", code=0x301), ErrorCode.REJECTED_RESUME, b"odd"),
        (Rejected("no"), ErrorCode.REJECTED_RESUME, b"no"),
        (RejectedSetup("no"), ErrorCode.REJECTED_RESUME, b"no"),
        (KeyError("secret"), ErrorCode.REJECTED_RESUME, b"the acceptor failed"),
        (GeneratorExit(), ErrorCode.REJECTED_RESUME, b"the acceptor failed"),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("grouped", [False, True])
async def test_refusals_reach_the_client(nursery, error, code, text, grouped, caplog):
    """The client gets the text that is meant for it; the session goes on on its connection."""

    async def refuse(facts):
        if grouped:
            async with trio.open_nursery():
                raise error
        raise error

    server = Server(nursery, Watchful(refuse))
    async with server.session() as owner:
        assert await server.resume() == ErrorFrame(0, code, text)
        await owner.expect_alive()
        await owner.send(RequestResponseFrame(1, data=b"still here"))
        assert (await owner.receive(PayloadFrame)).data == b"still here"
    assert ("secret" in caplog.text) is isinstance(error, KeyError)
    nursery.cancel_scope.cancel()


async def test_a_late_decision_is_a_refusal(nursery, autojump_clock, caplog):
    """A decision that does not come in time refuses the client."""

    async def ponder(facts):
        await trio.sleep_forever()

    server = Server(nursery, Watchful(ponder), config=ConnectionConfig(setup_timeout=3))
    async with server.session() as owner:
        start = trio.current_time()
        answer = await server.resume()
        assert answer.data == b"the acceptor did not answer in time"
        assert 3 <= trio.current_time() - start < 5
        await owner.expect_alive()
    assert "did not answer within 3 s" in caplog.text
    nursery.cancel_scope.cancel()


async def test_no_change_before_the_admission(nursery):
    """Until the decision nothing changes, and frames behind the RESUME are not read."""
    go = trio.Event()

    async def ponder(facts):
        await go.wait()

    class Counting(Watchful):
        count = 0

        async def request_response(self, payload):
            self.count += 1
            return payload

    counting = Counting(ponder)
    server = Server(nursery, counting)
    async with server.session() as owner:
        async with server.dial() as other:
            await other.send(RESUME, RequestResponseFrame(1, data=b"x"))
            await other.expect_nothing()
            assert counting.count == 0
            await owner.expect_alive()
            go.set()
            # The position counts the frames that were received until the admission.
            assert await other.receive() == OK
            assert (await other.receive(PayloadFrame)).data == b"x"
            await owner.expect_closed()
    nursery.cancel_scope.cancel()


async def test_a_session_that_ends_during_the_decision(nursery):
    """A decision about one session does not hold for another session of the same token."""
    go = trio.Event()

    async def ponder(facts):
        await go.wait()

    server = Server(nursery, Watchful(ponder))
    async with server.dial() as other:
        async with server.session() as owner:
            await other.send(RESUME)
            await other.expect_nothing()
            await owner.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE))
            await owner.expect_closed()
        await trio.testing.wait_all_tasks_blocked()
        async with server.session() as successor:
            go.set()
            assert await other.receive() == NO_SESSION
            await successor.expect_alive()
    nursery.cancel_scope.cancel()


async def test_a_session_that_is_not_accepted_yet_cannot_be_resumed(nursery):
    """A client that is not admitted yet has no session to resume."""
    go = trio.Event()

    async def accept(setup, requester):
        await go.wait()
        return KnownAnswers()

    server = Server(nursery, accept)
    async with server.dial() as owner:
        await owner.send(setup(), KeepaliveFrame(respond=True))
        await owner.expect_nothing()
        assert await server.resume() == NO_SESSION
        go.set()
        await owner.receive(KeepaliveFrame)
        assert await server.resume() == OK
    nursery.cancel_scope.cancel()


# -- tokens --------------------------------------------------------------------------------------


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
