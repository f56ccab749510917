"""The opening handshake of WebSocket, client and server side, over any byte stream.

RFC 6455, section 4. `http_head` reads the peer's request or response; this module checks it, and
answers with an HTTP error if it is refused. The caller sets timeouts.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NoReturn

import attrs
import h11
import trio
from wsproto.connection import Connection, ConnectionType

from ..errors import ConnectFailed
from ..escapes import names_only, printable
from ..field_checks import TEXT, argument, listed
from ..sockets.byte_stream import ByteStream
from ..sockets.listen import NoHandshake
from ..uri import Uri, default_port, join_host_port, without_query
from .http_head import (
    MAX_HEAD_SIZE,
    Fields,
    HeadTooLong,
    Refusal,
    RequestHead,
    parse_request,
    read_head,
    send_answer,
    status_text,
)
from .origins import Origins, may_connect
from .pages import Pages, send_page

__all__ = [
    "MAX_BODY_SIZE",
    "MAX_INTERIM_RESPONSES",
    "Endpoint",
    "Handshake",
    "accept_websocket",
    "normal_headers",
    "refuse_websocket",
    "request_websocket",
]

MAX_INTERIM_RESPONSES: Final = 16
"""The most responses such as 103 (Early Hints) before the server's answer."""

MAX_BODY_SIZE: Final = 16 * 2**10
"""The most bytes of a refusal that a client keeps for `ConnectFailed.body`."""

SUBPROTOCOLS: Final = ("rsocket",)
"""The subprotocols that a server accepts if a client proposes them. Most clients propose none."""

_WHAT: Final = "the WebSocket handshake"

_MAX_SHOWN: Final = 100
"""The most characters of a client's ``Origin`` that we repeat to it and to the log."""

_ORIGIN_REMEDY: Final = " (allowed_origins= or --allow-origin lets them in)"

_BODY_TIME: Final = 1.0
"""How long a client waits for the text of a refusal, in seconds."""

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{22}==")
"""Sixteen octets in base64 (RFC 6455, section 4.2.1)."""

_OWN_HEADERS: Final = frozenset({
    "connection", "upgrade", "content-length", "transfer-encoding",
    "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions",
})  # fmt: skip


@attrs.frozen(kw_only=True)
class Endpoint:
    """What a server has at an address.

    Attributes:
        path: The path of the WebSocket; other paths are answered with 404. Any query is allowed.
        allowed_origins: The web pages that may connect, made by `normal_origins`.
        pages: Pages for requests that ask for no WebSocket, e.g. health checks.
    """

    path: str
    allowed_origins: Origins = None
    pages: Pages = attrs.field(factory=dict, repr=False)

    async def accept(self, connected: ByteStream) -> Handshake:
        """Call `accept_websocket` for a connection.

        Checkpoint: always.
        If cancelled: you can only close the stream then.
        """
        return await accept_websocket(connected.stream, self, local=connected.info.local)


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
        headers: More headers to send, of `normal_headers`. ``Sec-WebSocket-Protocol`` proposes
            subprotocols, ``Host`` replaces the host of the address.

    Raises:
        ConnectFailed: The server refused, or its answer is not a handshake.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    extra, host, subprotocols = _sort_headers(headers)
    key = base64.b64encode(secrets.token_bytes(16))
    fields = [
        (b"Host", _encoded_host(host or _host_of(uri))),
        (b"Upgrade", b"websocket"),
        (b"Connection", b"Upgrade"),
        (b"Sec-WebSocket-Key", key),
        (b"Sec-WebSocket-Version", b"13"),
    ]
    if subprotocols:
        fields.append((b"Sec-WebSocket-Protocol", ", ".join(subprotocols).encode("ascii")))
    target = uri.path or "/"
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_SIZE)
    request = h11.Request(method="GET", target=target, headers=[*fields, *extra])
    await stream.send_all(http.send(request) or b"")
    data = b""
    for _ in range(MAX_INTERIM_RESPONSES):
        head, data = await read_head(stream, _WHAT, data)
        try:
            http.receive_data(head)
            response = http.next_event()
        except h11.RemoteProtocolError as error:
            raise ConnectFailed("the WebSocket handshake failed: Bad HTTP message") from error
        if isinstance(response, h11.InformationalResponse):
            if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                _check_answer(response, key, subprotocols)
                break
        elif isinstance(response, h11.Response):
            await _raise_refused(stream, http, response, data)
        else:
            raise ConnectFailed("the WebSocket handshake failed: Bad HTTP message")
    else:
        raise ConnectFailed(
            f"the WebSocket handshake failed: {MAX_INTERIM_RESPONSES} responses, and no answer"
        )
    return Handshake(
        connection=Connection(ConnectionType.CLIENT),
        path=target,
        headers=tuple((name.lower(), value) for name, value in headers),
        trailing_data=data,
    )


