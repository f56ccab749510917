"""Our client with containerd itself, and with a shim.

Both are started by the tests and end with them; `../support/containerd.py` says what they would
leave behind. They need root: containerd does not start otherwise, and the shim's socket belongs to
root.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

import rsocket_trio
from rsocket_trio import ConnectionClosed, ttrpc
from rsocket_trio.ttrpc import Method
from rsocket_trio.ttrpc.wire.protobuf import FieldReader, field, varint
from tests.programs import environment
from tests.waiting import until

pytestmark = pytest.mark.interop

ROOT = Path(rsocket_trio.__file__).parents[1]
EXAMPLE = ROOT / "examples/containerd"
FORWARD = Method.raw("containerd.services.events.ttrpc.v1.Events", "Forward")
NAMESPACE = "interop"


class Task:
    """The methods of a shim's service, whose name depends on the generation of containerd."""

    def __init__(self, generation):
        self._service = f"containerd.task.v{generation + 1}.Task"

    def __getattr__(self, name):
        return Method.raw(self._service, name)


def number(tag, value):
    """A field that is a number."""
    return varint(tag << 3) + varint(value)


def text(tag, value):
    return field(tag, value.encode())


def forward_request(topic, container, *, timestamp=None):
    """A ForwardRequest with the event that a task has started."""
    event = text(1, "containerd.events.TaskStart") + field(2, text(1, container) + number(2, 42))
    when = field(1, number(1, timestamp)) if timestamp is not None else b""
    return field(1, when + text(2, NAMESPACE) + text(3, topic) + field(4, event))


@pytest.fixture(scope="session")
def root(installed):
    """Skips if these programs are missing or cannot run."""
    if os.geteuid() != 0:
        pytest.skip("containerd and its shim need root")
    installed.require("containerd")
    return importlib.import_module("interop_support.containerd")


@pytest.fixture
def daemon(root, directory):
    """``async with daemon() as (client, containerd)``."""

    @asynccontextmanager
    async def run():
        async with (
            root.containerd(directory) as containerd,
            ttrpc.connect(f"unix://{containerd.ttrpc}") as client,
        ):
            yield client, containerd

    return run


@pytest.fixture(params=[1, 2], ids=["containerd-1", "containerd-2"])
def generation(request, installed):
    """The shim of Debian's containerd, and that of containerd 2."""
    if request.param == 2:
        installed.require("shim of containerd 2")
    return request.param


@pytest.fixture
def task(generation):
    """The methods of the shim."""
    return Task(generation)


@pytest.fixture
def shim(root, generation, directory):
    """``async with shim() as (client, address)``."""

    @asynccontextmanager
    async def run(**settings):
        async with (
            root.shim(directory, generation=generation, **settings) as address,
            ttrpc.connect(address) as client,
        ):
            yield client, address

    return run


async def test_an_event_arrives(daemon, programs):
    """containerd takes our event, and its own tool reads it back."""
    async with (
        daemon() as (client, containerd),
        programs.running(programs.ends_with_stdin(containerd.ctr("events"))) as reader,
        trio.open_nursery() as nursery,
    ):

        async def publish():
            # The tool does not say from when on it receives events.
            while True:
                now = int(time.time())
                request = forward_request("/tasks/start", "from-python", timestamp=now)
                assert await client.unary(FORWARD, request) == b""
                await trio.sleep(0.05)

        nursery.start_soon(publish)
        line = await reader.line()
        assert f" {NAMESPACE} /tasks/start " in line
        assert '"container_id":"from-python","pid":42' in line
        nursery.cancel_scope.cancel(reason="the event has arrived")


async def test_errors_of_containerd(daemon):
    """Its status codes become our exceptions; the connection goes on."""
    async with daemon() as (client, _):
        with pytest.raises(ttrpc.InvalidArgument, match="timestamp"):
            await client.unary(FORWARD, forward_request("/tasks/start", "x"))
        with pytest.raises(ttrpc.InvalidArgument, match="topic"):
            await client.unary(FORWARD, forward_request("", "x", timestamp=1))
        with pytest.raises(ttrpc.Unimplemented):
            await client.unary(Method.raw("no.such.Service", "Forward"), b"")
        assert await client.unary(FORWARD, forward_request("/a", "x", timestamp=1)) == b""


