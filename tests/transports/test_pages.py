"""Small pages over HTTP: what is answered, and what a stranger cannot make it cost."""

from __future__ import annotations

import json
import logging

import pytest
import trio
import trio.testing

from rsocket_trio import Page, serve_pages
from rsocket_trio.testing.leaks import assert_no_leaks

ADDRESS = "http://127.0.0.1:0/"


async def metrics():
    return Page(b"requests 1\n", content_type="text/plain; version=0.0.4")


async def busy():
    return Page(json.dumps({"ready": False}).encode(), 503, "application/json")


async def fails():
    raise RuntimeError("the password is 1234")


async def returns_text():
    return "no page"


async def hangs():
    await trio.sleep_forever()


PAGES = {
    "/metrics": metrics,
    "/busy": busy,
    "/fails": fails,
    "/text": returns_text,
    "/hangs": hangs,
}


async def send(port, data):
    """Send something, and return all that comes until the end."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(data)
        return b"".join([bytes(part) async for part in stream])


def port_of(uris):
    return int(uris[0].rpartition(":")[2].strip("/"))


@pytest.fixture
async def port(nursery):
    return port_of(await nursery.start(serve_pages, PAGES, ADDRESS))


async def test_a_page(port):
    """The whole answer, as a scraper reads it; one request per connection."""
    assert await send(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: h\r\n\r\n") == (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain; version=0.0.4\r\n"
        b"Content-Length: 11\r\n\r\nrequests 1\n"
    )
    head = await send(port, b"HEAD /busy HTTP/1.0\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert head.endswith(b"Content-Length: 16\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 404),
        (b"GET /metrics/x HTTP/1.1\r\nHost: h\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", 405),
        (b"GET /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: a@b\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", 431),
        (b"nonsense\r\n\r\n", 400),
    ],
)
async def test_other_requests_are_refused(port, request_, status, caplog):
    """With a reason, and with no more than one line at INFO."""
    caplog.set_level(logging.INFO, logger="rsocket_trio")
    answer = await send(port, request_)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"\r\nAllow: GET, HEAD\r\n" in answer) == (status == 405)
    (line,) = caplog.records
    assert line.levelno == logging.INFO
    assert f"answered a request for a page with HTTP {status}" in line.getMessage()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (b"/fails", "the password is 1234"),
        (b"/text", "what the function of a page returns must be of type Page, not str"),
    ],
)
async def test_a_page_that_fails(port, path, reason, caplog):
    """The log has the reason, and the client has none; the server goes on."""
    answer = await send(port, b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path)
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert answer.endswith(b"\r\n\r\nThe page failed.\n")
    assert reason in caplog.text
    assert (await send(port, b"GET /metrics HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_page_that_takes_too_long(port, autojump_clock, caplog):
    """503 after five seconds: a check that hangs does not hang its probe."""
    answer = await send(port, b"GET /hangs HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert trio.current_time() == pytest.approx(5)
    assert "the page /hangs was not made within 5 s" in caplog.text


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\n"])
async def test_a_client_that_says_no_more_is_closed(port, sent, autojump_clock):
    """After ten seconds, also if it sends nothing at all."""
    assert await send(port, sent) == b""
    assert 10 <= trio.current_time() <= 12


async def test_a_flood_of_connections_is_bounded(nursery):
    """Only so many are kept at once; when they are gone, the pages answer again."""
    async with assert_no_leaks(), trio.open_nursery() as own:

        async def start(*, task_status):
            await serve_pages(PAGES, ADDRESS, max_connections=3, task_status=task_status)

        port = port_of(await own.start(start))
        kept = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(3)]
        for each in kept:
            await each.send_all(b"GET /metrics")
        await trio.testing.wait_all_tasks_blocked(0.01)
        refused = await trio.open_tcp_stream("127.0.0.1", port)
        assert await refused.receive_some() == b""
        for each in [*kept, refused]:
            await each.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await send(port, b"GET /metrics HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        own.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (({}, "tcp://127.0.0.1:0"), "one of http"),
        (({}, "http://127.0.0.1:0/metrics"), "no path"),
        (({},), "name an address"),
        (({"metrics": metrics}, ADDRESS), "no path of a page"),
        (({"/metrics?x": metrics}, ADDRESS), "no path of a page"),
        (({"/metrics": b"x"}, ADDRESS), "must be a function"),
        ((["/metrics"], ADDRESS), "pages must be of type Mapping"),
    ],
)
async def test_what_cannot_be_served(arguments, error):
    with pytest.raises((TypeError, ValueError), match=error):
        await serve_pages(*arguments)


async def test_an_address_that_is_in_use(port):
    """No exception group: the error names the address."""
    with pytest.raises(OSError, match="in use"):
        await serve_pages(PAGES, ADDRESS, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "fields", [{"body": "text"}, {"status": 101}, {"status": True}, {"content_type": "a\r\nb: c"}]
)
def test_a_page_is_checked_where_it_is_made(fields):
    """A line break in a type would be a header of its own."""
    with pytest.raises((TypeError, ValueError), match=r"Page\."):
        Page(**{"body": b"", **fields})


def test_the_repr_of_a_page_has_no_content():
    assert "secret" not in repr(Page(b"secret"))
