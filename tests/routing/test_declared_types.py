"""Type checkers see what callers of declarations give and get: mypy, and pyright if it is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.programs import environment

PROGRAM = """\
from collections.abc import AsyncIterable, AsyncIterator
from typing import Protocol, assert_type

from trio.abc import ReceiveChannel

from rsocket_trio import (
    Caller,
    ItemStream,
    Requester,
    Router,
    declaration,
    fire_and_forget,
    injected,
    request_channel,
    request_response,
    request_stream,
)


@declaration(prefix="chat.")
class Chat:
    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    @request_response("join")
    async def join(self, name: str, *, peer: Requester = injected) -> int | None:
        return len(name)

    @fire_and_forget()
    async def leave(self, name: str) -> None: ...

    @request_stream("{room}.messages")
    async def messages(self, room: str, limit: int = 10) -> AsyncIterator[bytes]:
        yield b""

    @request_stream("later")
    async def later(self) -> ReceiveChannel[float]:
        raise NotImplementedError

    @request_channel("shout")
    async def shout(self, texts: AsyncIterable[str]) -> AsyncIterator[str]:
        async for text in texts:
            yield text


class Board(Protocol):
    @request_response()
    async def read(self, key: str) -> str: ...

    @request_stream()
    def watch(self) -> AsyncIterator[str]: ...


@request_response("greet")
async def greet(name: str) -> str:
    return name


@request_stream()
async def count(end: int) -> AsyncIterator[int]:
    yield end


async def words() -> AsyncIterator[str]:
    yield "a"


async def main(caller: Caller) -> None:
    Router().add(Chat("hello"))
    chat = caller.of(Chat)
    assert_type(chat, Chat)
    assert_type(await chat.join("trio"), int | None)
    await chat.leave("trio")
    async with chat.messages("lobby", limit=2) as messages:
        assert_type(messages, ItemStream[bytes])
        assert_type(await messages.receive(), bytes)
    async with chat.later() as floats:
        assert_type(floats, ItemStream[float])
    async with chat.shout(words()) as texts:
        assert_type(texts, ItemStream[str])
    board = caller.of(Board, prefix="v1.")
    assert_type(await board.read("key"), str)
    async with board.watch() as changes:
        assert_type(changes, ItemStream[str])
    assert_type(await caller.call(greet, "trio"), str)
    async with caller.call(count, 3) as numbers:
        assert_type(numbers, ItemStream[int])
    assert_type(await caller.request_response("greet", "trio", returns=str), str)
"""
WRONG = [
    "await chat.join(1)",
    "await chat.join()",
    "chat.messages(1)",
    "chat.messages('lobby', limit='2')",
    "chat.shout(['a'])",
    "chat.nope()",
    "await chat.messages('lobby')",
    "text: str = await chat.join('trio')",
    "await caller.call(greet, 1)",
    "caller.call(count, 'three')",
    "await caller.of(Board).read(1)",
    "number: int = await caller.request_response('greet', returns=str)",
    "number = 1; number = caller.decode(None, str)",
    "numbers: ItemStream[int] = await caller.request_stream('c', returns=str).__aenter__()",
]

PYRIGHT = shutil.which("pyright")


def with_mypy(program: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={program.parent}/cache"]
    return checked([*command, str(program)])


def with_pyright(program: Path) -> str:
    assert PYRIGHT is not None
    return checked([PYRIGHT, "--pythonpath", sys.executable, str(program)])


def checked(command: list[str]) -> str:
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.seconds(300)
@pytest.mark.programs
@pytest.mark.parametrize(
    "checker",
    [
        pytest.param(
            with_mypy,
            marks=pytest.mark.skipif(
                not any(distributions(name="mypy")), reason="mypy is not installed"
            ),
        ),
        pytest.param(
            with_pyright,
            marks=pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed"),
        ),
    ],
)
def test_both_ends_are_typed(checker, tmp_path: Path) -> None:
    """Right calls have the declared types; each wrong line is an error, and no other line is."""
    program = tmp_path / "program.py"
    at = PROGRAM.count("\n") + 4
    lines = "".join(f"    {line}\n" for line in WRONG)
    wrong = f"\n\nasync def wrong(caller: Caller, chat: Chat) -> None:\n{lines}"
    program.write_text(PROGRAM + wrong)
    output = checker(program)
    found = re.findall(r"program\.py:(\d+)(?::\d+)?(?: -|:) error", output)
    assert {int(line) for line in found} == {at + i for i in range(len(WRONG))}, output
