"""Show what rsocket_trio does, on data of this machine: ``python examples/demo.py``.

A server process serves host_telemetry.py over TCP and WebSocket. A client process uses every
interaction over both. This takes a few seconds. The exit status is 0 if everything worked. Else it
is 1, and one line on standard error says what failed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

import trio

HERE: Final = Path(__file__).parent
LISTEN: Final = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0/rsocket")  # 0: any free port
LONGEST: Final = 20.0
"""Time limit in seconds. It is much longer than needed, so it only stops a demo that hangs."""


class Failed(Exception):
    """A part of the demo failed. The text is for the user."""


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


@asynccontextmanager
async def server() -> AsyncIterator[list[str]]:
    """Run the server process during the block; yield the addresses that it listens on."""
    listen = [argument for uri in LISTEN for argument in ("--listen", uri)]
    target = f"{HERE / 'host_telemetry.py'}:router"
    offers = ("--lease", "1000/10", "--resume", "30")
    command = python("-m", "rsocket_trio", "serve", target, *listen, *offers, "--quiet")
    with TemporaryFile() as errors:  # not a pipe, which would need a reader
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            yield await addresses(process)
            process.terminate()  # SIGTERM: the server finishes its streams and exits with 0
            await process.wait()
        except Failed as failed:
            if process.poll() is not None:  # the end of the server is the reason
                raise Failed(f"the server ended: {last_line(errors)}") from failed
            raise
        finally:
            # The process must not outlive this block.
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        if process.returncode != 0:
            raise Failed(f"the server stopped with status {process.returncode}")


async def addresses(process: trio.Process) -> list[str]:
    """Return the addresses that the server prints when it accepts connections."""
    assert process.stdout is not None
    printed = b""
    while printed.count(b"\n") < len(LISTEN):
        some = await process.stdout.receive_some()
        if not some:
            await process.wait()
            raise Failed("the server did not start")
        printed += some
    return [line.removeprefix("listening on ") for line in printed.decode().splitlines()]


async def client(uris: list[str]) -> None:
    """Run the client process to its end. It shares our standard output."""
    with TemporaryFile() as errors:
        command = python(str(HERE / "demo_client.py"), *uris)
        done = await trio.run_process(command, check=False, stderr=errors)
        if done.returncode != 0:
            raise Failed(f"the client failed: {last_line(errors)}")


def last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it printed no reason")


async def main() -> None:
    with trio.fail_after(LONGEST):
        async with server() as uris:
            print("a server process listens on", *uris, flush=True)
            await client(uris)
    print("\neverything worked", flush=True)


def run() -> str | int:
    try:
        # KeyboardInterrupt is then raised only at checkpoints, so cleanup works.
        trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)
    except Failed as failed:
        return f"demo: {failed}"
    except trio.TooSlowError:
        return f"demo: not finished after {LONGEST:g} seconds"
    return 0


if __name__ == "__main__":
    status: str | int = 130  # as shells report Ctrl-C
    try:
        status = run()
    except* KeyboardInterrupt:
        pass
    sys.exit(status)
