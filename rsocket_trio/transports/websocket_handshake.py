"""The opening handshake of WebSocket, client and server side, over any byte stream.

RFC 6455, section 4. wsproto and h11 check the peer's request or response. This module reads it,
within a limit, and answers with an HTTP error if it is refused. The caller sets timeouts.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from http import HTTPStatus
from typing import Final, NoReturn

import attrs
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.connection import Connection
from wsproto.events import AcceptConnection, RejectConnection, Request
from wsproto.utilities import RemoteProtocolError

from ..errors import ConnectFailed
from ..escapes import names_only
from ..uri import Uri, without_query
from .origins import normal_origin

__all__ = [
    "MAX_HEAD_LINES",
    "MAX_HEAD_SIZE",
    "Handshake",
    "accept_websocket",
    "refuse_websocket",
    "request_websocket",
]

MAX_HEAD_SIZE: Final = 16 * 2**10
"""The longest request or response with all its headers, in bytes; the limit of h11."""

MAX_HEAD_LINES: Final = 128
"""The most lines of a request or response. Each line takes h11 some microseconds, even a short one:
four thousand lines would block the loop for 20 ms. Browsers send about fifteen."""

SUBPROTOCOLS: Final = ("rsocket",)
"""The subprotocols that a server accepts if a client proposes them. Most clients propose none."""

_MAX_SHOWN: Final = 100
"""The most characters of a client's ``Origin`` that we repeat to it and to the log."""

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OWN_HEADERS: Final = frozenset({
    "connection", "upgrade", "content-length", "transfer-encoding",
    "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions",
})  # fmt: skip


@attrs.frozen(kw_only=True)
class Handshake:
    """The result of a successful handshake.

    Attributes:
        connection: wsproto's state after the handshake.
        path: The path of the request, with its query.
        headers: The headers of the request, names in lower case.
        trailing_data: Bytes that have already arrived behind the handshake.
    """

    connection: Connection
    path: str = attrs.field(repr=without_query)
    headers: tuple[tuple[str, str], ...] = attrs.field(repr=names_only)
    trailing_data: bytes = b""


async def request_websocket(
    stream: trio.abc.Stream, uri: Uri, headers: Sequence[tuple[str, str]] = ()
) -> Handshake:
    """Ask the server at the other end of ``stream`` for a WebSocket.

    Args:
        stream: A connected stream, after TLS for ``wss``. It is left open on failure.
        uri: Gives the path and ``Host``.
        headers: More headers to send. ``Sec-WebSocket-Protocol`` proposes subprotocols, ``Host``
            replaces the host of the address. The headers of the handshake itself are refused.

    Raises:
        ValueError: A header cannot be sent.
        ConnectFailed: The server refused, or its answer is not a handshake.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    extra, host, subprotocols = _sort_headers(headers)
    host = host or (
        uri.authority if uri.port not in {80, 443} else uri.authority.rpartition(":")[0]
    )
    websocket = WSConnection(ConnectionType.CLIENT)
    request = Request(
        host=host, target=uri.path or "/", subprotocols=subprotocols, extra_headers=extra
    )
    await stream.send_all(websocket.send(request))
    head, trailing_data = await _read_head(stream)
    try:
        websocket.receive_data(head)
    except (RemoteProtocolError, ValueError) as error:
        # ValueError: wsproto decodes some header values as ASCII.
        raise ConnectFailed(f"the WebSocket handshake failed: {error}") from error
    for event in websocket.events():
        if isinstance(event, RejectConnection):
            raise ConnectFailed(
                f"the server refused the WebSocket handshake: HTTP {_status(event.status_code)}"
            )
    # Each whole answer accepts or refuses the handshake, or is malformed.
    assert websocket.connection is not None
    return Handshake(
        connection=websocket.connection,
        path=request.target,
        headers=tuple((name.lower(), value) for name, value in headers),
        trailing_data=trailing_data,
    )


async def accept_websocket(
    stream: trio.abc.Stream, path: str, *, allowed_origins: Container[str] | None = None
) -> Handshake:
    """Answer a client that asks for a WebSocket.

    Args:
        stream: The connected stream. It is left open on failure.
        path: The path of this endpoint; other paths are answered with 404. Any query is allowed.
        allowed_origins: The web pages that may connect, made by `normal_origins`; others are
            answered with 403. ``None`` allows all.

    Raises:
        ConnectFailed: The request was refused with an HTTP error.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    head, trailing_data = await _read_head(stream, refuse_long=True)
    websocket = WSConnection(ConnectionType.SERVER)
    try:
        websocket.receive_data(head)
    except RemoteProtocolError as error:
        hint = error.event_hint
        status = hint.status_code if isinstance(hint, RejectConnection) else 400
        return await _refuse(stream, status, str(error))
    except ValueError:
        # wsproto decodes some header values as ASCII or IDNA.
        return await _refuse(stream, 400, "A header is not ASCII")
    request = next((event for event in websocket.events() if isinstance(event, Request)), None)
    if request is None:
        return await _refuse(stream, 400, "Not a request")
    if trailing_data:
        # Section 4.1: the client waits for the answer before it sends more.
        return await _refuse(stream, 400, "Data before the handshake was answered")
    if request.target.partition("?")[0] != path.partition("?")[0]:
        return await _refuse(stream, 404, "There is no WebSocket at this path")
    if allowed_origins is not None:
        for origin in _values(request, b"origin"):
            if not _is_allowed(origin, allowed_origins):
                shown = ascii(origin[:_MAX_SHOWN])
                return await _refuse(stream, 403, f"Pages of {shown} may not connect here")
    subprotocol = next((name for name in SUBPROTOCOLS if name in request.subprotocols), None)
    answer = websocket.send(AcceptConnection(subprotocol=subprotocol))
    await stream.send_all(answer)
    assert websocket.connection is not None  # Accepted just now.
    headers = [("host", request.host)]
    headers += [(n.decode("ascii"), v.decode("latin-1")) for n, v in request.extra_headers]
    if request.subprotocols:
        headers.append(("sec-websocket-protocol", ", ".join(request.subprotocols)))
    return Handshake(connection=websocket.connection, path=request.target, headers=tuple(headers))


