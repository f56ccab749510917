"""A few small pages over HTTP, for probes and scrapers: `serve_pages`.

No framework: GET and HEAD of paths that are known, one request per connection, no bodies, no
files. Heads, times and connections are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NoReturn, TypeAlias

import attrs
import trio

from ..escapes import printable, size_only
from ..field_checks import COUNT, FUNCTION, TEXT, argument, instance_of, whole
from ..health import Health
from ..log_policy import logger
from ..sockets.byte_stream import ByteStream
from ..sockets.connection_limit import counts_of
from ..sockets.listen import Arrivals, NoHandshake, listen_for
from ..uri import Scheme, Uri, as_uri, register_scheme
from .http_head import (
    HeadTooLong,
    Refusal,
    RequestHead,
    parse_request,
    read_head,
    send_answer,
    status_text,
)

__all__ = ["HTTP", "Page", "Pages", "check_pages", "health_pages", "send_page", "serve_pages"]

HTTP: Final = "http"
"""The wire of the addresses of pages."""

register_scheme(Scheme(name="http", wire=HTTP, example="http://127.0.0.1:8080", default_port=80))

_CONNECTION_TIME: Final = 10.0
"""How long one connection may take from its first byte to its end, in seconds. A probe of
Kubernetes waits for one second, a scraper for ten."""

_PAGE_TIME: Final = 5.0
"""How long the function of a page may take, in seconds; then the client is told."""

_MAX_CONNECTIONS: Final = 32
"""Probes and scrapers of one process, with room for several that hang."""

_NOT_ALLOWED: Final = 405
_PLAIN: Final = "text/plain; charset=utf-8"
_WHAT: Final = "a request for a page"


@attrs.frozen
class Page:
    """The answer to a request for a page.

    Attributes:
        body: The content, in bytes.
        status: The status code, 200 to 599.
        content_type: The value of ``Content-Type``.
    """

    body: bytes = attrs.field(repr=size_only, validator=instance_of(bytes))
    status: int = attrs.field(default=200, validator=whole(200, 599))
    content_type: str = attrs.field(default=_PLAIN, validator=TEXT)

    def __attrs_post_init__(self) -> None:
        if not re.fullmatch(r"[ -~]+", self.content_type):
            raise ValueError("Page.content_type must be printable ASCII")


_FAILED: Final = Page(b"The page failed.\n", 500)
_LATE: Final = Page(b"The page was not made in time.\n", 503)

Pages: TypeAlias = Mapping[str, Callable[[], Awaitable[Page]]]
"""An async function for each path, such as ``/metrics``; the query of a request is ignored."""


def check_pages(pages: Pages) -> None:
    """Check the pages of a server.

    Raises:
        TypeError: A path is no text, or a page is no function.
        ValueError: A path does not begin with ``/``, or has a query.
    """
    argument("pages", pages, instance_of(Mapping))
    for path, function in pages.items():
        argument("the path of a page", path, TEXT)
        argument(f"the page {path!r}", function, FUNCTION)
        if not re.fullmatch(r"/[!-~]*", path) or "?" in path or "#" in path:
            raise ValueError(f"{path!r} is no path of a page: one looks like '/metrics'")


def health_pages(health: Health) -> dict[str, Callable[[], Awaitable[Page]]]:
    """Return the pages of a `Health`, for `serve_pages`.

    ``/live`` is answered with 200 as long as the process can answer: ask there whether to restart
    it. ``/ready`` has 200 or 503: ask there whether to send it new clients.

    Args:
        health: Is asked for each request.

    Raises:
        TypeError: It is no `Health`.
    """
    argument("health", health, instance_of(Health))

    async def live() -> Page:
        await trio.lowlevel.checkpoint()
        return Page(b"live\n")

    async def ready() -> Page:
        condition = await health.ready()
        if condition.ready:
            return Page(b"ready\n")
        lines = ["not ready", *(f"{name}: {why}" for name, why in condition.reasons.items())]
        text = "\n".join(map(printable, lines if health.explain else lines[:1]))
        return Page(f"{text}\n".encode(), 503)

    return {"/live": live, "/ready": ready}


async def serve_pages(
    pages: Pages,
    *uris: str | Uri,
    max_connections: int = _MAX_CONNECTIONS,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve pages until cancelled.

    They are not encrypted and ask nobody who they are: listen on 127.0.0.1, or on an address that
    only probes and scrapers reach.

    Args:
        pages: An async function without arguments for each path; it returns a `Page`. If it fails,
            the client gets HTTP 500 without a reason, and the log has it; if it takes more than 5
            seconds, 503.
        uris: Where to listen: ``http://host:port``. Port 0 is any free port.
        max_connections: The connections that may be open at once, over all addresses; each has one
            request, and 10 seconds. One more is closed at once.
        task_status: Gets the addresses, with their real ports, when they accept connections.

    Raises:
        OSError: An address cannot be listened on.
        TypeError: An argument is of a wrong type.
        ValueError: A path or an address is wrong, there is no address, or ``max_connections`` is
            less than 1.

    Checkpoint: always.
    If cancelled: the listeners and connections are closed at once.
    """
    check_pages(pages)
    argument("max_connections", max_connections, COUNT)
    if not uris:
        raise ValueError('name an address to listen on, e.g. "http://127.0.0.1:8080"')
    parsed = [as_uri(uri, HTTP) for uri in uris]
    arrivals = Arrivals(
        shake_hands=partial(_answer, pages),
        handle=_never,
        ssl_context=None,
        handshake_timeout=_CONNECTION_TIME,
        counts=counts_of(max_connections),
        has_handshake=True,
    )
    refused: OSError | None = None
    async with trio.open_nursery() as nursery:
        try:
            bound = [await nursery.start(listen_for, arrivals, uri) for uri in parsed]
        except OSError as error:  # raised below: the nursery would put it into a group
            refused = error
            nursery.cancel_scope.cancel(reason="an address cannot be listened on")
        else:
            task_status.started([str(uri) for each in bound for uri in each])
    if refused is not None:
        raise refused


