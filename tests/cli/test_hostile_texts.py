"""Texts of a server in errors and in JSON do not control the terminal of the command line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from subprocess import CompletedProcess

import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    CustomError,
    Payload,
    RejectedSetup,
    Requester,
    Responder,
    Setup,
    serve,
)

EVIL = "\x1b[31m\nFORGED\r\x9b1m\u2028\u202e\x00\U000e0001"
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")


class Hostile(Responder):
    """Answers with texts for the terminal."""

    async def request_response(self, payload: Payload) -> Payload:
        if payload.data == b"good":
            return Payload(EVIL.encode())
        raise ApplicationError(EVIL)

    async def request_stream(self, payload: Payload) -> AsyncIterator[Payload]:
        yield Payload(b"item")
        raise CustomError(EVIL, code=0x301)


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


async def test_json() -> None:
    """It is one line, and the same text for a program."""
    done = await run("request", "--json", "URI", "good")
    text = done.stdout.decode()
    assert not UNPRINTABLE.search(text), ascii(text)
    assert text.count("\n") == 1
    assert json.loads(text)["data"] == EVIL
