"""Texts of peers, and of files of others, do not control the terminal of the command line."""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import cbor2
import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    CustomError,
    Introspection,
    Payload,
    RejectedSetup,
    Requester,
    Responder,
    RouteDescription,
    Router,
    Setup,
    TypeDescription,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.reactive_streams import from_iterable
from rsocket_trio.spool import Batch, open_spool
from tests.cli.senders import Sender
from tests.programs import environment

EVIL = "\x1b[31m\nFORGED\r\x9b1m\u2028\u202e\x00\U000e0001"
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")


class Hostile(Responder):
    """Answers with texts for the terminal."""

    async def request_response(self, payload: Payload) -> Payload:
        match payload.data:
            case b"good":
                return Payload(EVIL.encode())
            case b"dgood":  # CBOR
                return Payload(cbor2.dumps(EVIL))
            case b'"good"':
                return Payload(json.dumps(EVIL, ensure_ascii=False).encode())
        raise ApplicationError(EVIL)

    async def request_stream(self, payload: Payload) -> AsyncIterator[Payload]:
        yield Payload(EVIL.encode())
        yield Payload(b"\x9b31m FORGED \xff")
        raise CustomError(EVIL, code=0x301)

    def request_channel(
        self, first: Payload, _: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterator[Payload]:
        return self.request_stream(first)


async def accept(setup: Setup, requester: Requester) -> Responder:
    if setup.metadata is not None:
        raise RejectedSetup(EVIL)
    return Hostile()


async def run(*words: str) -> CompletedProcess[bytes]:
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, accept, "tcp://127.0.0.1:0")
        arguments = [str(server.uris[0]) if word == "URI" else word for word in words]
        command = [sys.executable, "-m", "rsocket_trio", *arguments]
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        await server.aclose()
    return done


@pytest.mark.parametrize(
    "words",
    [
        ("request", "URI", "bad"),
        ("request", "-v", "URI", "bad"),
        ("request", "--json", "URI", "bad"),
        ("stream", "URI", "x"),
        ("request", "--auth-bearer", "token", "URI", "x"),
        ("bench", "--duration", "0.2", "--warmup", "0", "URI"),
    ],
)
async def test_errors(words: tuple[str, ...]) -> None:
    done = await run(*words)
    text = done.stderr.decode()
    assert done.returncode in (1, 3)
    assert "FORGED" in text
    assert not UNPRINTABLE.search(text.replace("\r\x1b[K", "")), ascii(text)
    assert not re.search("^FORGED", text, re.MULTILINE)


@pytest.mark.parametrize("words", [("--raw",), (), ("--data-mime", "application/json")])
async def test_json(words: tuple[str, ...]) -> None:
    """It is one line, and the same text for a program: of text, of CBOR and of JSON."""
    done = await run("request", "--json", *words, "URI", "good")
    text = done.stdout.decode()
    assert not UNPRINTABLE.search(text), ascii(text)
    assert text.count("\n") == 1
    assert json.loads(text)["data"] == EVIL


# On a terminal.

UNDER_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")
PROTOS = Path(__file__).parent / "protos"


class Scene:
    """Runs commands on a terminal, beside peers of theirs."""

    def __init__(self, directory: Path, nursery: trio.Nursery) -> None:
        self.directory = directory
        self.nursery = nursery
        self.shown = ""

    async def run(self, *words: str) -> None:
        """Run a command, and keep what the terminal gets."""
        async with self.started(*words):
            pass

    @asynccontextmanager
    async def started(self, *words: str) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
        """Start a command; yield what waits for a text. Leaving waits for its end."""
        ours, theirs = pty.openpty()
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "rsocket_trio", *words],
            stdin=-3,  # DEVNULL
            stdout=theirs,
            stderr=theirs,
            cwd=self.directory,
            env=environment(),
        )
        os.close(theirs)
        changed = trio.Event()

        async def read() -> None:
            nonlocal changed
            while True:
                await trio.lowlevel.wait_readable(ours)
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the terminal has no writer any more
                    data = b""
                # Our own lines of progress, and the line ends of a terminal.
                text = data.decode(errors="backslashreplace").replace("\r\n", "\n")
                self.shown += text.replace("\r\x1b[K", "")
                changed.set()
                changed = trio.Event()
                if not data:
                    return

        async def until(text: str) -> None:
            while text not in self.shown:
                await changed.wait()

        try:
            with trio.fail_after(30):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read)
                    yield until
                    await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            os.close(ours)

    async def rsocket(self) -> str:
        server = await self.nursery.start(serve, accept, "tcp://127.0.0.1:0")
        return str(server.uris[0])

    async def ttrpc(self) -> str:
        service = ttrpc.Service("ttrpc.integration.streaming.Streaming")

        @service.method("Echo")
        async def echo(_request: bytes) -> bytes:
            raise ttrpc.NotFound(EVIL)

        uri = f"unix://{self.directory}/t"
        await self.nursery.start(ttrpc.serve, service, uri)
        return uri

    async def spool(self) -> str:
        where = self.directory / "spool"
        async with open_spool(where) as spool:
            await spool.append(
                Batch(1, EVIL.replace("\n", "").encode() + b"\n", encoding="json-lines")
            )
            await spool.commit(EVIL, 0)
        return str(where)


