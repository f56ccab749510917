"""mypy and pyright, in their strict modes, see what applications give and get."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.programs import ROOT, environment

PROGRAM = """\
from collections.abc import AsyncIterable, AsyncIterator
from typing import Annotated, Protocol, assert_type

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
    assert_type(await caller.request_response("greet", returns=int | None), int | None)
    assert_type(await caller.request_response("greet", returns=Annotated[int, 1]), int)
    assert_type(await caller.request_response("greet"), object)
    async with caller.request_stream("count", returns=tuple[int, str]) as pairs:
        assert_type(pairs, ItemStream[tuple[int, str]])
    async with caller.request_channel("shout", words()) as anything:
        assert_type(anything, ItemStream[object])
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
    "number: int = await caller.request_response('greet', returns=int | None)",
    "number: int = await caller.request_response('greet', returns=Annotated[str, 1])",
    "number: int = await caller.request_response('greet')",
    "number = 1; number = caller.decode(None, str)",
    "numbers: ItemStream[int] = await caller.request_stream('c', returns=str).__aenter__()",
]

APPLICATION = """\
import sqlite3
from collections.abc import AsyncIterable, AsyncIterator
from typing import Annotated, Protocol, assert_type

import trio

from rsocket_trio import (
    Authentication,
    Call,
    Caller,
    Deadlines,
    Forbidden,
    Invalid,
    Introspection,
    Metadata,
    OutgoingCall,
    Principal,
    Provided,
    RequestFacts,
    Requester,
    ResumeFacts,
    Router,
    Setup,
    Stopping,
    Unauthenticated,
    concurrency_limit,
    connect,
    declaration,
    injected,
    rate_limit,
    request_response,
    request_stream,
    send_deadline,
    serve,
)
from rsocket_trio.testing import connected_pair


class User(str): ...


class Database:
    def price(self, item: str) -> float:
        return {"tea": 2.5}[item]


class Basket(list[str]): ...


async def open_database(router: Router) -> AsyncIterator[Database]:
    yield Database()


async def known(
    auth: Authentication | None, facts: Setup | RequestFacts | ResumeFacts
) -> User:
    assert_type(facts.principal, object)
    if auth is not None:
        raise Unauthenticated("nobody has a token")
    return User("ada")


async def timed(call: Call) -> AsyncIterator[None]:
    began = trio.current_time()
    assert_type(call.principal, object)
    yield
    call.attributes["took"] = trio.current_time() - began
    assert_type(call.attributes, dict[str, object])
    print(call.route.name, call.outcome, call.deadline)


async def logged(call: OutgoingCall) -> AsyncIterator[None]:
    yield
    print(call.route.name, call.outcome)


def user_of(call: Call) -> object:
    return call.principal


def unknown(error: KeyError) -> Invalid:
    return Invalid(f"there is no {error.args[0]}")


def basket() -> Basket:
    return Basket()


@declaration(prefix="shop.")
class Shop(Protocol):
    @request_response("{item}.price")
    async def price(self, item: str) -> float: ...

    @request_stream()
    def prices(self, items: list[str]) -> AsyncIterator[float]: ...


class Service:
    async def price(
        self, item: str, user: Annotated[User, Principal], database: Annotated[Database, Provided]
    ) -> float:
        return database.price(item)

    async def prices(
        self, items: list[str], stopping: Stopping, database: Annotated[Database, Provided]
    ) -> AsyncIterator[float]:
        for item in items:
            yield database.price(item)


router = Router(
    lifespan=open_database,
    authenticate=known,
    middleware=[timed, Deadlines(), rate_limit(10, by=user_of), concurrency_limit(3)],
    errors={
        KeyError: unknown,
        PermissionError: Forbidden("not you"),
        OSError: lambda error: Invalid(f"{error}"),
    },
)
router.provide(sqlite3.Connection, lambda: sqlite3.connect(":memory:"), scope="application")
router.provide(Basket, basket, scope="connection")
router.add(Service(), as_=Shop)


@router.connection
async def visit(requester: Requester) -> AsyncIterator[trio.Event]:
    yield trio.Event()


@router.request_response("hash", thread=True)
def hashed(data: bytes) -> int:
    return hash(data)


@router.fire_and_forget("seen")
async def seen(item: str, basket: Annotated[Basket, Provided]) -> None:
    basket.append(item)


@router.request_channel("double", middleware=[timed])
async def double(numbers: AsyncIterable[int], call: Call = injected) -> AsyncIterator[int]:
    async for number in numbers:
        yield 2 * number


router.include(router.introspection(authenticate=known), "about.")


async def main() -> list[str]:
    with router.override(Database, Database()):
        async with connected_pair(router) as requester:
            caller = Caller(requester, middleware=[send_deadline, logged])
            shop = caller.of(Shop, metadata=Metadata(), prefetch=2)
            assert_type(await shop.price("tea"), float)
            async with shop.prices(["tea"]) as prices:
                async for price in prices:
                    assert_type(price, float)
            about = caller.of(Introspection, prefix="about.")
            async with about.describe() as routes:
                found = [route.route or "" async for route in routes]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, "tcp://127.0.0.1:0")
        async with connect(server.uris[0]) as requester:
            await Caller(requester).fire_and_forget("seen", "tea")
        await server.aclose()
    return found
"""