def _host_of(uri: Uri) -> str:
    """Return the ``Host`` of an address (RFC 9110, 7.2), whose zone is nobody else's business."""
    host = uri.host.partition("%")[0]
    if uri.port == default_port(uri):
        return f"[{host}]" if ":" in host else host
    return join_host_port(host, uri.port)


def _encoded_host(host: str) -> bytes:
    try:
        return host.encode("ascii")
    except UnicodeEncodeError:
        return host.encode("idna")


def _check_answer(
    response: h11.InformationalResponse, key: bytes, subprotocols: Sequence[str]
) -> None:
    """Check an answer 101 (section 4.1)."""
    fields = Fields(response.headers)
    chosen = fields.all("sec-websocket-protocol")
    why = None
    if "websocket" not in fields.tokens("upgrade") or "upgrade" not in fields.tokens("connection"):
        why = "the answer 101 does not switch to a WebSocket"
    elif fields.all("sec-websocket-accept") != [_accept_token(key)]:
        why = "a wrong accept token"
    elif fields.all("sec-websocket-extensions"):
        why = "an extension that was not offered"
    elif chosen and (len(chosen) > 1 or chosen[0] not in subprotocols):
        why = "a subprotocol that was not offered"
    if why is not None:
        raise ConnectFailed(f"the WebSocket handshake failed: {why}")


async def _raise_refused(
    stream: trio.abc.Stream, http: h11.Connection, response: h11.Response, data: bytes
) -> NoReturn:
    """Read the body of a refusal as far as it comes soon, and raise."""
    body = bytearray()
    with trio.move_on_after(_BODY_TIME):
        try:
            if data:  # Nothing would mean the end to h11.
                http.receive_data(data)
            while len(body) < MAX_BODY_SIZE:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(bytes(await stream.receive_some(MAX_BODY_SIZE)))
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    break
        except (h11.RemoteProtocolError, trio.BrokenResourceError):
            pass  # What has come is kept.
    headers = tuple(Fields(response.headers).pairs)
    why = ""
    if dict(headers).get("content-type", "").startswith("text/plain"):
        why = printable(body.decode("utf-8", "replace").strip())
    raise ConnectFailed(
        f"the server refused the WebSocket handshake: HTTP {status_text(response.status_code)}"
        f"{why and f': {why}'}",
        status=response.status_code,
        headers=headers,
        body=bytes(body[:MAX_BODY_SIZE]),
    )