async def _lumberjack_serve(scene: Scene) -> None:
    async with scene.started(
        *("lumberjack", "serve", "--listen", "lumberjack://127.0.0.1:0", "--take", "1")
    ) as until:
        await until("listening on ")
        await until("\n")
        found = re.search(r"127\.0\.0\.1:(\d+)", scene.shown)
        assert found is not None
        with Sender(int(found[1])) as sender:
            sender.send(EVIL.encode(), json.dumps(EVIL, ensure_ascii=True).encode())
            await trio.to_thread.run_sync(sender.acks, 2)


async def _ttrpc_describe(scene: Scene) -> None:
    text = (PROTOS / "streaming.proto").read_text()
    text = text.replace("service Streaming", "// \x1b[31m FORGED \u202e\nservice Streaming")
    (scene.directory / "evil.proto").write_text(text)
    words = ("--proto", "evil.proto", "ttrpc.integration.streaming.Streaming")
    await scene.run("ttrpc", "describe", *words)


async def _rsio_subscribe(scene: Scene) -> None:
    publishers = {"words": from_iterable([EVIL.encode()])}
    server = await scene.nursery.start(rsio.serve, publishers, "rsio://127.0.0.1:0")
    await scene.run("rsio", "subscribe", str(server.uris[0]), "words")


async def _routes(scene: Scene) -> None:
    class Evil:
        async def describe(self) -> AsyncIterator[RouteDescription]:
            yield RouteDescription(EVIL, EVIL, EVIL, result=TypeDescription(EVIL))

    router = Router(prefix="introspection.")
    router.add(Evil(), as_=Introspection)
    server = await scene.nursery.start(serve, router, "tcp://127.0.0.1:0")
    await scene.run("routes", str(server.uris[0]))


ECHO = "ttrpc.integration.streaming.Streaming/Echo"
_NO_TEXT = "prints its addresses and, by the log, what test_log_policy tests"
ROWS: dict[str, Callable[[Scene], Awaitable[None]] | tuple[str, ...] | str] = {
    "serve": _NO_TEXT,
    "ttrpc serve": _NO_TEXT,
    "lumberjack ship": "a receiver sends numbers only",
    "ttrpc generate": "prints paths that its own arguments and protoc's names make",
    "ttrpc list": "prints names, which protobuf checks",
    "conformance": "escapes what it quotes of a peer: test_conformance",
    "request": ("RSOCKET", "good", "--raw"),
    "fnf": ("--auth-bearer", "token", "RSOCKET", "x"),
    "client": "prints what the target has, and connects to nobody",
    "completion": "prints names of its own parser, and connects to nobody",
    "push": ("--setup-metadata", "x", "RSOCKET", "x"),
    "stream": ("RSOCKET", "x"),
    "channel": ("RSOCKET", "x"),
    "bench": ("--duration", "0.1", "--warmup", "0", "RSOCKET"),
    "decode": ("000000012c0000000201" + EVIL.encode().hex(),),
    "lumberjack serve": _lumberjack_serve,
    "collect": ("--status", "RSOCKET"),
    "spool info": ("SPOOL",),
    "spool read": ("SPOOL",),
    "spool forget": ("SPOOL", "another"),
    "ttrpc call": ("--hex", "TTRPC", ECHO, ""),
    "ttrpc stream": ("--hex", "--kind", "server_stream", "TTRPC", ECHO, ""),
    "ttrpc describe": _ttrpc_describe,
    "rsio subscribe": _rsio_subscribe,
    "routes": _routes,
}


def commands(parser: argparse.ArgumentParser, before: str = "") -> Iterator[str]:
    """The names of all commands of the grammar."""
    groups: list[Any] = [each for each in parser._actions if isinstance(each.choices, dict)]
    for name, child in (pair for group in groups for pair in group.choices.items()):
        yield from list(commands(child, f"{before}{name} ")) or [f"{before}{name}"]


def test_each_command_has_a_row() -> None:
    """A new command has to say what it shows of its peer."""
    assert sorted(commands(build_parser())) == sorted(ROWS)


@pytest.mark.parametrize("command", [n for n, row in ROWS.items() if not isinstance(row, str)])
async def test_terminal(command: str, tmp_path: Path) -> None:
    """The text of the peer arrives, and no character of it that a terminal obeys."""
    row = ROWS[command]
    async with trio.open_nursery() as nursery:
        scene = Scene(tmp_path, nursery)
        if callable(row):
            await row(scene)
        else:
            peers = {"RSOCKET": scene.rsocket, "TTRPC": scene.ttrpc, "SPOOL": scene.spool}
            words = [await peers[word]() if word in peers else word for word in row]
            await scene.run(*command.split(), *words)
        nursery.cancel_scope.cancel()
    assert "FORGED" in scene.shown
    assert not UNDER_CONTROL.search(scene.shown), ascii(scene.shown)


async def test_pipe() -> None:
    """A program gets the bytes of the peer."""
    assert (await run("request", "--raw", "URI", "good")).stdout == EVIL.encode() + b"\n"
