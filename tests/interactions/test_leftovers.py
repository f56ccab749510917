"""What a handler leaves in its task harms no other request, by each kind of handler and of misuse.

In each scene one request misuses its task in the middle of innocent ones: all of those are
answered, each sees a clean task, the peer's CANCEL reaches one that waits, and the connection ends
at once. A failure that escapes from trio ends the test.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
import trio

from rsocket_trio import (
    Lease,
    Payload,
    Responder,
    StreamedPayload,
    StreamError,
)
from rsocket_trio.interactions import leftovers
from rsocket_trio.testing.in_memory import connected_pair
from tests.misuses import MISUSES, TOUCHED, assert_clean, hide_private_names

KINDS = ["response", "body", "stream", "stream_awaited", "channel", "fnf", "push", "chunks"]
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


class Bodies:
    """Handlers of requests that are read while they arrive."""

    def __init__(self, misuse):
        self.misuse = misuse

    async def request_response(self, body):
        async for _ in body:
            pass
        await self.misuse()


class Served(Responder):
    """Misuses its task for ``bad``; else answers, after a wait or none, from a clean task."""

    def __init__(self, misuse):
        self.misuse = misuse
        self.held = trio.Event()
        self.cancelled = trio.Event()
        self.wrong = []

    def body_responder(self, interaction, metadata):
        return Bodies(self.misuse)

    async def request_response(self, payload):
        if payload.data == b"bad":
            await self.misuse()
            return payload
        if payload.data == b"chunks":
            return StreamedPayload(self.request_stream(payload))
        try:
            assert_clean()
            if payload.data == b"wait":
                await trio.sleep(0.1)
            elif payload.data == b"hold":
                self.held.set()
                await trio.sleep_forever()
            assert_clean()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        except AssertionError as error:
            self.wrong.append(error)
        return payload

    async def fire_and_forget(self, payload):
        await self.misuse()

    async def metadata_push(self, metadata):
        await self.misuse()

    def request_stream(self, payload):
        return self.awaited() if payload.data == b"await" else self.items(payload.data)

    async def items(self, data):
        yield Payload(b"first") if data == b"bad" else b"first"
        await self.misuse()
        yield Payload(b"last") if data == b"bad" else b"last"

    async def awaited(self):
        await self.misuse()
        return self.few()

    async def few(self):
        yield Payload(b"first")

    async def request_channel(self, payload, payloads):
        await self.misuse()
        async for item in payloads:
            yield item


async def do(client, kind):
    """Send the one request that misuses its task."""
    bad = Payload(b"bad")
    with contextlib.suppress(StreamError):
        if kind == "response":
            await client.request_response(bad)
        elif kind == "body":
            await client.request_response(Payload(bytes(2**17)))
        elif kind == "chunks":
            await client.request_response(Payload(b"chunks"))
        elif kind == "fnf":
            await client.fire_and_forget(bad)
        elif kind == "push":
            await client.metadata_push(b"bad")
        elif kind.startswith("stream"):
            asked = Payload(b"await") if kind == "stream_awaited" else bad
            async with client.request_stream(asked) as items:
                async for _ in items:
                    pass
        else:
            async with client.request_channel([bad, bad]) as items:
                async for _ in items:
                    pass


async def scene(kind, misuse, caplog):
    served = Served(misuse)
    answered = []

    async def ask(data):
        reply = await client.request_response(Payload(data))
        answered.append(reply.data == data)

    async def hold():
        with holding:
            await ask(b"hold")

    async with connected_pair(served) as client:
        for _ in range(3):
            holding = trio.CancelScope()
            served.held = trio.Event()
            served.cancelled = trio.Event()
            async with trio.open_nursery() as nursery:
                for data in (b"x", b"wait", b"x"):
                    nursery.start_soon(ask, data)
                nursery.start_soon(do, client, kind)
                nursery.start_soon(hold)
                for data in (b"x", b"wait") * 4:
                    nursery.start_soon(ask, data)
                with trio.fail_after(1):
                    await served.held.wait()
                for data in (b"x", b"wait") * 4:
                    nursery.start_soon(ask, data)
                await trio.sleep(0.04)
                holding.cancel()
                with trio.fail_after(0.01):
                    await served.cancelled.wait()
        for _ in range(70):  # more than run within one scope
            await ask(b"x")
        ended = trio.current_time()
    assert trio.current_time() - ended < 0.01
    assert served.wrong == []
    assert answered == [True] * (3 * 19 + 70)
    assert not TOUCHED.get()
    assert "please report" not in caplog.text
    if misuse.__name__.startswith("abandon"):
        assert not [each for each in caplog.messages if "failed when it was closed" in each]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("misuse", MISUSES)
async def test_other_requests_are_served(kind, misuse, autojump_clock, caplog):
    """Where trio says what a handler has left open, no other request runs in its task."""
    await scene(kind, misuse, caplog)


@pytest.mark.parametrize("misuse", MISUSES)
async def test_a_function_in_a_task_of_its_own(misuse, autojump_clock):
    """Handlers of Lumberjack, resolvers of rsio and guards are called so: nobody else notices."""
    ended = []

    async def other():
        await trio.sleep(1)
        assert_clean()
        ended.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(other)
        await trio.lowlevel.checkpoint()
        await leftovers.isolated(misuse)
        assert trio.current_time() - began < 0.5
    assert ended == [pytest.approx(began + 1)]
    assert not TOUCHED.get()


@pytest.mark.parametrize("misuse", MISUSES)
@pytest.mark.parametrize("place", ["acceptor", "leases", "source"])
async def test_other_functions_of_the_application(place, misuse, autojump_clock, caplog):
    """An acceptor, a source of leases and a source of a channel harm at most their connection."""
    served = Served(misuse)

    async def accept(_setup, _requester):
        if place == "acceptor":
            await misuse()
        return served

    async def leases(_question):
        await misuse()
        return Lease(10, 10)

    async def source():
        yield Payload(b"1")
        await misuse()
        yield Payload(b"2")

    async def use():
        async with connected_pair(
            accept, lease=leases if place == "leases" else None, client_lease=place == "leases"
        ) as client:
            await client.request_response(Payload(b"wait"))
            if place == "source":
                async with client.request_channel(source()) as items:
                    async for _ in items:
                        pass
            await client.request_response(Payload(b"wait"))

    async with connected_pair(served) as other, trio.open_nursery() as nursery:
        nursery.start_soon(other.request_response, Payload(b"wait"))
        with contextlib.suppress(Exception):
            await use()
        assert await other.request_response(Payload(b"x")) == Payload(b"x")
        await trio.sleep(1)
    assert served.wrong == [] or place != "source"
    assert not TOUCHED.get()


SEEN_WITHOUT = [each for each in MISUSES if "scope" not in each.__name__]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("misuse", SEEN_WITHOUT)
async def test_without_the_private_names_of_trio(kind, misuse, autojump_clock, caplog, monkeypatch):
    """A later trio may not have them: all but scopes are found as well."""
    hide_private_names(monkeypatch)
    await scene(kind, misuse, caplog)


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_scope_left_open_where_trio_does_not_say_so(hidden, monkeypatch):
    """Only then it may be there for a later request, until the scope around it is closed."""
    if hidden:
        hide_private_names(monkeypatch)
    scopes = []

    class Leaves(Responder):
        async def request_response(self, payload):
            if payload.data:
                scopes.append(trio.move_on_after(1000))
                scopes[-1].__enter__()
                return payload
            return Payload(str(trio.current_effective_deadline()).encode())

    seen = set()
    async with connected_pair(Leaves()) as client:
        for _ in range(70):
            await client.request_response()
        await client.request_response(Payload(b"bad"))
        for _ in range(70):
            reply = await client.request_response()
            seen.add(reply.data)
        assert (await client.request_response()).data == b"inf"
    assert len(seen) == 1 + hidden


async def test_trio_has_the_private_names():
    """If not, `leftovers` must learn others: its docstring says which questions they answer."""

    async def ask():
        watch = leftovers.Watch()
        assert watch._keeper.knows_trio
        assert not watch.changed()
        async with trio.open_nursery():
            assert watch.changed()
        assert not watch.changed()
        with trio.CancelScope():
            assert watch.changed()
            watch.mark()
            assert not watch.changed()
        assert watch.changed()
        assert not await watch.leave()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)


async def test_what_was_left_open_fails(autojump_clock):
    """It is the cause of what the caller reports; what ends the program is raised."""

    async def leave(error):
        async def fail():
            raise error

        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(fail)

    failure = await leftovers.isolated(partial(leave, ValueError("a child failed")))
    assert "left a nursery open" in str(failure)
    assert "a child failed" in str(failure.__cause__)
    failure = await leftovers.isolated(partial(leave, SystemExit(3)))
    assert failure.subgroup(SystemExit) is not None


async def test_other_generators_are_closed_by_trio(autojump_clock):
    """A generator without a nursery of a watched task is closed as soon as nobody has it."""
    closed = trio.Event()

    async def plain():
        try:
            while True:
                yield
        finally:
            closed.set()

    async def abandon():
        async with trio.open_nursery():
            generator = plain()
            await anext(generator)
            del generator
            with trio.fail_after(1):
                await closed.wait()

    assert await leftovers.isolated(abandon) is None
