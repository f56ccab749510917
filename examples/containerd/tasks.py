"""Tasks of containerd, asked of their shims: what ``ctr tasks`` does, without the daemon.

Each container has a shim, a process that serves ``containerd.task.v3.Task`` over ttrpc, or
``v2`` before containerd 2. This needs ``pip install 'rsocket-trio[ttrpc]' grpcio-tools``, root,
and once in this directory ``rsocket-trio ttrpc generate *.proto``. Then:

    python tasks.py ps
    python tasks.py wait web
    python tasks.py exec web -- ls -l /
    python tasks.py events /run/my-events.sock

The last one takes the events of shims that were started with TTRPC_ADDRESS=/run/my-events.sock.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import attrs
import task_pb2 as task
import trio
from events_pb2 import DESCRIPTOR as EVENTS
from forward_pb2 import ForwardRequest
from forward_ttrpc import EventsBase
from google.protobuf.any_pb2 import Any
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass
from task_ttrpc import TaskMethods

from rsocket_trio import ConnectFailed, ConnectionClosed, ttrpc

Request = TypeVar("Request")
Response = TypeVar("Response")
STATE = Path("/run/containerd/io.containerd.runtime.v2.task")
PROCESS = "types.containerd.io/opencontainers/runtime-spec/1/Process"


class UnknownShim(Exception):
    """A shim that does not speak what this program does."""


class Shim:
    """Calls the methods of a shim.

    Before containerd 2 the service had another name, and the same methods and messages.
    """

    def __init__(self, client: ttrpc.Client, version: int) -> None:
        self._client = client
        self._service = f"containerd.task.v{version}.Task"

    async def call(self, method: ttrpc.Method[Request, Response], request: Request) -> Response:
        """Call a method."""
        return await self._client.unary(attrs.evolve(method, service=self._service), request)


def address_of(bundle: Path) -> tuple[str, int]:
    """Return the address of the shim of a bundle, and the version of its service.

    containerd 2 writes ``bootstrap.json``; before, there was a file with the address alone.

    Raises:
        UnknownShim: It speaks gRPC, or another version.
        FileNotFoundError: There is no such container.
    """
    file = bundle / "bootstrap.json"
    if not file.exists():
        return (bundle / "address").read_text().strip(), 2
    bootstrap = json.loads(file.read_text())
    protocol, version = bootstrap["protocol"], bootstrap["version"]
    if protocol != "ttrpc" or version not in (2, 3):
        raise UnknownShim(
            f"the shim of {bundle.name} speaks {protocol} {version}, not ttrpc 2 or 3"
        )
    return bootstrap["address"], version


@asynccontextmanager
async def shim_of(bundle: Path) -> AsyncIterator[Shim]:
    """Connect to the shim of a bundle."""
    address, version = address_of(bundle)
    async with ttrpc.connect(address) as client:
        yield Shim(client, version)


async def ps(containers: Path) -> int:
    """Print a line for each container: its state, and its processes."""
    print(f"{'CONTAINER':<20} {'STATUS':<8} PROCESSES")
    failed = 0
    for bundle in sorted(containers.iterdir()):  # noqa: ASYNC240 - there are few
        try:
            with trio.fail_after(5):
                async with shim_of(bundle) as shim:
                    state = await shim.call(TaskMethods.STATE, task.StateRequest(id=bundle.name))
                    pids = []
                    if state.status != task.STOPPED:
                        answer = await shim.call(TaskMethods.PIDS, task.PidsRequest(id=bundle.name))
                        pids = [str(process.pid) for process in answer.processes]
            print(f"{bundle.name:<20} {task.Status.Name(state.status):<8} {' '.join(pids)}")
        except (
            OSError,
            UnknownShim,
            ConnectionClosed,
            ttrpc.CallError,
            trio.TooSlowError,
        ) as error:
            failed = 1
            print(f"{bundle.name:<20} ?        {error or type(error).__name__}")
    return failed


async def wait(bundle: Path) -> int:
    """Wait until a container has ended; return its exit status."""
    async with shim_of(bundle) as shim:
        ended = await shim.call(TaskMethods.WAIT, task.WaitRequest(id=bundle.name))
        return ended.exit_status


async def execute(bundle: Path, command: Sequence[str]) -> int:
    """Run a command in a container, with its output here; return its exit status.

    If this is cancelled, by Ctrl-C for example, the command is killed.
    """
    process = {"args": list(command), "cwd": "/", "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]}
    names = {"id": bundle.name, "exec_id": uuid.uuid4().hex}
    async with (
        shim_of(bundle) as shim,
        pipe_to(sys.stdout.fileno()) as stdout,
        pipe_to(sys.stderr.fileno()) as stderr,
    ):
        spec = Any(type_url=PROCESS, value=json.dumps(process).encode())
        request = task.ExecProcessRequest(**names, stdout=stdout, stderr=stderr, spec=spec)
        await shim.call(TaskMethods.EXEC, request)
        ended = None
        try:
            await shim.call(TaskMethods.START, task.StartRequest(**names))
            ended = await shim.call(TaskMethods.WAIT, task.WaitRequest(**names))
        finally:
            with trio.move_on_after(5, shield=True):
                if ended is None:
                    kill = task.KillRequest(**names, signal=signal.SIGKILL)
                    with suppress(ttrpc.CallError):  # It has not begun.
                        await shim.call(TaskMethods.KILL, kill)
                        await shim.call(TaskMethods.WAIT, task.WaitRequest(**names))
                await shim.call(TaskMethods.DELETE, task.DeleteRequest(**names))
        return ended.exit_status


@asynccontextmanager
async def pipe_to(descriptor: int) -> AsyncIterator[str]:
    """Make a named pipe, and copy what is written to it until the block ends."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/pipe"
        os.mkfifo(path)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # The pipe would be at its end while no shim has opened it.
        writing = os.open(path, os.O_WRONLY)

        async def copy() -> None:
            async with trio.lowlevel.FdStream(reading) as stream:
                async for some in stream:
                    await trio.to_thread.run_sync(os.write, descriptor, some)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(copy)
            try:
                yield path
            finally:
                os.close(writing)