def with_mypy(directory: Path) -> str:
    programs = [str(program) for program in directory.glob("*.py")]
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={directory}/cache"]
    return checked([*command, *programs])


def with_pyright(directory: Path) -> str:
    (directory / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "basedpyright", f"--project={directory}"]
    return checked([*command, f"--pythonpath={sys.executable}"])


def checked(command: list[str]) -> str:
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == ""
    return done.stdout


def lines_with_errors(output: str) -> set[tuple[str, int]]:
    found = re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error", output)
    return {(name, int(line)) for name, line in found}


def if_installed(checker: Callable[[Path], str], distribution: str) -> object:
    reason = f"{distribution} is not installed: pip install '.[types]'"
    absent = not any(distributions(name=distribution))
    return pytest.param(checker, marks=pytest.mark.skipif(absent, reason=reason), id=distribution)


each_checker = pytest.mark.parametrize(
    "checker", [if_installed(with_mypy, "mypy"), if_installed(with_pyright, "basedpyright")]
)


@pytest.mark.seconds(300)
@pytest.mark.programs
@each_checker
def test_both_ends_are_typed(checker: Callable[[Path], str], tmp_path: Path) -> None:
    """Right calls have the declared types; each wrong line is an error, and no other line is."""
    at = PROGRAM.count("\n") + 4
    lines = "".join(f"    {line}\n" for line in WRONG)
    wrong = f"\n\nasync def wrong(caller: Caller, chat: Chat) -> None:\n{lines}"
    (tmp_path / "program.py").write_text(PROGRAM + wrong)
    output = checker(tmp_path)
    expected = {("program.py", at + i) for i in range(len(WRONG))}
    assert lines_with_errors(output) == expected, output


FACES = """
from typing import assert_type

from rsocket_trio.blocking import blocking_connect
from rsocket_trio.from_asyncio import asyncio_connect


async def task() -> None:
    async with asyncio_connect("tcp://a:1") as client:
        assert_type(await client.request_response("a", 1, returns=int), int)
        assert_type(await client.request_response("a", 1), object)
        await client.fire_and_forget("a", 1)
        async with client.request_stream("a", returns=str, prefetch=3) as items:
            assert_type(await items.receive(), str)
        async with client.request_channel("a", [1]) as things:
            assert_type(await things.receive(), object)
        await client.request_response("a", nonsense=1)  # wrong
        await client.fire_and_forget(1)  # wrong


with blocking_connect("tcp://a:1") as client:
    assert_type(client.request_response("a", returns=int, timeout=3), int)
    with client.request_stream("a", returns=int) as numbers:
        for number in numbers:
            assert_type(number, int)
    with client.request_channel("a", [1]) as things:
        assert_type(things.receive(), object)
    client.request_stream(7)  # wrong
"""


@pytest.mark.seconds(300)
@pytest.mark.programs
@each_checker
def test_the_faces_for_asyncio_and_threads_are_typed(
    checker: Callable[[Path], str], tmp_path: Path
) -> None:
    """By the methods of `Caller`, of which theirs are made: each overload, and each argument."""
    (tmp_path / "program.py").write_text(FACES)
    lines = enumerate(FACES.splitlines(), 1)
    expected = {("program.py", number) for number, line in lines if line.endswith("# wrong")}
    output = checker(tmp_path)
    assert lines_with_errors(output) == expected, output


@pytest.mark.seconds(300)
@pytest.mark.programs
@each_checker
def test_whole_applications_are_typed(checker: Callable[[Path], str], tmp_path: Path) -> None:
    """One with all features, and the chat of the examples with its tests, have no error."""
    (tmp_path / "application.py").write_text(APPLICATION)
    for program in (Path(ROOT) / "examples" / "chat").glob("*.py"):
        (tmp_path / program.name).write_text(program.read_text())
    output = checker(tmp_path)
    assert output.startswith(("Success: no issues found in 8", "0 errors")), output


def test_the_application_can_be_served() -> None:
    """What the checkers have no objection to is an application, whose parts fit together."""
    names: dict[str, Any] = {"__name__": "application"}
    exec(APPLICATION, names)
    assert "shop.{item}.price" in trio.run(names["main"])
