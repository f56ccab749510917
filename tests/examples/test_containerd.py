"""The client of containerd's shims, with a shim in Python: what it says of one that is not well.

`tests/interop/ttrpc/test_containerd.py` has the real shims.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import trio

from rsocket_trio import ttrpc
from tests.programs import environment

pytest.importorskip("grpc_tools", reason="pip install grpcio-tools")


@pytest.fixture(scope="module")
def program(tmp_path_factory, examples):
    """The program, with its generated modules beside it."""
    directory = tmp_path_factory.mktemp("containerd")
    program = directory / "tasks.py"
    program.write_bytes((examples / "containerd/tasks.py").read_bytes())
    protos = sorted((examples / "containerd").glob("*.proto"))
    argv = [sys.executable, "-m", "rsocket_trio", "ttrpc", "generate", "--out", directory, *protos]
    subprocess.run(argv, env=environment(), check=True, stdout=subprocess.DEVNULL, timeout=60)
    return program


@pytest.fixture
def tasks(program, tmp_path):
    """``await tasks(*arguments)`` runs it: its status, its output and its errors."""

    async def run(*arguments):
        argv = [sys.executable, str(program), "--state", str(tmp_path), *arguments]
        with trio.fail_after(30):
            done = await trio.run_process(
                argv, env=environment(), check=False, capture_stdout=True, capture_stderr=True
            )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.fixture
def bundle(tmp_path):
    """``bundle(container, text)`` makes a bundle with such a ``bootstrap.json``."""

    def make(container, text):
        directory = tmp_path / "default" / container
        directory.mkdir(parents=True)
        (directory / "bootstrap.json").write_text(text)

    return make


def bootstrap(address):
    return json.dumps({"version": 3, "protocol": "ttrpc", "address": address})


async def test_a_shim_that_is_not_well_hides_no_other(tasks, bundle, tmp_path):
    """Each container has its line: also behind those whose file or shim is broken, or gone."""
    address = f"unix://{tmp_path}/s"
    service = ttrpc.Service("containerd.task.v3.Task")

    @service.method("State")
    async def state(request: bytes) -> bytes:
        return b"\x20\x03"  # status: STOPPED

    broken = {
        "a-dead": bootstrap(f"unix://{tmp_path}/gone"),
        "b-broken": "[",
        "c-empty": "{}",
        "d-null": bootstrap(None),
        "e-scheme": bootstrap("http://x"),
        "f-deep": "[" * 100_000,
    }
    for container, text in broken.items():
        bundle(container, text)
    bundle("z-well", bootstrap(address))
    async with trio.open_nursery() as nursery:
        await nursery.start(ttrpc.serve, service, address)
        status, said, errors = await tasks("ps")
        nursery.cancel_scope.cancel(reason="the program has ended")
    lines = [line.split()[:2] for line in said.splitlines()[1:]]
    assert lines == [*([name, "?"] for name in broken), ["z-well", "STOPPED"]]
    assert "bootstrap.json does not tell the address" in said
    assert (status, errors) == (1, "")


async def test_a_command_that_cannot_be_started(tasks, bundle, tmp_path):
    """Its error is one line, not a traceback; and the shim keeps nothing of the command."""
    address = f"unix://{tmp_path}/s"
    service = ttrpc.Service("containerd.task.v3.Task")
    called = []

    def answers(name, error=None):
        @service.method(name)
        async def method(request: bytes) -> bytes:
            called.append(name)
            if error is not None:
                raise error
            return b""

    answers("Exec")
    answers("Start", ttrpc.Unknown("no such program"))
    answers("Kill", ttrpc.FailedPrecondition("it has not begun"))
    answers("Delete", ttrpc.NotFound("it was never there"))
    bundle("web", bootstrap(address))
    async with trio.open_nursery() as nursery:
        await nursery.start(ttrpc.serve, service, address)
        outcome = await tasks("exec", "web", "--", "nothing")
        nursery.cancel_scope.cancel(reason="the program has ended")
    assert outcome == (125, "", "tasks.py: UNKNOWN: no such program\n")
    assert called == ["Exec", "Start", "Kill", "Delete"]


@pytest.mark.parametrize("name", ["../web", "/tmp", "..", "", "a/b", "a\n"])
async def test_a_name_is_no_path(tasks, name):
    """The name of a container leads to no other directory."""
    status, _, errors = await tasks("wait", name)
    assert status == 2
    assert "is not the name of a container" in errors


async def test_events_end_with_their_reader(program, tmp_path):
    """Also while there are none."""
    argv = [sys.executable, str(program), "events", str(tmp_path / "events.sock")]
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(
            argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        await process.stdout.aclose()
        assert await process.wait() == 141
        assert await process.stderr.receive_some() == b""
        await process.stderr.aclose()