class Printed(EventsBase):
    """Prints each event as a line. containerd itself serves this to its shims."""

    async def forward(self, request: ForwardRequest, call: ttrpc.Call) -> Empty:
        """Print one event, as JSON if its type is known."""
        envelope = request.envelope
        name = envelope.event.type_url.rpartition("/")[2]
        if (kind := EVENTS.message_types_by_name.get(name.rpartition(".")[2])) is not None:
            event = GetMessageClass(kind).FromString(envelope.event.value)
            text = MessageToJson(event, indent=None, preserving_proto_field_name=True)
        else:
            text = f"{name}, {len(envelope.event.value)} bytes"
        print(envelope.namespace, envelope.topic, text, flush=True)
        return Empty()


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = argparse.ArgumentParser(description="Tasks of containerd, asked of their shims.")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--state", type=Path, default=STATE, help="where the bundles are")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("ps", help="the containers, their states and processes")
    commands.add_parser("wait", help="wait for the end of a container").add_argument("container")
    executed = commands.add_parser("exec", help="run a command in a container")
    executed.add_argument("container")
    executed.add_argument("arguments", nargs="+", metavar="COMMAND")
    commands.add_parser("events", help="print the events of shims").add_argument("socket")
    options = parser.parse_args(arguments)
    containers = options.state / options.namespace
    try:
        match options.command:
            case "ps":
                return await ps(containers)
            case "wait":
                return await wait(containers / options.container)
            case "exec":
                return await execute(containers / options.container, options.arguments)
            case _:
                await ttrpc.serve(Printed(), f"unix://{options.socket}")
                return 0
    except (OSError, UnknownShim, ConnectFailed, ConnectionClosed, ttrpc.CallError) as error:
        print(f"tasks.py: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    try:
        sys.exit(trio.run(main))
    except* KeyboardInterrupt:
        sys.exit(130)
