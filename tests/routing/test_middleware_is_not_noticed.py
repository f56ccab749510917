"""A handler within ten blocks that do nothing does what the bare handler does.

What a handler, its requester and the log see is written down, once without the blocks and once
with them, for each interaction and each way to end, cancelled at each step. It must be the same.
"""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest
import trio
import trio.testing

from rsocket_trio import Caller, Payload, Router, errors
from rsocket_trio.metadata import Metadata
from rsocket_trio.testing import connected_pair

INTERACTIONS = ["response", "stream", "channel", "drop", "push"]
STEPS = 4
WAYS = [
    "completes",
    "raises StreamError",
    "raises ValueError",
    "raises a group",
    "raises a group of two",
    "raises StopAsyncIteration",
    "absorbs the cancellation",
    "has a nursery that fails",
    *(f"is cancelled at step {step}" for step in range(STEPS)),
    *(f"is left at step {step}" for step in range(STEPS)),
]
VARIABLE = contextvars.ContextVar("variable", default="unset")


async def generator(call):
    yield


async def with_finally(call):
    try:
        yield
    finally:
        call.attributes["left"] = True


async def that_raises_again(call):
    try:
        yield
    except BaseException:
        raise


@asynccontextmanager
async def manager(call):
    yield


class Block:
    def __init__(self, call):
        pass

    async def __aenter__(self):
        pass

    async def __aexit__(self, *error):
        return None


TEN = [generator, with_finally, that_raises_again, manager, Block] * 2


class Scene:
    """One request; what is seen of it."""

    def __init__(self, way, middleware):
        self.way = way
        self.seen = []
        self.got = []
        self.reached = [trio.Event() for _ in range(STEPS)]
        self.router = Router(middleware=middleware)
        self._register()

    async def work(self):
        """The part of all handlers: some steps, then an end."""
        task = trio.lowlevel.current_task()
        tasks = {task}
        self.seen.append(f"variable {VARIABLE.get()}")
        VARIABLE.set("set by the handler")
        try:
            for step in range(STEPS):
                self.seen.append(f"step {step}")
                self.reached[step].set()
                if self.way.endswith(f"at step {step}"):
                    await trio.sleep_forever()
                await trio.lowlevel.checkpoint()
                tasks.add(trio.lowlevel.current_task())
                self.seen.append(f"variable {VARIABLE.get()}")
            await self.end()
        except BaseException as error:
            self.seen.append(f"sees {shape(error)}")
            raise
        finally:
            tasks.add(trio.lowlevel.current_task())
            self.seen.append(f"is left; {len(tasks)} task")

    async def end(self):
        match self.way:
            case "raises StreamError":
                raise errors.CustomError("no", code=0x321)
            case "raises ValueError":
                raise ValueError("secret")
            case "raises a group":
                raise ExceptionGroup("one", [errors.CustomError("no", code=0x321)])
            case "raises a group of two":
                raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])
            case "raises StopAsyncIteration":
                raise StopAsyncIteration
            case "absorbs the cancellation":
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await trio.sleep_forever()
            case "has a nursery that fails":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.fail)
                    await trio.sleep_forever()

    async def fail(self):
        raise ValueError("of a task")

    def _register(self):
        router = self.router

        @router.request_response("response")
        async def response() -> str:
            await self.work()
            return "answer"

        @router.request_stream("stream")
        async def stream() -> AsyncIterator[str]:
            yield "first"
            await self.work()
            yield "last"

        @router.request_channel("channel")
        async def channel(items: AsyncIterator[str]) -> AsyncIterator[str]:
            async for item in items:
                yield item
            await self.work()
            yield "last"

        @router.fire_and_forget("drop")
        async def drop() -> None:
            await self.work()

        @router.metadata_push()
        async def push(_metadata: bytes) -> None:
            await self.work()

    async def ask(self, requester, interaction):
        """Make the request, and write down what the requester gets."""
        caller = Caller(requester)
        try:
            match interaction:
                case "response":
                    self.got.append(await caller.request_response("response", returns=str))
                case "drop":
                    await caller.fire_and_forget("drop")
                case "push":
                    await requester.metadata_push(b"")
                case "stream":
                    async with caller.request_stream("stream", returns=str) as items:
                        await self.receive(items)
                case "channel":
                    opened = caller.request_channel("channel", ["a", "b"], returns=str)
                    async with opened as items:
                        await self.receive(items)
        except errors.StreamError as error:
            self.got.append(f"gets {error!r}")

    async def receive(self, items):
        if self.way.startswith("is left"):
            await self.reached[int(self.way[-1])].wait()
            return
        async for item in items:
            self.got.append(item)


def shape(error):
    """What an exception is, with those in it."""
    if isinstance(error, BaseExceptionGroup):
        return [error.message, *(shape(each) for each in error.exceptions)]
    return type(error).__name__ if isinstance(error, trio.Cancelled) else repr(error)


async def seen_of(interaction, way, middleware, caplog):
    """Make one request, then another one, which shows that the connection is whole."""
    caplog.clear()
    scene = Scene(way, middleware)
    is_cut = way.startswith("is ")
    has_answer = interaction not in ("drop", "push")
    async with connected_pair(scene.router) as requester:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.ask, requester, interaction)
            if is_cut:
                await scene.reached[int(way[-1])].wait()
                await trio.testing.wait_all_tasks_blocked()
                if way.startswith("is cancelled") or interaction == "response":
                    nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        if has_answer or not is_cut:  # else the end of the connection cancels it
            scene.way = "completes"
            await scene.ask(requester, interaction)
            await trio.testing.wait_all_tasks_blocked()
    log = [(each.levelname, each.getMessage()) for each in caplog.records]
    raised = [shape(each.exc_info[1]) for each in caplog.records if each.exc_info]
    return [scene.seen, scene.got, log, raised]


@pytest.mark.parametrize(("interaction", "way"), list(product(INTERACTIONS, WAYS)))
async def test_ten_blocks_are_not_noticed(interaction, way, caplog):
    """Cancellation, context variables, task, errors and groups pass them unchanged."""
    bare = await seen_of(interaction, way, [], caplog)
    assert "is left; 1 task" in bare[0]
    assert await seen_of(interaction, way, TEN, caplog) == bare


async def test_a_requester_of_bytes_is_served_alike():
    """The bytes of an answer are the same, too."""
    answers = []
    for middleware in ([], TEN):
        scene = Scene("completes", middleware)
        async with connected_pair(scene.router) as requester:
            payload = Payload(b"", Metadata(route="response").encode())
            answers.append(await requester.request_response(payload))
    assert answers[0] == answers[1]