async def refuse_websocket(stream: trio.abc.Stream, status: int, why: str) -> NoReturn:
    """Answer any request with an HTTP error.

    Args:
        stream: The connected stream. It is left open.
        status: The status code.
        why: A sentence without its full stop.

    Raises:
        ConnectFailed: Always, after the answer is sent.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    # Read first: closing with an unread request resets the connection, and the answer is lost.
    await _read_head(stream, refuse_long=True)
    await _refuse(stream, status, why)


def _values(request: Request, name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in request.extra_headers if each == name]


def _is_allowed(origin: str, allowed: Container[str]) -> bool:
    try:
        return normal_origin(origin) in allowed
    except ValueError:
        return False


async def _read_head(stream: trio.abc.Stream, *, refuse_long: bool = False) -> tuple[bytes, bytes]:
    """Read up to the blank line; return these bytes, and the bytes that came behind them."""
    received = bytearray()
    while True:
        searched = max(0, len(received) - 2)
        data = await stream.receive_some(MAX_HEAD_SIZE)
        if not data:
            raise ConnectFailed("the connection ended during the WebSocket handshake")
        received += data
        if found := _BLANK_LINE.search(received, searched):
            end = found.end()
            if end <= MAX_HEAD_SIZE and received.count(b"\n", 0, end) <= MAX_HEAD_LINES:
                return bytes(received[:end]), bytes(received[end:])
        if found or len(received) > MAX_HEAD_SIZE:
            why = f"More than {MAX_HEAD_SIZE} bytes or {MAX_HEAD_LINES} lines of headers"
            if refuse_long:
                await _refuse(stream, 431, why)
            raise ConnectFailed(f"the WebSocket handshake failed: {why}")


async def _refuse(stream: trio.abc.Stream, status: int, why: str) -> NoReturn:
    text = f"{why}. This is a WebSocket endpoint for RSocket.\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {_status(status)}\r\n"
        "Connection: close\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\n"
    )
    if status == HTTPStatus.UPGRADE_REQUIRED:
        head += "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    await stream.send_all(head.encode("ascii") + b"\r\n" + text)
    raise ConnectFailed(f"refused a WebSocket handshake with HTTP {_status(status)}: {why}")


def _sort_headers(
    headers: Sequence[tuple[str, str]],
) -> tuple[list[tuple[bytes, bytes]], str | None, list[str]]:
    """Return the headers to send as they are, the host if given, and the subprotocols."""
    extra: list[tuple[bytes, bytes]] = []
    host: str | None = None
    subprotocols: list[str] = []
    for name, text in headers:
        value = text.strip(" \t")
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise ValueError(
                f"the header {name!r}: {text!r} cannot be sent: its name or value has a character "
                "that HTTP does not allow"
            )
        lower = name.lower()
        if lower in _OWN_HEADERS:
            raise ValueError(f"the handshake sets the header {name!r} itself: leave it out")
        if lower == "host":
            host = value
        elif lower == "sec-websocket-protocol":
            subprotocols += [part.strip() for part in value.split(",")]
        else:
            extra.append((name.encode("ascii"), value.encode("latin-1")))
    return extra, host, subprotocols


def _status(status: int) -> str:
    """Return a status code with its phrase, if it has one."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
