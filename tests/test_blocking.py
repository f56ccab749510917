"""Requests from threads that do not run trio: `blocking_connect`, `blocking`.

Modules: rsocket_trio.portal, rsocket_trio.blocking.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial

import pytest
import trio

from rsocket_trio import Metadata, Rejected, Router, connect, serve
from rsocket_trio.blocking import blocking, blocking_connect
from rsocket_trio.errors import ConnectFailed, Invalid
from rsocket_trio.portal import Portal

router = Router()
seen = {"cancelled": 0, "produced": 0, "fired": 0}
changed = threading.Condition()


def note(what):
    with changed:
        seen[what] += 1
        changed.notify_all()


def wait_for(what, count):
    with changed:
        assert changed.wait_for(lambda: seen[what] >= count, timeout=30)


@router.request_response("double")
async def double(number: int) -> int:
    return 2 * number


@router.request_response("never")
async def never() -> int:
    note("begun")
    try:
        await trio.sleep_forever()
    finally:
        note("cancelled")


@router.request_response("refuse")
async def refuse() -> int:
    raise Rejected("busy")


@router.request_stream("count")
async def count(upto: int) -> AsyncIterator[int]:
    for number in range(upto):
        seen["produced"] += 1
        yield number


@router.request_stream("silent")
async def silent() -> AsyncIterator[int]:
    yield 1
    try:
        await trio.sleep_forever()
    finally:
        note("cancelled")


@router.request_channel("sums")
async def sums(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
    total = 0
    async for number in numbers:
        total += number
        yield total


@router.fire_and_forget("fire")
async def fire() -> None:
    note("fired")


@asynccontextmanager
async def serving():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, "tcp://127.0.0.1:0")
        yield server
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def uri():
    """The address of a server, whose thread is a `blocking` one itself."""
    with blocking(serving) as server:
        yield server.value.uris[0]


@pytest.fixture(autouse=True)
def fresh():
    seen.update(cancelled=0, produced=0, fired=0, begun=0)


@pytest.fixture
def client(uri):
    with blocking_connect(uri) as client:
        yield client


def test_each_interaction(client):
    """Objects go and come, as with a `Caller`."""
    assert client.request_response("double", 21, returns=int) == 42
    client.fire_and_forget("fire")
    wait_for("fired", 1)
    with client.request_stream("count", 5, returns=int) as items:
        assert list(items) == [0, 1, 2, 3, 4]
    with client.request_channel("sums", [1, 2, 3], returns=int) as totals:
        assert list(totals) == [1, 3, 6]
    with pytest.raises(Rejected, match="busy"):
        client.request_response("refuse")
    with pytest.raises(Invalid):
        client.request_response("nowhere")
    metadata = Metadata(data_mime_type="application/json")
    assert client.request_response("double", 4, returns=int, metadata=metadata) == 8


def test_a_timeout_cancels_the_request(client):
    """The peer gets a CANCEL, and the connection goes on."""
    with pytest.raises(TimeoutError, match=r"not done within 0\.05 s"):
        client.request_response("never", timeout=0.05)
    wait_for("cancelled", 1)
    assert client.request_response("double", 1, returns=int, timeout=30) == 2


def test_demand_is_what_is_read(client):
    """The server produces what the window allows, and no more while nobody reads."""
    with client.request_stream("count", 100_000, returns=int, prefetch=4) as items:
        assert next(items) == 0
        client.request_response("double", 1)
        assert seen["produced"] <= 6
        for expected in range(1, 100):
            assert next(items) == expected
        client.request_response("double", 1)
        assert 100 <= seen["produced"] <= 106


def test_leaving_a_stream_cancels_it(client):
    """At the peer."""
    with client.request_stream("silent", returns=int) as items:
        assert next(items) == 1
    wait_for("cancelled", 1)


def test_a_read_with_a_timeout_loses_nothing(client):
    """The stream goes on; the item belongs to the next read."""
    gate = threading.Event()

    async def produced():
        for number in range(3):
            while number == 1 and not gate.is_set():
                await trio.sleep(0.001)
            yield number

    with client.request_channel("sums", produced(), returns=int) as items:
        assert items.receive(timeout=30) == 0
        with pytest.raises(TimeoutError, match=r"no item within 0\.05 s"):
            items.receive(timeout=0.05)
        gate.set()
        assert list(items) == [1, 3]
        with pytest.raises(trio.EndOfChannel):
            items.receive()


def test_the_source_of_a_channel_fails(client):
    """Its error leaves the block, alone."""

    async def failing():
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        with client.request_channel("sums", failing(), returns=int) as totals:
            list(totals)
    assert client.request_response("double", 1, returns=int) == 2


def test_one_thread_reads_a_stream(client):
    """Another one is told."""
    errors = []

    def read():
        try:
            next(items)
        except trio.ClosedResourceError as error:
            errors.append(error)

    with client.request_stream("silent", returns=int) as items:
        assert next(items) == 1
        reader = threading.Thread(target=read)
        reader.start()
        while not items._reading.locked():
            pass
        with pytest.raises(trio.BusyResourceError):
            next(items)
    reader.join(30)
    assert len(errors) == 1


def test_many_threads(client):
    """Each gets its own answers."""
    wrong = []

    def ask(base):
        for number in range(base, base + 200):
            if client.request_response("double", number, returns=int) != 2 * number:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(1000 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


def test_leaving_ends_calls_of_other_threads(uri):
    """They do not wait for ever, nor does the block."""
    errors = []

    def ask(client):
        try:
            client.request_response("never")
        except trio.ClosedResourceError as error:
            errors.append(error)

    async def within_a_nursery():  # it makes a group of the cancellation
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            note("begun")

    def run(client):
        try:
            client.run(within_a_nursery)
        except trio.ClosedResourceError as error:
            errors.append(error)

    def read(client):
        try:
            with client.request_stream("silent", returns=int) as items:
                for _ in items:
                    note("begun")
        except trio.ClosedResourceError as error:
            errors.append(error)

    with blocking_connect(uri) as client:
        threads = [threading.Thread(target=each, args=(client,)) for each in (ask, read, run)]
        for thread in threads:
            thread.start()
        wait_for("begun", 3)
    for thread in threads:
        thread.join(30)
    assert len(errors) == 3
    with pytest.raises(trio.ClosedResourceError):
        client.request_response("double", 1)
    with pytest.raises(trio.ClosedResourceError):
        with client.request_stream("count", 1):
            raise AssertionError


def test_errors_of_connecting(uri):
    """They leave the block as they are, and no thread is left."""
    before = set(threading.enumerate())
    with pytest.raises(ConnectFailed):
        with blocking_connect("tcp://127.0.0.1:1"):
            raise AssertionError
    with pytest.raises(TypeError, match="repeats"):
        with blocking_connect(uri, repeats=3):
            raise AssertionError
    with pytest.raises(KeyError, match="body"):
        with blocking_connect(uri):
            raise KeyError("body")
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


VARIABLE = ContextVar("VARIABLE", default="nothing")


def test_context_variables_go_along(client):
    """A call sees those of its caller, and changes none of them."""

    async def look():
        was = VARIABLE.get()
        VARIABLE.set("changed")
        return was

    VARIABLE.set("mine")
    assert client.run(look) == "mine"
    assert VARIABLE.get() == "mine"


def test_its_own_thread_would_wait_for_itself(client):
    """An error says so."""

    async def nested():
        client.request_response("double", 1)

    with pytest.raises(RuntimeError, match="stop all tasks"):
        client.run(nested)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_refused(client):
    """It has no such thread; it must not wait for one."""
    child = os.fork()
    if child == 0:
        try:
            client.request_response("double", 1)
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.request_response("double", 1, returns=int) == 2


FORKS = """
import os, signal, sys
from rsocket_trio.blocking import blocking_connect
try:
    with blocking_connect(sys.argv[1]) as client, client.request_stream("silent") as items:
        items.receive()
        try:
            items.receive(timeout=0.01)
        except TimeoutError:
            pass
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                items.receive()
            except RuntimeError:
                sys.exit()
        sys.exit(os.waitpid(child, 0)[1])
