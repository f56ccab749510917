"""A page that draws how busy this machine is: ``python examples/browser/serve.py``.

Serves the page over HTTP and host_telemetry.py over WebSocket, and says which address to open.
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

from host_telemetry import router  # noqa: E402 - it is in the directory above

CONTENT_TYPES: Final = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "rsocket.js": "text/javascript; charset=utf-8",
}
LONGEST_HEAD: Final = 16 * 1024
"""Bytes a request may have."""

SLOWEST: Final = 10.0
"""Seconds a request may take."""


class Site:
    """The page's files, and where the page finds the service: all there is, read once.

    Attributes:
        origins: What browsers say in ``Origin`` when it is this page that connects.
    """

    def __init__(self) -> None:
        self.origins: frozenset[str] = frozenset()
        self._files = {
            f"/{name}": (content_type, (HERE / name).read_bytes())
            for name, content_type in CONTENT_TYPES.items()
        }
        self._files["/"] = self._files["/index.html"]

    def show(self, http_port: int, service: str) -> None:
        """Tell the page where the service is, and the service where the page is."""
        self.origins = frozenset(
            f"http://{host}:{http_port}" for host in ("127.0.0.1", "localhost")
        )
        self._files["/rsocket-uri"] = ("text/plain; charset=utf-8", service.encode())

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """Let this page in: any other page the browser has open could connect here as well."""
        origin = setup.transport.header("origin")
        if origin not in self.origins:
            raise RejectedSetup("pages of another origin are not served")
        return await router.accept(setup, requester)

    async def answer(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Answer one HTTP request: just enough of HTTP for a page of a few files."""
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
            pass  # that browser's affair

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
        print(f"open http://127.0.0.1:{http_port}/ in a browser; Ctrl-C ends it", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve the telemetry page.")
    parser.add_argument("--http", type=int, default=8000, help="port of the page; 0: any free one")
    parser.add_argument("--websocket", type=int, default=0, help="port of the service; likewise")
    args = parser.parse_args()
    status: int | str = 0
    try:
        trio.run(main, args.http, args.websocket)
    except* KeyboardInterrupt:
        status = 130  # as shells report Ctrl-C
    except* OSError as errors:
        status = f"cannot listen: {errors.exceptions[0].strerror}"
    sys.exit(status)  # not up there, where it would become part of a group
