"""A session store of an application: when it is called, and what its mistakes cost."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionConfig,
    ErrorCode,
    MemorySessionStore,
    ResumableSession,
    ServerResume,
    SessionStore,
    serve_transport,
)
from rsocket_trio.frames import (
    ErrorFrame,
    PayloadFrame,
    RequestResponseFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

TOKEN, OTHER = b"t" * 16, b"o" * 16
CONFIG = ConnectionConfig(setup_timeout=5.0, close_timeout=2.0)


def setup(token: bytes = TOKEN) -> SetupFrame:
    return SetupFrame(1, 0, 20_000, 90_000, resume_token=token)


def resume(token: bytes = TOKEN) -> ResumeFrame:
    return ResumeFrame(1, 0, token, 0, 0)


class Hashed(SessionStore):
    """Keeps no tokens, waits, fails on demand; uses public names only."""

    def __init__(self) -> None:
        self.kept: dict[bytes, ResumableSession] = {}
        self.log: list[str] = []
        self.fails: str | None = None
        self.hangs: str | None = None

    async def _called(self, name: str) -> None:
        self.log.append(name)
        await trio.sleep(0.1)
        if self.hangs == name:
            await trio.sleep_forever()
        if self.fails == name:
            raise OSError("no directory")

    async def add(self, token: bytes, session: ResumableSession) -> bool:
        await self._called("add")
        return self.kept.setdefault(hashlib.sha256(token).digest(), session) is session

    async def find(self, token: bytes) -> ResumableSession | None:
        await self._called("find")
        return self.kept.get(hashlib.sha256(token).digest())

    async def remove(self, token: bytes, session: ResumableSession) -> None:
        await self._called("remove")
        key = hashlib.sha256(token).digest()
        if self.kept.get(key) is session:
            del self.kept[key]


class Server:
    """A server with a store of its own, and scripted clients of it."""

    def __init__(self, nursery, store=None, **options) -> None:
        self.nursery = nursery
        self.store = Hashed() if store is None else store
        options = ServerResume(store=self.store, session_lifetime=30.0, **options)
        self.serve = partial(serve_transport, KnownAnswers(), config=CONFIG, resume=options)

    def dial(self) -> FramePeer:
        client, server = memory_transport_pair()
        self.nursery.start_soon(self.serve, server)
        return FramePeer(client)

    async def refuses(self, frame, code) -> bytes:
        async with self.dial() as peer:
            peer.timeout = 20
            await peer.send(frame)
            return (await peer.expect_closed(code)).data

    async def begin(self, token: bytes = TOKEN) -> None:
        """A session, whose connection is lost."""
        async with self.dial() as peer:
            await peer.send(setup(token))
            await peer.expect_alive()

    async def go_on(self, token: bytes = TOKEN) -> None:
        """The client comes back, and says goodbye."""
        async with self.dial() as peer:
            await peer.send(resume(token))
            assert await peer.receive() == ResumeOkFrame(0)
            await peer.expect_alive()
            await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE))
            await peer.expect_closed()


async def test_when_a_store_is_called(nursery, autojump_clock):
    """Once for the SETUP, once for each RESUME, and once when the session is over."""
    server = Server(nursery)
    await server.begin()
    assert server.store.log == ["add"]
    await server.go_on()
    await trio.sleep(1)
    assert server.store.log == ["add", "find", "remove"]
    assert server.store.kept == {}
    answer = await server.refuses(resume(), ErrorCode.REJECTED_RESUME)
    assert answer == b"there is no such session"


async def test_a_session_is_opaque(nursery, autojump_clock):
    """It shows nothing, and equals only itself."""
    server = Server(nursery)
    await server.begin()
    await server.begin(OTHER)
    one, two = server.store.kept.values()
    assert one != two
    assert not [name for name in dir(one) if not name.startswith("_")]
    assert TOKEN.decode() not in repr(one)
    with pytest.raises(TypeError, match="a server gives one to its SessionStore"):
        ResumableSession()


async def test_a_token_in_use_is_refused(nursery, autojump_clock):
    """The second client to reach the store is refused; the first goes on."""
    server = Server(nursery)
    await server.begin()
    assert b"in use" in await server.refuses(setup(), ErrorCode.REJECTED_SETUP)
    await server.go_on()
    await trio.sleep(1)
    assert server.store.log == ["add", "add", "find", "remove"]


async def test_a_store_that_fails_to_add(nursery, autojump_clock, caplog):
    """The client is refused, the log says why, and a partly added session is removed."""
    server = Server(nursery, max_sessions=1)
    for trouble in ("fails", "hangs"):
        caplog.clear()
        server.store.log.clear()
        setattr(server.store, trouble, "add")
        answer = await server.refuses(setup(), ErrorCode.REJECTED_SETUP)
        assert answer == b"the session cannot be kept now"
        assert server.store.log == ["add", "remove"]
        assert "the session store failed" in caplog.text
        assert ("no directory" in caplog.text) is (trouble == "fails")
        setattr(server.store, trouble, None)
    await server.begin()  # So there is room again.


async def test_a_store_that_fails_to_find(nursery, autojump_clock, caplog):
    """The client may try again, and the session lives."""
    server = Server(nursery)
    await server.begin()
    for trouble in ("fails", "hangs"):
        setattr(server.store, trouble, "find")
        answer = await server.refuses(resume(), ErrorCode.CONNECTION_ERROR)
        assert answer == b"the session cannot be found now"
        setattr(server.store, trouble, None)
    assert caplog.text.count("the session store failed") == 2
    await server.go_on()


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
async def test_a_store_that_fails_to_remove(nursery, autojump_clock, caplog, trouble):
    """The error is logged; the session is over, and another one has room."""
    server = Server(nursery, max_sessions=1)
    await server.begin()
    setattr(server.store, trouble, "remove")
    await trio.sleep(33)
    assert "the session store failed" in caplog.text
    await server.begin(OTHER)
    answer = await server.refuses(resume(), ErrorCode.REJECTED_RESUME)
    assert answer == b"there is no such session"


async def test_a_store_that_forgets(nursery, autojump_clock):
    """Its client is refused; the session still counts against the limits until its end."""
    server = Server(nursery, max_sessions=1)
    await server.begin()
    server.store.kept.clear()
    assert b"no such session" in await server.refuses(resume(), ErrorCode.REJECTED_RESUME)
    assert b"too many" in await server.refuses(setup(OTHER), ErrorCode.REJECTED_SETUP)
    await trio.sleep(31)
    await server.begin(OTHER)


@pytest.mark.parametrize("given", ["another session", "no session at all"])
async def test_a_store_that_returns_something_else(nursery, autojump_clock, caplog, given):
    """A mistake of the store gives no client access to the streams of another."""
    server = Server(nursery)
    await server.begin()
    await server.begin(OTHER)
    _, other = server.store.kept.values()
    key = hashlib.sha256(TOKEN).digest()
    server.store.kept[key] = other if given == "another session" else given
    assert b"no such session" in await server.refuses(resume(), ErrorCode.REJECTED_RESUME)
    assert "did not return the session of the token" in caplog.text
    await server.go_on(OTHER)


async def test_a_cancelled_server_frees_the_token(autojump_clock):
    """The server ends in time also if the store is slow to add the session, or fails."""
    store = Hashed()
    async with trio.open_nursery() as nursery:
        server = Server(nursery, store)
        await server.begin()
        store.hangs = "add"
        async with server.dial() as peer:
            await peer.send(setup(OTHER))
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    assert sorted(store.log) == ["add", "add", "remove", "remove"]
    assert store.kept == {}
    store.hangs = "remove"
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        await Server(nursery, store).begin()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - start < 5


async def test_the_store_in_memory():
    """Of several that add at the same time one succeeds, and each removes only its own."""
    store, kept = MemorySessionStore(), []
    sessions = [object() for _ in range(3)]

    async def add(session):
        if await store.add(TOKEN, session):
            kept.append(session)

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(add, session)
    assert len(kept) == len(store) == 1
    assert await store.find(TOKEN) is kept[0]
    assert await store.find(OTHER) is None
    for session in sessions:
        if session is not kept[0]:
            await store.remove(TOKEN, session)
    await store.remove(OTHER, kept[0])
    assert len(store) == 1
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.remove(TOKEN, kept[0])
    assert len(store) == 0
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.add(TOKEN, kept[0])
    assert len(store) == 0


async def test_requests_before_the_session_is_stored(nursery, autojump_clock):
    """Requests that a client sends behind its SETUP wait for the store, and are not lost."""
    server = Server(nursery)
    async with server.dial() as peer:
        await peer.send(setup(), RequestResponseFrame(1, data=b"ping"))
        assert (await peer.receive(PayloadFrame)).data == b"ping"
