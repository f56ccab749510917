"""Serve the files of a web page over HTTP, for pages that use an RSocket service over WebSocket.

browser/serve.py and pipeline/alerts_server.py use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rsocket_trio import Router, Server, serve

CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
LONGEST_HEAD: Final = 16 * 1024
"""Largest size of a request, in bytes."""

SLOWEST: Final = 10.0
"""Time limit for a request, in seconds."""


class Site:
    """The files of a page, and the address of its service. No other file is served.

    The page finds the address at ``rsocket-uri``.

    Attributes:
        router: Answers the page's requests.
    """

    def __init__(self, files: Mapping[str, bytes], router: Router) -> None:
        self.router = router
        self._files = {
            f"/{name}": (CONTENT_TYPES[Path(name).suffix], content)
            for name, content in files.items()
        }
        self._files["/"] = self._files["/index.html"]

    def show(self, service: str) -> None:
        """Set the address of the service."""
        self._files["/rsocket-uri"] = ("text/plain; charset=utf-8", service.encode())

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


async def start_page(
    nursery: trio.Nursery, site: Site, http_port: int = 0, websocket_port: int = 0
) -> str:
    """Serve a page and its service on this machine, in a nursery; return the page's address."""
    serve_http = partial(trio.serve_tcp, site.answer, http_port, host="127.0.0.1")
    [listener] = await nursery.start(serve_http)
    http_port = listener.socket.getsockname()[1]
    uri = f"ws://127.0.0.1:{websocket_port}/rsocket"
    server: Server = await nursery.start(
        # Pages of other sites, which run in the same browser, may not connect.
        partial(serve, site.router, uri, allowed_origins=origins_of(http_port))
    )
    site.show(server.uris[0])
    return f"http://127.0.0.1:{http_port}/"


def origins_of(http_port: int) -> list[str]:
    """Return what browsers send as the ``Origin`` of a page that is served at this port."""
    return [f"http://{host}:{http_port}" for host in ("127.0.0.1", "localhost")]