async def accept_websocket(
    stream: trio.abc.Stream, endpoint: Endpoint, *, local: str = ""
) -> Handshake:
    """Answer a client that asks for a WebSocket.

    Args:
        stream: The connected stream. It is left open on failure.
        endpoint: What there is at this address.
        local: Our own address, ``host:port``, as far as it is known.

    Raises:
        ConnectFailed: The request was refused with an HTTP error.
        NoHandshake: It was no request for a WebSocket, and was answered.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    head, early = await _read_request(stream)
    try:
        asked = parse_request(head)
        if not _asks_page(asked, endpoint):
            request = _checked(asked, early, endpoint, local)
    except Refusal as refusal:
        await _answer(stream, refusal)
    if _asks_page(asked, endpoint):
        await send_page(stream, endpoint.pages[asked.path], asked)
    fields = request.fields
    answer = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {_accept_token(request.key)}",
    ]
    proposed = fields.split("sec-websocket-protocol")
    subprotocol = next((name for name in SUBPROTOCOLS if name in proposed), None)
    if subprotocol is not None:
        answer.append(f"Sec-WebSocket-Protocol: {subprotocol}")
    await stream.send_all("\r\n".join([*answer, "", ""]).encode("ascii"))
    headers = [("host", request.host)]
    headers += [pair for pair in fields.pairs if pair[0] != "host"]
    return Handshake(
        connection=Connection(ConnectionType.SERVER), path=request.target, headers=tuple(headers)
    )


@attrs.frozen
class _Plain(Refusal):
    """The answer to a request that asks for no WebSocket."""


@attrs.frozen
class _Request:
    """A request for a WebSocket that is in order.

    Attributes:
        target: The path, with its query.
        host: Which host was asked for; with the port, unless that is the default.
    """

    target: str
    host: str
    key: bytes
    fields: Fields


def _asks_page(request: RequestHead, endpoint: Endpoint) -> bool:
    """Whether a request asks for one of the pages, and for no WebSocket."""
    plain = request.method in {b"GET", b"HEAD"} and not _asks_websocket(request)
    return plain and request.path in endpoint.pages


def _asks_websocket(request: RequestHead) -> bool:
    return "websocket" in request.fields.tokens("upgrade")


def _checked(request: RequestHead, early: bytes, endpoint: Endpoint, local: str) -> _Request:
    """Check a request (RFC 6455, section 4.2.1).

    Raises:
        Refusal: What the client is to be answered.
    """
    fields, method, path = request.fields, request.method, request.path
    asks = _asks_websocket(request)
    if not asks and method in {b"GET", b"HEAD"} and path == endpoint.path.partition("?")[0]:
        why = "This is no page: ask for a WebSocket, with 'Upgrade: websocket'"
        raise _Plain(426, why, method=method)
    if path != endpoint.path.partition("?")[0]:
        why = "There is no WebSocket at this path"
        raise (Refusal if asks else _Plain)(404, why, method=method)
    if method != b"GET":
        raise Refusal(400, "The method must be GET", method=method)
    if request.version != b"1.1":
        raise Refusal(400, "A WebSocket needs HTTP/1.1")
    if fields.has_body:
        # Its octets would be taken for frames.
        raise Refusal(400, "A request for a WebSocket has no body")
    if early:
        # Section 4.1: the client waits for the answer before it sends more.
        raise Refusal(400, "Data before the handshake was answered")
    if not asks or "upgrade" not in fields.tokens("connection"):
        raise Refusal(400, "A header is missing: 'Upgrade: websocket' and 'Connection: Upgrade'")
    if fields.all("sec-websocket-version") != ["13"]:
        status = 426 if fields.all("sec-websocket-version") else 400
        raise Refusal(status, "The header 'Sec-WebSocket-Version: 13' is needed")
    keys = fields.all("sec-websocket-key")
    if len(keys) != 1 or not _KEY.fullmatch(keys[0]):
        raise Refusal(400, "One header 'Sec-WebSocket-Key' is needed, of 16 octets in base64")
    for origin in fields.all("origin"):
        if not may_connect(origin, endpoint.allowed_origins, host=request.host, local=local):
            shown = ascii(origin[:_MAX_SHOWN])
            raise Refusal(403, f"Pages of {shown} may not connect here", remedy=_ORIGIN_REMEDY)
    return _Request(request.target, request.host, keys[0].encode("latin-1"), fields)


def _accept_token(key: bytes) -> str:
    """Section 4.2.2: what shows that the server has understood the request."""
    digest = hashlib.sha1(key + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")


async def refuse_websocket(endpoint: Endpoint, stream: trio.abc.Stream, why: str) -> NoReturn:
    """Answer any request with HTTP 503: not now. But the pages are there.

    Args:
        endpoint: What there is at this address.
        stream: The connected stream. It is left open.
        why: A sentence without its full stop.

    Raises:
        ConnectFailed: After the answer is sent.
        NoHandshake: After a page is sent.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    # Read first: closing with an unread request resets the connection, and the answer is lost.
    head, _ = await _read_request(stream)
    with suppress(Refusal):
        asked = parse_request(head)
        if _asks_page(asked, endpoint):
            await send_page(stream, endpoint.pages[asked.path], asked)
    await _answer(stream, Refusal(503, why))


