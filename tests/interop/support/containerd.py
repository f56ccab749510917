"""containerd and its shim, started for a test with directories of its own.

Neither leaves anything behind. The daemon keeps all below its directory; only the plugin "opt"
would make /opt/containerd, so it is off. The path of the shim's socket is built into it: it makes
/run/containerd/s if there is none, and we remove what was not there before.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import attrs
import trio

from tests.programs import ends_with_stdin
from tests.waiting import until

from .installed import CONTAINERD
from .processes import running

SHIM = CONTAINERD / "containerd-shim-runc-v2"
NAMESPACE = "interop"
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


@asynccontextmanager
async def shim(bundle: Path, events: str = "/nonexistent") -> AsyncIterator[str]:
    """Start a shim as containerd does, and yield the address that it prints.

    Args:
        bundle: An empty directory, for what a container is made of.
        events: Where it publishes events, by ttrpc.
    """
    (bundle / "config.json").write_text('{"ociVersion": "1.0.2"}')
    log = bundle / "log"
    os.mkfifo(log)
    argv = [str(SHIM), "-namespace", NAMESPACE, "-id", "one", "-address", "/nonexistent", "start"]
    environment = {"TTRPC_ADDRESS": events, "PATH": f"{CONTAINERD}:/usr/sbin:/usr/bin:/sbin:/bin"}
    with _removing_sockets(), _reading(log):
        try:
            with trio.fail_after(20):
                started = await trio.run_process(
                    argv, cwd=bundle, env=environment, capture_stdout=True, capture_stderr=True
                )
            yield started.stdout.decode()
        finally:
            # The shim is no child of ours: "start" leaves it behind in a session of its own.
            _kill_in(bundle)


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
            if (process / "cwd").readlink() == bundle and (process / "exe").readlink() == SHIM:
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
