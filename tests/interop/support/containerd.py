"""containerd and its shim, started for a test with directories of its own.

Neither leaves anything behind. The daemon keeps all below its directory; only the plugin "opt"
would make /opt/containerd, so it is off. The path of the shim's socket is built into it: it makes
/run/containerd/s if there is none, and we remove what was not there before.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import attrs
import trio

from rsocket_trio.ttrpc.wire.protobuf import FieldReader, field
from tests.programs import ends_with_stdin
from tests.waiting import until

from .installed import CONTAINERD
from .installed import SHIM as SHIM_2
from .processes import running

SHIMS = {1: CONTAINERD / "containerd-shim-runc-v2", 2: SHIM_2}
RUNC = CONTAINERD / "runc"
NAMESPACE = "interop"
CONTAINER = "one"
_SOCKETS = Path("/run/containerd/s")

_CONFIG = """
version = 2
root = "{0}/root"
state = "{0}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "{0}/grpc.sock"
[ttrpc]
address = "{0}/ttrpc.sock"
"""


@attrs.frozen
class Daemon:
    """A containerd that runs.

    Attributes:
        grpc: The socket of its gRPC services.
        ttrpc: The socket of its ttrpc services.
    """

    grpc: Path
    ttrpc: Path

    def ctr(self, *arguments: str) -> list[str]:
        """Return the command of its command line tool."""
        return [
            *(str(CONTAINERD / "ctr"), "--address", str(self.grpc), "--namespace", NAMESPACE),
            *arguments,
        ]


@asynccontextmanager
async def containerd(directory: Path) -> AsyncIterator[Daemon]:
    """Run the daemon for the length of the block."""
    config = directory / "config.toml"
    config.write_text(_CONFIG.format(directory))
    argv = [str(CONTAINERD / "containerd"), "--config", str(config)]
    async with running(ends_with_stdin(argv)) as peer:
        await until(lambda: "successfully booted" in peer.errors())
        yield Daemon(directory / "grpc.sock", directory / "ttrpc.sock")


def container_config(bundle: Path, command: str) -> str:
    """Return the configuration of a container that runs a shell command.

    Its group of processes has a name of its own, by which they are found at the end. It sees the
    programs of this machine, has its own processes and mounts, and may not write.
    """
    programs = [path for path in ("/bin", "/lib", "/lib64", "/usr") if Path(path).is_dir()]
    config = {
        "ociVersion": "1.0.2",
        "process": {"args": ["/bin/sh", "-c", command], "cwd": "/", "user": {"uid": 0, "gid": 0}},
        "root": {"path": "rootfs"},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            *(
                {"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]}
                for path in programs
            ),
        ],
        "linux": {
            "cgroupsPath": _group_of(bundle),
            "namespaces": [{"type": "pid"}, {"type": "mount"}],
        },
    }
    return json.dumps(config)


def _group_of(bundle: Path) -> str:
    return "/interop-" + hashlib.sha256(str(bundle).encode()).hexdigest()[:16]


def runc_options(bundle: Path) -> tuple[Path, Path]:
    """Return runc, and where it shall keep its state: not in /run/containerd/runc."""
    return RUNC, bundle / "runc"


@asynccontextmanager
async def shim(
    bundle: Path, *, generation: int = 1, command: str = "exit", events: str = "/nonexistent"
) -> AsyncIterator[str]:
    """Start a shim as containerd does, and yield its address.

    The bundle gets the file with it that containerd writes.

    Args:
        bundle: An empty directory, for what a container is made of.
        generation: Of containerd: its shims tell their address in another way.
        command: What the container runs, if one is created.
        events: The path of the socket to which it publishes events, by ttrpc.
    """
    (bundle / "config.json").write_text(container_config(bundle, command))
    (bundle / "rootfs").mkdir()
    log = bundle / "log"
    os.mkfifo(log)
    identity = ["-namespace", NAMESPACE, "-id", CONTAINER, "-address", "/nonexistent"]
    argv = [str(SHIMS[generation]), *identity, "start"]
    environment = {"TTRPC_ADDRESS": events, "PATH": f"{CONTAINERD}:/usr/sbin:/usr/bin:/sbin:/bin"}
    with _removing_sockets(), _reading(log):
        try:
            with trio.fail_after(20):
                started = await trio.run_process(
                    argv,
                    cwd=bundle,
                    env=environment,
                    stdin=_bootstrap_params(events) if generation == 2 else b"",
                    capture_stdout=True,
                    capture_stderr=True,
                )
            yield _note_address(bundle, generation, started.stdout)
        finally:
            # The shim is no child of ours: "start" leaves it behind in a session of its own.
            _kill_in(bundle)
            _delete_container(bundle)


def _bootstrap_params(events: str) -> bytes:
    """runtime/bootstrap/v1/bootstrap.proto: what a shim of containerd 2.4 reads at its start."""
    parts = {1: CONTAINER, 2: NAMESPACE, 5: events, 6: "/nonexistent"}
    return b"".join(field(tag, value.encode()) for tag, value in parts.items())


def _note_address(bundle: Path, generation: int, told: bytes) -> str:
    """Write down what the shim has told, and return its address."""
    if generation == 1:
        (bundle / "address").write_bytes(told)
        return told.decode()
    # runtime/bootstrap/v1/bootstrap.proto: BootstrapResult.
    fields = {1: "version", 2: "address", 3: "protocol"}
    bootstrap: dict[str, int | str] = {}
    reader = FieldReader(told, "what the shim tells", 10)
    while tag := reader.next():
        name = fields[tag]
        bootstrap[name] = reader.varint(name) if tag == 1 else reader.blob(name).decode()
    (bundle / "bootstrap.json").write_text(json.dumps(bootstrap))
    return str(bootstrap["address"])


def _delete_container(bundle: Path) -> None:
    """Kill and delete the container, if the test has left it.

    "runc delete" cannot do that while "runc create" is at work, and so not after a shim that died.
    """
    name = _group_of(bundle).removeprefix("/")
    hierarchies = Path("/sys/fs/cgroup")
    groups = [hierarchies / name, *(each / name for each in hierarchies.glob("*/"))]
    deadline = time.monotonic() + 10
    while (left := [each for each in groups if each.exists()]) and time.monotonic() < deadline:
        for group in left:
            with suppress(OSError):
                for process in (group / "cgroup.procs").read_text().split():
                    os.kill(int(process), signal.SIGKILL)
                group.rmdir()
        time.sleep(0.01)


@contextmanager
def _reading(log: Path) -> Iterator[None]:
    """Read the log, as containerd does: without a reader the shim does not come up."""
    reader = subprocess.Popen(["cat", str(log)], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        reader.kill()
        reader.wait()


def _kill_in(bundle: Path) -> None:
    """Kill the shims whose working directory this is: nobody else's are here."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended in the meantime.
            program = (process / "exe").readlink()
            if (process / "cwd").readlink() == bundle and program in SHIMS.values():
                os.kill(int(process.name), signal.SIGKILL)


@contextmanager
def _removing_sockets() -> Iterator[None]:
    """Remove the directories of the shim's socket, if they were not there before."""
    made = [path for path in (_SOCKETS, _SOCKETS.parent) if not path.exists()]
    before = set(_SOCKETS.glob("*"))
    try:
        yield
    finally:
        for socket in set(_SOCKETS.glob("*")) - before:
            socket.unlink(missing_ok=True)
        for path in made:
            # Other shims, which were started meanwhile, keep theirs.
            with suppress(OSError):
                path.rmdir()
