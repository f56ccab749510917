"""A page on a local HTTP server, and the result that the page reports."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

PAGE = (
    b'<!doctype html><meta charset="utf-8"><title>RSocket</title><script src="/page.js"></script>'
)


class Site:
    """A minimal HTTP server: it serves the page and its script, and takes one result."""

    def __init__(self, script: bytes) -> None:
        self.url = ""
        self._script = script
        self._send_result, self.result = trio.open_memory_channel[dict](1)

    async def handle(self, stream: trio.SocketStream) -> None:
        async with stream:
            received = b""
            while b"\r\n\r\n" not in received:
                if not (chunk := await stream.receive_some()):
                    return  # Browsers open connections in advance that they never use.
                received += chunk
            head, _, body = received.partition(b"\r\n\r\n")
            request, *lines = head.decode().lower().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            while len(body) < int(headers.get("content-length", 0)):
                body += await stream.receive_some()
            method, path, _ = request.split(" ")
            await stream.send_all(self._answer(method, path, body))

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        if method == "post":
            self._send_result.send_nowait(json.loads(body))
            content_type, content = "text/plain", b"thank you"
        elif path == "/page.js":
            content_type, content = "text/javascript", self._script
        else:
            content_type, content = "text/html", PAGE
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nConnection: close\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


@asynccontextmanager
async def site(script: bytes) -> AsyncIterator[Site]:
    """A `Site` with that script, at its ``url``, for the length of the block."""
    async with trio.open_nursery() as nursery:
        there = Site(script)
        serve = partial(trio.serve_tcp, there.handle, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        there.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield there
        nursery.cancel_scope.cancel(reason="the test is over")
