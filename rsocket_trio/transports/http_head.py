"""Heads of HTTP/1.1, as far as servers of WebSockets and of pages need them, within limits.

RFC 9112. h11 reads a head; this module bounds it, checks where a request goes, and writes answers.
The caller sets timeouts. Every answer closes its connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import attrs
import h11
import trio

from ..errors import ConnectFailed
from ..foreign import ENOUGH, recognise_foreign

__all__ = [
    "MAX_HEAD_LINES",
    "MAX_HEAD_SIZE",
    "Fields",
    "HeadTooLong",
    "Refusal",
    "RequestHead",
    "parse_request",
    "read_head",
    "send_answer",
    "status_text",
]

MAX_HEAD_SIZE: Final = 16 * 2**10
"""The longest request or response with all its headers, in bytes; the limit of h11."""

MAX_HEAD_LINES: Final = 128
"""The most lines of a request or response. Each line takes h11 some microseconds, even a short one:
four thousand lines would block the loop for 20 ms. Browsers send about fifteen."""

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_HOST: Final = re.compile(
    r"(\[[0-9A-Za-z:.%_~-]+\]|([0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?"
)
"""A host with its port (RFC 9110, section 7.2). It may be empty, and has no user."""


@attrs.frozen
class Refusal(Exception):
    """An answer that is not what the client wants.

    Attributes:
        status: The status code.
        why: A sentence without its full stop.
        remedy: What the server's log says besides.
        method: That of the request, as far as it is known.
    """

    status: int
    why: str
    remedy: str = ""
    method: bytes = b"GET"


class HeadTooLong(ConnectFailed):
    """A head is over the limits.

    Attributes:
        why: The limits.
    """

    def __init__(self, what: str) -> None:
        self.why: Final = f"More than {MAX_HEAD_SIZE} bytes or {MAX_HEAD_LINES} lines of headers"
        super().__init__(f"{what} failed: {self.why}")


class Fields:
    """The headers of a message: names in lower case."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.pairs = [(name.decode("ascii"), value.decode("latin-1")) for name, value in headers]

    def all(self, name: str) -> list[str]:
        """Return the values of all headers of a name."""
        return [value for each, value in self.pairs if each == name]

    def split(self, name: str) -> list[str]:
        """Return the items of a header that is a list."""
        return [part.strip() for value in self.all(name) for part in value.split(",")]

    def tokens(self, name: str) -> list[str]:
        """Return the items of a header that is a list of tokens, in lower case."""
        return [part.lower() for part in self.split(name)]

    @property
    def has_body(self) -> bool:
        """Whether a request with these headers has a body (RFC 9112, section 6)."""
        return bool(self.all("transfer-encoding")) or self.all("content-length") not in ([], ["0"])


@attrs.frozen(kw_only=True)
class RequestHead:
    """The head of a request.

    Attributes:
        method: E.g. ``GET``.
        version: Of HTTP, e.g. ``1.1``.
        target: The path, with its query.
        host: Which host is asked for; with the port, unless that is the default.
        fields: The headers.
    """

    method: bytes
    version: bytes
    target: str
    host: str
    fields: Fields

    @property
    def path(self) -> str:
        """The path without its query."""
        return self.target.partition("?")[0]


async def read_head(
    stream: trio.abc.ReceiveStream, what: str, begun: bytes = b""
) -> tuple[bytes, bytes]:
    """Read up to the blank line; return these bytes, and the bytes that came behind them.

    Args:
        stream: Where to read.
        what: What is read, for the texts of errors.
        begun: What was read of it already.

    Raises:
        HeadTooLong: It is longer than `MAX_HEAD_SIZE` or `MAX_HEAD_LINES`.
        ConnectFailed: The stream ended, or the peer does not speak HTTP.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: unless ``begun`` has the whole head.
    If cancelled: you can only close the stream then.
    """
    received = bytearray(begun)
    searched = 0
    while True:
        if found := _BLANK_LINE.search(received, searched):
            end = found.end()
            if end <= MAX_HEAD_SIZE and received.count(b"\n", 0, end) <= MAX_HEAD_LINES:
                return bytes(received[:end]), bytes(received[end:])
        if found or len(received) > MAX_HEAD_SIZE:
            raise HeadTooLong(what)
        searched = max(0, len(received) - 2)
        data = await stream.receive_some(MAX_HEAD_SIZE)
        if not data:
            raise ConnectFailed(f"the connection ended during {what}")
        received += data
        _check_http(bytes(received[:ENOUGH]))


def _check_http(first: bytes) -> None:
    """Raise at once for octets with which no HTTP begins: the peer would wait as we do."""
    spoken = recognise_foreign(first)
    if first[:1] == b"\0" and first[3:7] == b"\0\0\0\0":  # the length, and stream 0
        spoken = "frames over TCP, as RSocket at tcp:// addresses"
    if spoken not in (None, "HTTP"):
        raise ConnectFailed(f"the peer does not speak HTTP, but {spoken}")


def parse_request(head: bytes) -> RequestHead:
    """Read the head of a request.

    Raises:
        Refusal: It is none.
    """
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_SIZE)
    try:
        http.receive_data(head)
        event = http.next_event()
    except h11.RemoteProtocolError:
        raise Refusal(400, "Bad HTTP message") from None
    if not isinstance(event, h11.Request):
        raise Refusal(400, "Not a request")
    fields = Fields(event.headers)
    target, host = _where(event.target.decode("ascii"), next(iter(fields.all("host")), ""))
    return RequestHead(
        method=event.method, version=event.http_version, target=target, host=host, fields=fields
    )


def _where(target: str, host: str) -> tuple[str, str]:
    """Return path and host of a request; an absolute target has both (RFC 9112, 3.2.2)."""
    if not _HOST.fullmatch(host):  # section 3.2
        raise Refusal(400, "The header 'Host' is no host")
    if target.startswith("/"):
        return target, host
    try:
        parts = urlsplit(target)
    except ValueError:
        raise Refusal(400, "The target of the request is no URI") from None
    if parts.scheme not in {"http", "https", "ws", "wss"} or not parts.netloc:
        return target, host
    if not _HOST.fullmatch(parts.netloc):
        raise Refusal(400, "The host in the target of the request is no host")
    query = f"?{parts.query}" if parts.query else ""
    return (parts.path or "/") + query, parts.netloc


async def send_answer(
    stream: trio.abc.SendStream,
    status: int,
    body: bytes,
    content_type: str = "text/plain; charset=utf-8",
    *,
    method: bytes = b"GET",
    headers: str = "",
) -> None:
    """Answer a request; the caller closes the connection then.

    Args:
        stream: The connection.
        status: The status code.
        body: The body, which HEAD does not get.
        content_type: Its type.
        method: That of the request.
        headers: More headers, each with its end of line.

    Raises:
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    head = (
        f"HTTP/1.1 {status_text(status)}\r\n"
        "Connection: close\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"{headers}\r\n"
    )
    await stream.send_all(head.encode("ascii") + (b"" if method == b"HEAD" else body))


def status_text(status: int) -> str:
    """Return a status code with its phrase, if it has one."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
