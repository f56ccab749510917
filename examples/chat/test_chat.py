"""The chat, in memory."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from api import Chat, NotInRoom
from server import router
from tokens import token_of

from rsocket_trio import (
    BearerAuthentication,
    Caller,
    Dial,
    Forbidden,
    Metadata,
    Rejected,
    SetupError,
    connect,
)
from rsocket_trio.testing import served


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a database of its own."""
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def client(dial: Dial, token: str) -> AsyncGenerator[Chat]:
    """Connect a user."""
    me = Metadata(auth=BearerAuthentication(token))
    async with connect(dial, setup_metadata=me) as requester:
        yield Caller(requester).of(Chat)


async def test_history_and_news() -> None:
    async with served(router) as dial, client(dial, token_of("ada")) as chat:
        await chat.join("lobby")
        first = await chat.say("lobby", "hello")
        async with chat.messages("lobby") as messages:
            assert (await messages.receive()).text == "hello"
            await chat.say("lobby", "again")
            assert (await messages.receive()).text == "again"
        async with chat.messages("lobby", after=first) as messages:
            assert (await messages.receive()).text == "again"


async def test_presence_ends_with_the_connection() -> None:
    async with served(router) as dial, client(dial, token_of("bob")) as bob:
        async with client(dial, token_of("cleo")) as cleo:
            assert await cleo.join("lobby") == ["cleo"]
            assert await bob.join("lobby") == ["bob", "cleo"]
        assert await bob.join("lobby") == ["bob"]


async def test_a_room_must_be_joined() -> None:
    async with served(router) as dial, client(dial, token_of("dan")) as chat:
        with pytest.raises(NotInRoom, match="join the room first"):
            await chat.say("lobby", "hello")


async def test_nobody_is_everywhere() -> None:
    async with served(router) as dial, client(dial, token_of("fay")) as chat:
        for number in range(20):
            await chat.join(f"room-{number}")
        with pytest.raises(Forbidden, match="20 rooms"):
            await chat.join("one-more")
        await chat.join("room-0")  # is there already


async def test_nobody_floods(autojump_clock: trio.testing.MockClock) -> None:
    async def flood(chat: Chat) -> None:
        for _ in range(40):
            await chat.join("lobby")

    async with served(router) as dial, client(dial, token_of("eve")) as chat:
        with pytest.raises(Rejected, match="too many requests"):
            await flood(chat)
        await trio.sleep(1)
        await chat.join("lobby")


async def test_a_token_must_be_signed() -> None:
    async with served(router) as dial:
        with pytest.raises(SetupError, match="a token of this chat"):
            async with client(dial, "ada.0000"):
                pass
