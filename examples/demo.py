"""Show what rsocket_trio does, on data of this machine: ``python examples/demo.py``.

A server process serves host_telemetry.py over TCP and WebSocket. A client process uses every
interaction over both. Then another server process serves handlers over ttrpc too (demo_ttrpc.py),
publishers of a third one are subscribed to (demo_rsio.py), and a log file is shipped to a receiver
that is killed on the way (demo_logs.py). This takes some seconds. The exit status is 0 if
everything worked. Else it is 1, and one line on standard error says what failed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final

import trio
from demo_logs import ship_a_log
from demo_processes import Failed, addresses, last_line, python, running
from demo_rsio import subscribe_over_rsio
from demo_ttrpc import call_over_ttrpc

HERE: Final = Path(__file__).parent
LISTEN: Final = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0/rsocket")  # 0: any free port
LONGEST: Final = 55.0
"""Time limit in seconds. It is much longer than needed, so it only stops a demo that hangs."""


async def server_and_client() -> None:
    listen = [argument for uri in LISTEN for argument in ("--listen", uri)]
    target = f"{HERE / 'host_telemetry.py'}:router"
    offers = ("--lease", "1000/10", "--resume", "30")
    command = python("-m", "rsocket_trio", "serve", target, *listen, *offers, "--quiet")
    async with running("server", command) as process:
        uris = await addresses("server", process, len(LISTEN))
        print("a server process listens on", *uris, flush=True)
        await client(uris)


async def client(uris: list[str]) -> None:
    """Run the client process to its end. It shares our standard output."""
    with TemporaryFile() as errors:
        command = python(str(HERE / "demo_client.py"), *uris)
        done = await trio.run_process(command, check=False, stderr=errors)
        if done.returncode != 0:
            raise Failed(f"the client failed: {last_line(errors)}")


async def main() -> None:
    with trio.fail_after(LONGEST):
        await server_and_client()
        with TemporaryDirectory() as directory:
            await call_over_ttrpc(Path(directory))
            await subscribe_over_rsio()
            await ship_a_log(Path(directory))
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
