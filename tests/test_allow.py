"""``allow=`` of every server with Unix sockets: who may connect is asked before the wire begins."""

from __future__ import annotations

import os
from functools import partial

import pytest
import trio

from rsocket_trio import (
    Allow,
    ConnectFailed,
    ConnectionClosed,
    Payload,
    TransportInfo,
    connect,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.collector import CollectorClient, collect, connect_collector
from rsocket_trio.testing.peer import KnownAnswers

ME = os.geteuid()


async def use_rsocket(uri):
    async with connect(uri) as requester:
        await requester.request_response(Payload(b"x"))


async def use_rsio(uri):
    async with rsio.connect(uri):
        pass


async def use_collector(uri):
    async with connect_collector(uri) as client:
        assert isinstance(client, CollectorClient)
        await client.info()


SERVERS = {
    "rsocket": (lambda path: partial(serve, KnownAnswers(), f"unix://{path}/s"), use_rsocket),
    "rsio": (lambda path: partial(rsio.serve, {}, f"rsio+unix://{path}/s"), use_rsio),
    "collector": (
        lambda path: partial(collect, str(path / "spool"), f"unix://{path}/s"),
        use_collector,
    ),
}


@pytest.mark.parametrize(
    ("allow", "admitted"),
    [
        (Allow(uids=[ME]), True),
        (Allow(same_user=True), True),
        (Allow(uids=[ME + 1], gids=[os.getgid() + 1]), False),
        (lambda info: info.scheme != "unix", False),
        (None, True),
    ],
    ids=["uid", "same user", "another", "a function", "everybody"],
)
@pytest.mark.parametrize("wire", SERVERS)
async def test_who_may_connect(wire, allow, admitted, tmp_path, nursery, caplog):
    """Others are disconnected, with a line in the log."""
    start, use = SERVERS[wire]
    if wire == "rsio" and callable(allow) and not isinstance(allow, Allow):

        async def allow(info: TransportInfo) -> bool:
            await trio.lowlevel.checkpoint()
            return info.scheme != "rsio+unix"

    server = await nursery.start(partial(start(tmp_path), allow=allow))
    if admitted:
        await use(server.uris[0])
    else:
        with pytest.raises((ConnectFailed, ConnectionClosed)):
            await use(server.uris[0])
    assert ("may not connect" in caplog.text) is not admitted
    await server.aclose(grace=0)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("wire", SERVERS)
async def test_an_argument_that_cannot_be_asked(wire, tmp_path):
    """A list of users is no function."""
    start, _ = SERVERS[wire]
    with pytest.raises((TypeError, ExceptionGroup)) as caught:
        await start(tmp_path)(allow=[ME])
    error = caught.value
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    assert "allow must be an Allow or a function, not list" in str(error)


@pytest.mark.parametrize(
    "start",
    [
        partial(serve, KnownAnswers(), "unix:///nowhere/s", "tcp://127.0.0.1:0"),
        partial(rsio.serve, {}, "rsio://127.0.0.1:0"),
        partial(ttrpc.serve, ttrpc.Service("test.Things"), "tcp://127.0.0.1:0"),
    ],
    ids=["rsocket", "rsio", "ttrpc"],
)
async def test_users_are_not_known_at_tcp(start):
    """A server that would run for nobody does not start. A function may decide by the address."""
    with pytest.raises(ValueError, match=r"lets nobody connect to .*tcp://|rsio://127"):
        await start(allow=Allow(same_user=True))