async def test_many_events_at_a_time(daemon):
    """Its server is of a version without streams; 200 calls in flight are answered."""
    async with daemon() as (client, _), trio.open_nursery() as nursery:
        request = forward_request("/tasks/start", "x", timestamp=1)
        for _ in range(200):
            nursery.start_soon(client.unary, FORWARD, request)


async def shut_down(client, task):
    """End the shim. Now and then it is gone before its answer is sent; containerd allows that."""
    with suppress(ConnectionClosed):
        assert await client.unary(task.Shutdown, text(1, "one") + number(2, 1)) == b""
    await client.wait_closed()


async def test_a_shim(shim, task):
    """It tells its process, has no container, and ends when told so."""
    async with shim() as (client, address):
        pid = number_in(await client.unary(task.Connect, text(1, "one")), 1)
        program = Path(f"/proc/{pid}/exe").readlink()
        assert program.name == "containerd-shim-runc-v2"
        with pytest.raises(ttrpc.NotFound, match="container not created"):
            await client.unary(task.State, text(1, "one"))
        await shut_down(client, task)
        await until(lambda: not Path(address.removeprefix("unix://")).exists())


async def test_a_shim_that_is_asked_for_what_it_cannot(shim, task):
    """Unknown methods, and messages that it cannot read, fail their call alone."""
    async with shim() as (client, _):
        with pytest.raises(ttrpc.Unimplemented):
            await client.unary(task.Nothing, b"")
        with pytest.raises(ttrpc.CallError):
            await client.unary(task.Connect, b"\xff\xff")
        assert number_in(await client.unary(task.Connect, text(1, "one")), 1) > 1


@asynccontextmanager
async def created(root, generation, bundle, **settings):
    """``async with created(...) as client``: a shim with a container that has not begun."""
    bundle.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as trial:
        if (why := cannot_run(root, Path(trial))) is not None:
            pytest.skip(f"runc cannot run a container here: {why}")
    output = bundle / "output"
    async with (
        root.shim(bundle, generation=generation, **settings) as address,
        ttrpc.connect(address) as client,
    ):
        runc, state = root.runc_options(bundle)
        options = text(6, str(runc)) + text(7, str(state))
        some = text(1, "containerd.runc.v1.Options") + field(2, options)
        # With only one of stdout and stderr, the shim of containerd 1 crashes.
        both = text(6, f"file://{output}") + text(7, f"file://{output}")
        request = text(1, root.CONTAINER) + text(2, str(bundle)) + both + field(10, some)
        assert number_in(await client.unary(Task(generation).Create, request), 1) > 1
        yield client


@asynccontextmanager
async def bound(socket):
    """Wait until there is such a socket."""
    await until(Path(socket).exists)
    yield


