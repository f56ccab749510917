"""A page that draws how busy this machine is: ``python examples/browser/serve.py``.

The program serves the page over HTTP and host_telemetry.py over WebSocket. It prints the address of
the page.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import trio

HERE: Final = Path(__file__).parent
sys.path.append(str(HERE.parent))

from host_telemetry import router  # noqa: E402  needs the path above
from web_page import Site, start_page  # noqa: E402  as above

FILES: Final = ("index.html", "page.css", "page.js", "rsocket.js")


def telemetry_page() -> Site:
    return Site({name: (HERE / name).read_bytes() for name in FILES}, router)


async def main(http_port: int, websocket_port: int) -> None:
    async with trio.open_nursery() as nursery:
        url = await start_page(nursery, telemetry_page(), http_port, websocket_port)
        print(f"open {url} in a browser; Ctrl-C stops", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve the telemetry page and its service.")
    parser.add_argument(
        "--http", type=int, default=8000, help="port of the page (default 8000; 0: any free port)"
    )
    parser.add_argument(
        "--websocket", type=int, default=0, help="port of the service (default 0: any free port)"
    )
    args = parser.parse_args()
    status: int | str = 0
    try:
        trio.run(main, args.http, args.websocket)
    except* KeyboardInterrupt:
        status = 130  # as shells report Ctrl-C
    except* OSError as errors:
        status = f"cannot listen: {errors.exceptions[0].strerror}"
    sys.exit(status)  # not in ``except*``, which would put SystemExit into a group