async def _never(_stream: ByteStream) -> None:
    """Stands for the handler of connections: each is over when it is answered."""
    raise AssertionError("a request for a page was not answered")


async def _answer(pages: Pages, connected: ByteStream) -> NoReturn:
    """Answer the only request of a connection.

    Raises:
        NoHandshake: Always, when it is answered.
    """
    stream = connected.stream
    try:
        try:
            head, early = await read_head(stream, _WHAT)
        except HeadTooLong as error:
            raise Refusal(431, error.why) from error
        request = _checked(head, early, pages)
    except Refusal as refusal:
        text = f"{refusal.why}.\n".encode()
        headers = "Allow: GET, HEAD\r\n" if refusal.status == _NOT_ALLOWED else ""
        await send_answer(stream, refusal.status, text, method=refusal.method, headers=headers)
        status = status_text(refusal.status)
        raise NoHandshake(f"answered {_WHAT} with HTTP {status}", expected=False) from None
    await send_page(stream, pages[request.path], request)


def _checked(head: bytes, early: bytes, pages: Pages) -> RequestHead:
    """Check a request.

    Raises:
        Refusal: What the client is to be answered.
    """
    request = parse_request(head)
    if request.method not in {b"GET", b"HEAD"}:
        raise Refusal(_NOT_ALLOWED, "The method must be GET or HEAD")
    if early or request.fields.has_body:
        raise Refusal(400, "A request for a page has no body", method=request.method)
    if request.path not in pages:
        raise Refusal(404, "There is no such page", method=request.method)
    return request


async def send_page(
    stream: trio.abc.SendStream, make: Callable[[], Awaitable[Page]], request: RequestHead
) -> NoReturn:
    """Make a page and send it.

    Args:
        stream: The connection.
        make: Makes the page.
        request: What is answered: a GET or HEAD.

    Raises:
        NoHandshake: Always, when it is sent.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: the function of the page is cancelled.
    """
    page = _LATE
    try:
        with trio.move_on_after(_PAGE_TIME) as scope:
            page = await make()
            argument("what the function of a page returns", page, instance_of(Page))
    except Exception:  # of the application: the server goes on
        logger.exception("the page %s failed", request.path)
        page = _FAILED
    if scope.cancelled_caught:
        logger.error("the page %s was not made within %g s", request.path, _PAGE_TIME)
    await send_answer(stream, page.status, page.body, page.content_type, method=request.method)
    raise NoHandshake(f"answered {_WHAT} with HTTP {status_text(page.status)}", expected=True)