async def _read_request(stream: trio.abc.Stream) -> tuple[bytes, bytes]:
    """Read the head of a request, and answer one that is too long."""
    try:
        return await read_head(stream, _WHAT)
    except HeadTooLong as error:
        await _answer(stream, Refusal(431, error.why))


async def _answer(stream: trio.abc.Stream, refusal: Refusal) -> NoReturn:
    status = refusal.status
    text = f"{refusal.why}.\n"
    if status >= HTTPStatus.BAD_REQUEST:
        text = f"{refusal.why}. This is a WebSocket endpoint.\n"
    headers = ""
    if status == HTTPStatus.UPGRADE_REQUIRED:
        headers = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    body = text.encode("utf-8", "replace")
    await send_answer(stream, status, body, method=refusal.method, headers=headers)
    if isinstance(refusal, _Plain):
        raise NoHandshake(
            f"answered a request that asks for no WebSocket with HTTP {status_text(status)}",
            expected=False,
        )
    raise ConnectFailed(
        f"refused a WebSocket handshake with HTTP {status_text(status)}:"
        f" {refusal.why}{refusal.remedy}"
    )


def normal_headers(
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of ``headers=``. It is iterated here, once, as it may be a generator.

    Raises:
        TypeError: It is no mapping of str to str, and no list of such pairs. The text shows no
            value: it may be a password.
        ValueError: A name or value cannot be sent, or the handshake sets the header itself.
    """
    items = headers.items() if isinstance(headers, Mapping) else headers
    pairs = listed("headers", items, tuple, list)
    for pair in pairs:
        if len(pair) != 2:
            raise TypeError(
                "the items of headers must be pairs of a name and a value, not of length "
                f"{len(pair)}"
            )
        name, value = pair
        argument("the name of a header in headers", name, TEXT)
        argument(f"the value of {name!r} in headers", value, TEXT)
        _check_header(name, value.strip(" \t"))
    return tuple((name, value.strip(" \t")) for name, value in pairs)


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a header: HTTP does not allow it")
    refused = next((each for each in value if not _HEADER_VALUE.fullmatch(each)), None)
    if refused is not None:
        hint = "; use strip() on what was read from a file" if refused in "\r\n" else ""
        raise ValueError(
            f"the value of the header {name!r} cannot be sent: HTTP does not allow the character "
            f"{refused!r} in it{hint}"
        )
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"the handshake sets the header {name!r} itself: leave it out")


def _sort_headers(
    headers: Sequence[tuple[str, str]],
) -> tuple[list[tuple[bytes, bytes]], str | None, list[str]]:
    """Return the headers to send as they are, the host if given, and the subprotocols."""
    extra: list[tuple[bytes, bytes]] = []
    host: str | None = None
    subprotocols: list[str] = []
    for name, value in headers:
        lower = name.lower()
        if lower == "host":
            host = value
        elif lower == "sec-websocket-protocol":
            subprotocols += [part.strip() for part in value.split(",")]
        else:
            extra.append((name.encode("ascii"), value.encode("latin-1")))
    return extra, host, subprotocols
