"""What rsocket_trio does, on this machine's own data: ``python examples/demo.py``.

A server in a process of its own serves host_telemetry.py over TCP and WebSocket; a client in
another uses every interaction over both. Takes a few seconds. Exits with 0 where all of it worked;
else with 1 and one line on stderr that says what did not.
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
"""Seconds. Far more than it takes: what is stuck fails instead of hanging."""


class Failed(Exception):
    """A part of the demo did not work; the text is for the person who started it."""


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


@asynccontextmanager
async def server() -> AsyncIterator[list[str]]:
    """The server's process, for the length of the block; gives the addresses it listens on."""
    listen = [argument for uri in LISTEN for argument in ("--listen", uri)]
    target = f"{HERE / 'host_telemetry.py'}:router"
    offers = ("--lease", "1000/10", "--resume", "30")
    command = python("-m", "rsocket_trio", "serve", target, *listen, *offers, "--quiet")
    with TemporaryFile() as errors:  # no pipe: nobody reads it while the demo runs
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            yield await addresses(process)
            process.terminate()  # SIGTERM: it finishes what it is doing, and exits with 0
            await process.wait()
        except Failed as failed:
            if process.poll() is not None:  # then this is why
                raise Failed(f"the server ended: {last_line(errors)}") from failed
            raise
        finally:
            # Whatever happened above, it does not outlive this block.
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        if process.returncode != 0:
            raise Failed(f"the server stopped with status {process.returncode}")


async def addresses(process: trio.Process) -> list[str]:
    """What follows ``listening on``, once a line for each address has come."""
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
    """The client's process, to its end. What it prints goes where ours goes."""
    with TemporaryFile() as errors:
        command = python(str(HERE / "demo_client.py"), *uris)
        done = await trio.run_process(command, check=False, stderr=errors)
        if done.returncode != 0:
            raise Failed(f"the client failed: {last_line(errors)}")


def last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it did not say why")


async def main() -> None:
    with trio.fail_after(LONGEST):
        async with server() as uris:
            print("a server in a process of its own listens on", *uris, flush=True)
            await client(uris)
    print("\nall of it worked", flush=True)


def run() -> str | int:
    try:
        # With this, Ctrl-C arrives where it can be cleaned up after.
        trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)
    except Failed as failed:
        return f"demo: {failed}"
    except trio.TooSlowError:
        return f"demo: not done after {LONGEST:g} seconds"
    return 0


if __name__ == "__main__":
    status: str | int = 130  # as shells report Ctrl-C
    try:
        status = run()
    except* KeyboardInterrupt:
        pass
    sys.exit(status)