async def test_the_life_of_a_container(root, generation, task, peers, directory):
    """We do with a shim what containerd does, and its client tells our server the events."""
    put, topics = trio.open_memory_channel(100)
    events = ttrpc.Service("containerd.services.events.ttrpc.v1.Events")

    @events.method("Forward")
    async def forward(request: bytes) -> bytes:
        put.send_nowait(blob_in(blob_in(request, 1), 3).decode())
        return b""

    socket = str(directory / "events.sock")
    bundle = directory / "bundle"
    container = text(1, root.CONTAINER)
    async with (
        peers.served(f"unix://{socket}", events),
        created(root, generation, bundle, command="echo hello; exit 7", events=socket) as client,
    ):
        assert await topics.receive() == "/tasks/create"

        waited = []

        async def wait():
            waited.append(number_in(await client.unary(task.Wait, container), 1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await client.unary(task.Start, container)
        assert waited == [7]
        assert {await topics.receive() for _ in range(2)} == {"/tasks/start", "/tasks/exit"}
        assert (bundle / "output").read_text() == "hello\n"

        assert number_in(await client.unary(task.Delete, container), 2) == 7
        assert await topics.receive() == "/tasks/delete"
        await shut_down(client, task)


async def test_the_example(root, generation, task, programs, generate, tmp_path, directory):
    """Its commands tell the state of a container, run another process in it, and see both end.

    The third one is stopped by Ctrl-C: the process in the container goes with it.
    """
    generate(*EXAMPLE.glob("*.proto"), EXAMPLE / "tasks.py")
    bundle = directory / "interop" / root.CONTAINER
    bundle.parent.mkdir()
    socket = str(directory / "events.sock")

    def tasks(*arguments):
        places = ["--namespace", "interop", "--state", str(directory)]
        return [sys.executable, str(tmp_path / "tasks.py"), *places, *arguments]

    async def run(*arguments):
        done = await trio.run_process(
            tasks(*arguments), env=environment(), check=False, capture_stdout=True
        )
        return done.returncode, done.stdout.decode()

    async with (
        programs.running(tasks("events", socket)) as events,
        bound(socket),
        created(root, generation, bundle, command="exec sleep 1000", events=socket) as client,
    ):
        assert (await events.line()).startswith("interop /tasks/create {")
        await client.unary(task.Start, text(1, root.CONTAINER))
        assert '"container_id": "one"' in await events.line()
        status, lines = await run("ps")
        assert status == 0
        assert lines.splitlines()[1].split()[:2] == ["one", "RUNNING"]
        status, said = await run("exec", root.CONTAINER, "--", "sh", "-c", "echo there; exit 3")
        assert (status, said) == (3, "there\n")
        assert await run("exec", root.CONTAINER, "--", "no-such-program") == (125, "")
        async with trio.open_nursery() as nursery:
            argv = tasks("exec", root.CONTAINER, "--", "sh", "-c", "echo here; exec sleep 1000")
            stopped = await nursery.start(
                partial(
                    trio.run_process,
                    argv,
                    env=environment(),
                    check=False,
                    stdout=subprocess.PIPE,
                )
            )
            assert await stopped.stdout.receive_some() == b"here\n"
            stopped.send_signal(signal.SIGINT)
        status, lines = await run("ps")
        assert len(lines.splitlines()[1].split()) == 3
        async with trio.open_nursery() as nursery:
            ended = []

            async def wait():
                ended.append(await run("wait", root.CONTAINER))

            nursery.start_soon(wait)
            await client.unary(task.Kill, text(1, root.CONTAINER) + number(3, 9))
        assert ended == [(137, "")]
        while "/tasks/exit" not in (line := await events.line()) or '"id": "one"' not in line:
            pass


async def test_the_shim_of_the_page(root, generation, from_page, tmp_path, directory):
    """What docs/howto/ttrpc-containerd.md says about shims, followed to the letter."""
    from_page("ttrpc-containerd.md", "shim.proto", "state.py")
    bundle = directory / root.CONTAINER
    bundle.mkdir()
    async with root.shim(bundle, generation=generation):
        argv = [sys.executable, str(tmp_path / "state.py"), str(bundle)]
        done = await trio.run_process(argv, env=environment(), capture_stdout=True)
    first, second = done.stdout.decode().splitlines()
    assert first.startswith("the shim is the process ")
    assert second.startswith("NOT_FOUND: container not created")


async def test_the_event_of_the_page(root, from_page, tmp_path, directory):
    """What the same page says about events: containerd takes the one of its program."""
    from_page("ttrpc-containerd.md", "events.proto", "task.proto", "publish.py")
    async with root.containerd(directory) as containerd:
        argv = [sys.executable, str(tmp_path / "publish.py"), f"unix://{containerd.ttrpc}"]
        await trio.run_process(argv, env=environment())


def cannot_run(root, bundle):
    """Why runc cannot run a container on this machine; ``None`` if it can."""
    (bundle / "rootfs").mkdir()
    (bundle / "config.json").write_text(root.container_config(bundle, "exit"))
    runc, state = root.runc_options(bundle)
    argv = [str(runc), "--root", str(state), "run", "--bundle", str(bundle), "trial"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=20)
    return None if done.returncode == 0 else done.stderr.strip()[-300:]


def number_in(message, tag):
    """The number in that field of a message."""
    reader = FieldReader(message, "the answer", 10)
    while found := reader.next():
        if found == tag:
            return reader.varint("the number")
        reader.skip()
    return 0


def blob_in(message, tag):
    """The bytes in that field of a message."""
    reader = FieldReader(message, "the answer", 10)
    while found := reader.next():
        if found == tag:
            return reader.blob("the bytes")
        reader.skip()
    return b""