finally:
    if child == 0:
        print("child left", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_leaves_the_block_at_once(uri):
    """Also after a fork within it: its copy of the thread does not run, so nothing tells an end."""
    argv = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, uri]  # of 3.12
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "child left\n", "")


def test_a_task_of_trio_is_refused(uri):
    """Its thread would wait with all other tasks; a thread of it may call."""

    async def main():
        with pytest.raises(RuntimeError, match="to_thread"), blocking_connect(uri):
            pass

        def call():
            with blocking_connect(uri) as client:
                return client.request_response("double", 4, returns=int)

        assert await trio.to_thread.run_sync(call) == 8

    trio.run(main)


def test_calls_while_a_block_ends_by_itself():
    """They are told that it is over, however long its end takes."""
    ending = threading.Event()

    @asynccontextmanager
    async def block():
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.cancel()
            try:
                yield
            finally:
                ending.set()
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(called.wait, 30)

    called = threading.Event()
    with blocking(block) as client:
        assert ending.wait(30)
        with pytest.raises(trio.ClosedResourceError):
            client.run(trio.lowlevel.checkpoint)
        called.set()


def test_an_interrupt_ends_the_call_and_not_the_connection(client):
    """As from the keyboard: the peer gets a CANCEL."""

    def interrupt():
        wait_for("begun", 1)
        os.kill(os.getpid(), signal.SIGINT)

    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.request_response("never")
    finally:
        thread.join(30)
        signal.signal(signal.SIGINT, old)
    wait_for("cancelled", 1)
    assert client.request_response("double", 1, returns=int) == 2


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupt_as_a_call_begins(client, monkeypatch, begun):
    """It ends, whether it has begun or not."""
    post = Portal.post

    def interrupted(self, function):
        monkeypatch.undo()
        if begun:
            post(self, function)
            wait_for("begun", 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(Portal, "post", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.request_response("never")
    if begun:
        wait_for("cancelled", 1)
    assert client.request_response("double", 1, returns=int) == 2


PROGRAM = """
import sys, threading
from rsocket_trio.blocking import blocking_connect
manager = blocking_connect(sys.argv[1])
client = manager.__enter__()
print(client.request_response("double", 21, returns=int))
threading.Thread(target=client.request_response, args=("never",), daemon=True).start()
"""


def test_a_program_that_ends_within_the_block(uri):
    """Nothing keeps it, and nothing is written to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_another_block(uri):
    """Any async block has a place in such a thread, and any function runs there."""
    with blocking(partial(connect, uri)) as block:
        requester = block.value
        with pytest.raises(Invalid):
            block.run(partial(requester.request_response, route="nowhere"))


@pytest.mark.parametrize("timeout", [0, -1, "1", True])
def test_wrong_timeouts(client, timeout):
    """They are refused before anything is sent."""
    with pytest.raises((TypeError, ValueError)):
        client.request_response("double", 1, timeout=timeout)
