"""The page in a headless browser, and the two servers behind it."""

import socket
import subprocess
import sys
from functools import partial

import pytest
import trio
from trio.testing import memory_stream_pair

from rsocket_trio import ConnectFailed, connect, serve
from tests.examples.chromium import opened, running, text_after


@pytest.fixture
async def page(examples, environment, tmp_path, chromium):
    serve_page = [sys.executable, examples / "browser/serve.py", "--http", "0"]
    with trio.fail_after(60):
        async with running(serve_page, stdout=subprocess.PIPE, env=environment) as server:
            url = await text_after(server.stdout, "open ")
            async with opened(chromium, tmp_path / "profile", url) as page:
                yield page


RECEIVED = "Number(document.getElementById('demand').textContent.split(' ')[0])"
GRANTED = "Number(document.getElementById('demand').textContent.split(' ').at(-2))"
DRAWN = """(() => {
  const canvas = document.getElementById('chart');
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let drawn = 0;
  for (let i = 0; i < data.length; i += 4) {
    drawn += data[i + 3] === 255 && data[i + 2] - data[i] > 60; // the curve: opaque, and blue
  }
  return drawn;
})()"""


@pytest.mark.interop
async def test_the_page_shows_facts_and_load(page):
    """It shows the facts, draws the load, and grants no credit while paused."""
    await page.wait_until(f"{RECEIVED} >= 6")
    assert await page.run("document.getElementById('facts').children.length") == 5
    assert await page.run("document.getElementById('busy').textContent.endsWith(' %')")
    assert await page.run(DRAWN) > 0
    await page.run("document.getElementById('pause').click()")
    # All granted items come; a reading page grants more long before that.
    await page.wait_until(f"{RECEIVED} === {GRANTED}")
    held = await page.run(RECEIVED)
    await page.run("document.getElementById('pause').click()")
    await page.wait_until(f"{RECEIVED} > {held}")
    await page.save_picture("browser.png")


@pytest.fixture
def site(load):
    site = load("browser/serve.py").telemetry_page()
    site.show("ws://127.0.0.1:7879/rsocket")
    return site


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://localhost:8000", True),
        ("http://127.0.0.1:8001", False),
        ("http://evil.example", False),
        ("null", False),
        (None, True),  # no browser
    ],
)
async def test_other_origins_are_refused(load, site, nursery, origin, welcome):
    """Only the page's own origin is allowed: other pages run in the same browser."""
    origins = load("web_page.py").origins_of(8000)
    start = partial(serve, site.router, "ws://127.0.0.1:0/rsocket", allowed_origins=origins)
    server = await nursery.start(start)
    headers = [] if origin is None else [("Origin", origin)]
    answers = connect(server.uris[0], headers=headers)
    if welcome:
        async with answers as requester:
            await requester.request_response(route="host.facts")
    else:
        with pytest.raises(ConnectFailed, match="HTTP 403"):
            async with answers:
                pass
    await server.aclose()


async def ask(site, nursery, request):
    browser, server = memory_stream_pair()
    nursery.start_soon(site.answer, server)
    await browser.send_all(request)
    return b"".join([part async for part in browser])


@pytest.mark.parametrize(
    ("path", "begins"),
    [
        ("/", b"<!doctype html>"),
        ("/?a=b", b"<!doctype html>"),
        ("/page.css", b":root"),
        ("/rsocket.js", b"// RSocket"),
        ("/rsocket-uri", b"ws://127.0.0.1:7879/rsocket"),
    ],
)
async def test_the_files_of_the_page(site, nursery, path, begins):
    """The page's files are there."""
    response = await ask(site, nursery, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, content = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(content)}\r\n".encode() in head
    assert content.startswith(begins)


@pytest.mark.parametrize(
    "line",
    ["GET /serve.py HTTP/1.1", "GET /../host_telemetry.py HTTP/1.1", "POST / HTTP/1.1", "", "\xff"],
)
async def test_no_other_files(site, nursery, line):
    """Other paths are not served."""
    response = await ask(site, nursery, line.encode("latin-1") + b"\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 404 Not Found\r\n")


def test_a_port_in_use(run):
    """It prints one line, and no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("browser/serve.py", "--http", str(taken.getsockname()[1]))
    assert (done.returncode, done.stderr) == (1, "cannot listen: Address already in use\n")


async def test_malformed_http_requests(site, nursery, autojump_clock):
    """A request that is too long, cut off, or does not end is refused."""
    browser, server = memory_stream_pair()
    nursery.start_soon(browser.send_all, b"x" * 100_000)
    await site.answer(server)
    browser, server = memory_stream_pair()
    await browser.send_all(b"GET / HT")
    await browser.send_eof()
    await site.answer(server)
    browser, server = memory_stream_pair()
    began = trio.current_time()
    await browser.send_all(b"GET / HT")
    await site.answer(server)
    assert trio.current_time() - began == pytest.approx(10)
