"""Hybrid vsock: the line of the client, the hypervisor's answer, and the stream behind it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.hybrid_vsock import MAX_ANSWER, request_port
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.sockets.echoing import ask, echo_server, reach

Answer = Callable[[trio.SocketStream], object]


@asynccontextmanager
async def hypervisor(path: Path, answer: bytes, *, closes: bool = False) -> AsyncIterator[str]:
    """Answer the line of a client, then send bytes back; or close."""
    lines: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        line = b""
        while not line.endswith(b"\n"):
            line += await stream.receive_some(1)
        lines.append(line)
        await stream.send_all(answer)
        while not closes and (data := await stream.receive_some()):
            await stream.send_all(data)

    with trio.socket.socket(socket.AF_UNIX) as sock:
        await sock.bind(str(path))
        sock.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, [trio.SocketListener(sock)])
            yield f"hvsock://{path}:1024"
            nursery.cancel_scope.cancel()
    assert set(lines) <= {b"CONNECT 1024\n"}


@pytest.mark.parametrize("answer", [b"OK 1073741824\n", b"OK 0\n", b"OK 4294967295\r\n"])
async def test_a_connection(tmp_path: Path, answer: bytes) -> None:
    """Behind the answer it is a stream; what came with the answer is not lost."""
    async with (
        assert_no_leaks(),
        hypervisor(tmp_path / "v", answer + b"hello") as address,
        await reach(address) as client,
    ):
        assert await client.stream.receive_some(5) == b"hello"
        assert await ask(client) == b"ping"
        assert client.info.peer == f"{tmp_path}/v:1024"
        assert client.info.scheme == "ttrpc+hvsock"


@pytest.mark.parametrize(
    "answer",
    [
        b"ERR 1\n",
        b"OK\n",
        b"OK x\n",
        b"OK 1 2\n",
        b"ok 1\n",
        b"\n",
        b"\xff\x00\n",
        b"OK 12345678901\n",
        b"x" * 100_000,
    ],
)
async def test_another_answer_is_a_failure(tmp_path: Path, answer: bytes) -> None:
    """No more of it is read or shown than an answer can have."""
    async with assert_no_leaks(), hypervisor(tmp_path / "v", answer) as address:
        with pytest.raises(ConnectFailed, match="to CONNECT 1024, not OK") as caught:
            await reach(address)
    assert repr(answer[:MAX_ANSWER]) in str(caught.value)
    assert address in str(caught.value)


@pytest.mark.parametrize("answer", [b"", b"OK 10"])
async def test_the_end_in_place_of_an_answer(tmp_path: Path, answer: bytes) -> None:
    """So says a hypervisor that no process listens on the port."""
    async with hypervisor(tmp_path / "v", answer, closes=True) as address:
        why = "not OK" if answer else "no process listens on vsock port 1024"
        with pytest.raises(ConnectFailed, match=why):
            await reach(address)


async def test_no_answer(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """The time for handshakes ends the wait, also in the middle of the line."""
    async with assert_no_leaks(), hypervisor(tmp_path / "v", b"OK 1") as address:
        with pytest.raises(ConnectFailed, match="not finished within 7 s"):
            await reach(address, timeout=7)


async def test_no_hypervisor(tmp_path: Path) -> None:
    """The failure is that of the Unix socket."""
    with pytest.raises(ConnectFailed, match="No such file or directory"):
        await reach(f"hvsock://{tmp_path}/v:1024")


@pytest.mark.parametrize("size", range(1, 9))
async def test_the_answer_in_pieces_of_any_size(size: int) -> None:
    """Each piece is read when it comes, and nothing behind the line end."""
    here, there = map(trio.SocketStream, trio.socket.socketpair())
    text = b"OK 1024\nOK"
    async with here, there, trio.open_nursery() as nursery:
        nursery.start_soon(request_port, here, 1024)
        for start in range(0, len(text), size):
            await trio.testing.wait_all_tasks_blocked()
            await there.send_all(text[start : start + size])
        await trio.testing.wait_all_tasks_blocked()
        assert await there.receive_some() == b"CONNECT 1024\n"
        assert await here.receive_some() == b"OK"


async def test_a_server_listens_on_a_unix_socket_instead(tmp_path: Path) -> None:
    """The error names the path that the hypervisor uses."""
    with pytest.raises(ExceptionGroup) as caught:
        async with echo_server(f"hvsock://{tmp_path}/v:1024"):
            raise AssertionError("it listens")
    assert f"listen on the path {tmp_path}/v_1024" in str(caught.value.exceptions[0])
