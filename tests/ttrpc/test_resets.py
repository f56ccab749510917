"""TCP connections that are reset, and streams that are cut at each byte, harm nobody else."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectFailed, ConnectionClosed, RSocketError
from rsocket_trio.ttrpc import connect, serve
from tests.ttrpc.scenes import (
    CHAT,
    COUNT,
    ECHO,
    JOIN,
    answer,
    client_of_stranger,
    data,
    end,
    opening,
    request,
    stranger_to,
    things,
)

SCRIPT = [
    request(1, payload=b"one"),
    request(3, "Count", b"3"),
    opening(5, "Join"),
    data(5, b"part"),
    opening(7, "Chat"),
    data(7, b"line"),
    end(5),
    end(7),
]
BYTES = b"".join(SCRIPT)
CUTS = range(0, len(BYTES) + 1, 3)


async def reset(stream):
    """Close with a RST in place of a FIN."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


def port_of(server):
    return int(server.uris[0].rpartition(":")[2])


@pytest.mark.parametrize("reads", [True, False], ids=["reads the answers", "reads nothing"])
async def test_a_server_survives_resets_at_each_step(reads, caplog):
    """After each frame, and in the middle of it; other clients are answered meanwhile."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, things(), "tcp://127.0.0.1:0")
        async with connect(server.uris[0]) as other:
            for count in range(len(SCRIPT) + 1):
                for part in (b"", SCRIPT[count][:7] if count < len(SCRIPT) else b"\0" * 9):
                    stream = await trio.open_tcp_stream("127.0.0.1", port_of(server))
                    await stream.send_all(b"".join(SCRIPT[:count]) + part)
                    if reads and count:
                        assert await stream.receive_some(65536)
                    await reset(stream)
                    assert await other.unary(ECHO, b"alive?") == b"alive?"
            with trio.fail_after(60):
                while server.statistics().connections > 1:
                    await trio.sleep(0.001)
            assert server.statistics().active_calls == 0
        await server.aclose()
    assert [each for each in caplog.records if each.levelname in {"ERROR", "CRITICAL"}] == []


@pytest.mark.parametrize("over", ["memory", "socket"])
async def test_a_client_that_is_cut_off_at_each_byte(over, caplog):
    """The server ends the connection: after its answers, or at once if a frame is incomplete."""
    whole = set()
    at = 0
    for frame in SCRIPT:
        whole.add(at)
        at += len(frame)
    for cut in sorted({*CUTS, *whole, len(BYTES)}):
        async with stranger_to(things(), over=over) as stranger:
            await stranger.send(BYTES[:cut])
            await trio.testing.wait_all_tasks_blocked()
            if over == "socket":
                await stranger.end_sending()
            else:
                await stranger.stream.send_stream.aclose()
            frames = await stranger.until_end()
            last = [frame.stream_id for frame in frames if frame.is_last]
            assert len(last) == len(set(last))
            if cut >= len(SCRIPT[0]):
                assert 1 in last
    assert [each for each in caplog.records if each.levelname in {"ERROR", "CRITICAL"}] == []


ANSWERS = b"".join([answer(1, b"one"), data(3, b"0"), end(3), answer(5, b"joined"), end(7)])


async def outcomes_of(client):
    """One call of each kind at once; what each raised, or its answer."""
    outcomes = {}

    async def ask(name, call):
        try:
            outcomes[name] = await call()
        except RSocketError as error:
            outcomes[name] = error
        except trio.EndOfChannel:
            outcomes[name] = None

    async def count():
        async with client.server_stream(COUNT, b"1") as replies:
            return [reply async for reply in replies]

    async def join():
        async with client.client_stream(JOIN) as call:
            return await call.reply()

    async def chat():
        async with client.bidi_stream(CHAT) as call:
            return [line async for line in call]

    async with trio.open_nursery() as nursery:
        for name, call in {
            "unary": lambda: client.unary(ECHO, b""),
            "count": count,
            "join": join,
            "chat": chat,
        }.items():
            nursery.start_soon(ask, name, call)
            await trio.testing.wait_all_tasks_blocked()
    return outcomes


@pytest.mark.parametrize("over", ["memory", "socket"])
async def test_a_server_that_is_cut_off_at_each_byte(over):
    """Each call has its answer or an error of the connection; none hangs."""
    for cut in range(len(ANSWERS) + 1):
        async with client_of_stranger(over=over) as (client, stranger):
            result = {}

            async def ask(client=client, result=result):
                result.update(await outcomes_of(client))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                for _ in range(5):  # four requests, and the end of the messages to Join
                    await stranger.frame()
                await stranger.send(ANSWERS[:cut])
                await trio.testing.wait_all_tasks_blocked()
                await stranger.leave()
        assert len(result) == 4
        wanted = {"unary": b"one", "count": [b"0"], "join": b"joined", "chat": []}
        for name, got in result.items():
            assert got == wanted[name] or isinstance(got, ConnectionClosed), (cut, name, got)
        if cut == len(ANSWERS):
            assert result == wanted


async def test_a_client_survives_resets_at_each_step():
    """While it connects, calls, and receives: the calls fail, and a new connection works."""
    listener = trio.socket.socket()
    await listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    uri = f"tcp://127.0.0.1:{listener.getsockname()[1]}"

    async def peer(sends):
        stream, _ = await listener.accept()
        if sends is not None:
            await stream.recv(65536)
            if sends:
                await stream.send(sends)
        await reset_socket(stream)

    async def reset_socket(stream):
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.close()

    with listener:
        for sends in (None, b"", answer(1)[:3], answer(1)[:10], answer(1) + data(3)[:4]):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer, sends)
                with pytest.raises((ConnectionClosed, ConnectFailed)), trio.fail_after(60):
                    async with connect(uri) as client:
                        for _ in range(2):
                            await client.unary(ECHO, b"")
