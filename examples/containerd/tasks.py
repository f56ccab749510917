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
import errno
import json
import os
import re
import signal
import stat
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TextIO, TypeVar

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


FAILURES = (OSError, ValueError, UnknownShim, ConnectFailed, ConnectionClosed, ttrpc.CallError)
"""What does not surprise: no such container, a shim that is gone, an address that is none."""


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
        UnknownShim: It speaks gRPC, or another version; or the file does not say.
        FileNotFoundError: There is no such container.
    """
    file = bundle / "bootstrap.json"
    if not file.exists():
        return (bundle / "address").read_text().strip(), 2
    try:
        bootstrap = json.loads(file.read_bytes())
        protocol, version, address = (bootstrap[key] for key in ("protocol", "version", "address"))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnknownShim(f"{file} does not tell the address: {error!r}") from error
    if protocol != "ttrpc" or version not in (2, 3) or not isinstance(address, str):
        raise UnknownShim(
            f"the shim of {bundle.name} speaks {protocol} {version!r} at {address!r},"
            " not ttrpc 2 or 3"
        )
    return address, version


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
        except (*FAILURES, trio.TooSlowError) as error:
            failed = 1
            print(f"{bundle.name:<20} ?        {str(error) or 'no answer in 5 seconds'}")
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
        pipe_to(sys.stdout) as stdout,
        pipe_to(sys.stderr) as stderr,
    ):
        spec = Any(type_url=PROCESS, value=json.dumps(process).encode())
        request = task.ExecProcessRequest(**names, stdout=stdout, stderr=stderr, spec=spec)
        ended = None
        try:
            await shim.call(TaskMethods.EXEC, request)
            await shim.call(TaskMethods.START, task.StartRequest(**names))
            ended = await shim.call(TaskMethods.WAIT, task.WaitRequest(**names))
        finally:
            # The connection is cancelled together with this: what is left over is told on another.
            with trio.move_on_after(5, shield=True), suppress(ConnectFailed, ConnectionClosed):
                async with shim_of(bundle) as another:
                    await remove(another, names, running=ended is None)
        return ended.exit_status


async def remove(shim: Shim, names: dict[str, str], *, running: bool) -> None:
    """Remove a process; kill it before, if it is running or about to.

    One whose start was cancelled may begin to run a moment later, so this is tried again.
    """
    while True:
        if running:
            with suppress(ttrpc.CallError):  # It does not run.
                kill = task.KillRequest(**names, signal=signal.SIGKILL)
                await shim.call(TaskMethods.KILL, kill)
                await shim.call(TaskMethods.WAIT, task.WaitRequest(**names))
        try:
            await shim.call(TaskMethods.DELETE, task.DeleteRequest(**names))
        except ttrpc.NotFound:
            return
        except ttrpc.CallError:
            await trio.sleep(0.05)
        else:
            return


@asynccontextmanager
async def pipe_to(output: TextIO | None) -> AsyncIterator[str]:
    """Make a named pipe, and copy what is written to it until the block ends."""
    if output is None:
        raise OSError(errno.EBADF, "stdout or stderr is closed")
    descriptor = output.fileno()
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/pipe"
        os.mkfifo(path)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # The pipe would be at its end while no shim has opened it.
        writing = os.open(path, os.O_WRONLY)

        async def copy() -> None:
            async with trio.lowlevel.FdStream(reading) as stream:
                async for some in stream:
                    while some:  # A write may take a part.
                        # After Ctrl-C nobody waits for a reader that has stopped.
                        written = await trio.to_thread.run_sync(
                            os.write, descriptor, some, abandon_on_cancel=True
                        )
                        some = some[written:]

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
        with suppress(BrokenPipeError):  # `events` ends then
            print(envelope.namespace, envelope.topic, text, flush=True)
        return Empty()


async def events(socket: str) -> int:
    """Print events until the reader of the output has gone, also if nothing is to be printed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ttrpc.serve, Printed(), f"unix://{socket}")
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            await trio.lowlevel.wait_readable(1)  # nothing comes from there but the end
            nursery.cancel_scope.cancel()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still has in its buffer
    return 141


def identifier(text: str) -> str:
    """Return a name of containerd's, which is no path."""
    if not re.fullmatch(r"\w+([.-]\w+)*", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a container or namespace")
    return text


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = argparse.ArgumentParser(description="Tasks of containerd, asked of their shims.")
    parser.add_argument("--namespace", type=identifier, default="default")
    parser.add_argument("--state", type=Path, default=STATE, help="where the bundles are")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("ps", help="the containers, their states and processes")
    waited = commands.add_parser("wait", help="wait for the end of a container")
    waited.add_argument("container", type=identifier)
    executed = commands.add_parser("exec", help="run a command in a container")
    executed.add_argument("container", type=identifier)
    executed.add_argument("arguments", nargs="+", metavar="COMMAND")
    commands.add_parser("events", help="print the events of shims").add_argument("socket")
    options = parser.parse_args(arguments)
    containers = options.state / options.namespace
    status = 130
    try:
        # A KeyboardInterrupt may come out of any task, also of one that removes a command.
        with trio.open_signal_receiver(signal.SIGINT) as interrupts:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_at_first, interrupts, nursery.cancel_scope)
                match options.command:
                    case "ps":
                        status = await ps(containers)
                    case "wait":
                        status = await wait(containers / options.container)
                    case "exec":
                        command = options.arguments
                        status = await execute(containers / options.container, command)
                    case _:
                        status = await events(options.socket)
                nursery.cancel_scope.cancel()
    except* FAILURES as group:
        status = 125
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        print(f"tasks.py: {error}", file=sys.stderr)
    return status


async def cancel_at_first(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    """Cancel the scope at the first signal."""
    await anext(signals)
    scope.cancel(reason="Ctrl-C")


if __name__ == "__main__":
    try:
        sys.exit(trio.run(main))
    except KeyboardInterrupt:  # before or after the receiver
        sys.exit(130)
