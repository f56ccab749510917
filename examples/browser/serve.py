"""A page that draws how busy this machine is: ``python examples/browser/serve.py``.

The program serves the page over HTTP and host_telemetry.py over WebSocket. It prints the address of
the page.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rsocket_trio import RejectedSetup, Requester, Responder, Server, Setup, serve

HERE: Final = Path(__file__).parent
sys.path.append(str(HERE.parent))

from host_telemetry import router  # noqa: E402  needs the path above

CONTENT_TYPES: Final = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "rsocket.js": "text/javascript; charset=utf-8",
}
LONGEST_HEAD: Final = 16 * 1024
"""Largest size of a request, in bytes."""

SLOWEST: Final = 10.0
"""Time limit for a request, in seconds."""


class Site:
    """The files of the page, and the address of the service. Files are read once.

    Attributes:
        origins: Values of the ``Origin`` header that browsers send for this page.
    """

    def __init__(self) -> None:
        self.origins: frozenset[str] = frozenset()
        self._files = {
            f"/{name}": (content_type, (HERE / name).read_bytes())
            for name, content_type in CONTENT_TYPES.items()
        }
        self._files["/"] = self._files["/index.html"]

    def show(self, http_port: int, service: str) -> None:
        """Set the address of the service, and the origins of the page."""
        self.origins = frozenset(
            f"http://{host}:{http_port}" for host in ("127.0.0.1", "localhost")
        )
        self._files["/rsocket-uri"] = ("text/plain; charset=utf-8", service.encode())

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """Accept only this page. Any other page in the browser could also connect here."""
        origin = setup.transport.header("origin")
        if origin not in self.origins:
            raise RejectedSetup("pages of another origin are not accepted")
        return await router.accept(setup, requester)

    async def answer(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Answer one HTTP request, with the part of HTTP that a page of a few files needs."""
        head = b""
        try:
            with trio.fail_after(SLOWEST):
                while b"\r\n\r\n" not in head:
                    some = await stream.receive_some()
                    if not some or len(head) > LONGEST_HEAD:
                        return
                    head += some
                await stream.send_all(self._response(head.split(b"\r\n")[0].decode("latin-1")))
                await stream.send_eof()
        except (trio.TooSlowError, trio.BrokenResourceError):
            pass  # the browser was too slow, or has gone

    def _response(self, request_line: str) -> bytes:
        method, _, rest = request_line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        found = self._files.get(path) if method == "GET" else None
        status = "200 OK" if found else "404 Not Found"
        content_type, content = found or ("text/plain", b"there is no such page\n")
        head = (
            f"HTTP/1.1 {status}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(content)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        )
        return "\r\n".join((*head, "", "")).encode() + content


async def main(http_port: int, websocket_port: int) -> None:
    site = Site()
    async with trio.open_nursery() as nursery:
        uri = f"ws://127.0.0.1:{websocket_port}/rsocket"
        server: Server = await nursery.start(serve, site.accept, uri)
        serve_http = partial(trio.serve_tcp, site.answer, http_port, host="127.0.0.1")
        [listener] = await nursery.start(serve_http)
        http_port = listener.socket.getsockname()[1]
        site.show(http_port, server.uris[0])
        print(f"open http://127.0.0.1:{http_port}/ in a browser; Ctrl-C stops", flush=True)


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
