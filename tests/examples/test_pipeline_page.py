"""The alerts server of the pipeline, and its page in a headless browser with rsocket-js."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import trio

from rsocket_trio import ConnectFailed, Invalid, connect
from tests.examples.chromium import opened, running

MODULES = Path(__file__).parents[1] / "interop" / "js" / "node_modules"
"""They have all modules of the page, too."""


@pytest.fixture
def server(examples, monkeypatch):
    """The module of the alerts server."""
    monkeypatch.syspath_prepend(examples)
    return import_module("pipeline.alerts_server")


class Batch:
    """A batch of rows, as Spark would commit it."""

    def __init__(self, rows):
        self._rows = rows

    async def rows(self):
        for row in self._rows:
            yield row


def row(minute, service="mail", alert=None):
    at = f"2026-01-31T{12 + minute // 60}:{minute % 60:02d}:00Z"
    found = {"minute": at, "service": service, "team": "edge", "lines": 40 + minute, "errors": 1}
    return found | {"mean_ms": None if alert else 9.5, "alert": alert}


@pytest.fixture
def modules():
    """The modules of the page. A separate fixture: a skip inside a trio task loses its reason."""
    if not (MODULES / ".bin" / "esbuild").exists():
        missing = "rsocket-js is not installed: run tests/interop/setup.sh"
        if os.environ.get("INTEROP") == "required":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return MODULES


@pytest.mark.interop
async def test_the_page_draws_minutes_and_lists_alerts(
    server, nursery, chromium, modules, tmp_path
):
    """It shows the minutes before it and after it, by service, and counts the alerts."""
    results = server.Results()
    await results.take(Batch([row(minute) for minute in range(100)]))
    with trio.fail_after(60):
        url = await server.start_page(nursery, server.site(results, modules))
        async with opened(chromium, tmp_path / "profile", url) as page:
            await page.wait_until("document.querySelectorAll('figure').length === 1")
            await results.take(Batch([row(101, "<b>", "errors & more"), row(102, "search")]))
            await page.wait_until("document.querySelectorAll('figure').length === 3")
            await page.wait_until("document.querySelectorAll('li').length === 1")
            shown = await page.run("document.querySelector('li').innerText")
            assert shown.split("\n") == ["13:41", "<b>", "edge", "errors & more"]
            assert await page.run("document.getElementById('count').textContent") == "1"
            assert await page.run("document.querySelectorAll('circle.mark').length") == 1
            bars = "document.querySelectorAll('figure')[1].querySelectorAll('.lines').length"
            assert await page.run(bars) == 90
            await page.save_picture("pipeline.png")
    nursery.cancel_scope.cancel()


async def test_a_page_without_its_modules_says_what_to_run(server, nursery, chromium, tmp_path):
    with trio.fail_after(60):
        url = await server.start_page(nursery, server.site(server.Results(), tmp_path))
        async with opened(chromium, tmp_path / "profile", url) as page:
            await page.wait_until("document.getElementById('status')?.textContent.includes('Run')")
            text = await page.run("document.getElementById('status').textContent")
    assert text == f"rsocket-js is not installed. Run: {server.bundle.HOW}"
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("program", "says"),
    [("exit 1", "the bundler failed. Run again: npm ci"), (None, "the bundler did not run: ")],
)
def test_a_bundler_that_fails(server, tmp_path, program, says):
    """The page says so; the server runs on."""
    (tmp_path / ".bin").mkdir()
    bundler = tmp_path / ".bin" / "esbuild"
    bundler.write_text(f"#!/bin/sh\n{program}\n")
    bundler.chmod(0o755 if program else 0o644)
    assert says in server.bundle.bundled(tmp_path).decode()


async def test_the_server_as_a_program(examples, environment, tmp_path):
    """It serves the streams and the page. The page gets no route of Spark. SIGTERM ends it."""
    command = [sys.executable, examples / "pipeline/alerts_server.py", "--http", "0"]
    command += ["--listen", "tcp://127.0.0.1:0", "--modules", tmp_path]
    with trio.fail_after(60):
        async with running(command, stdout=subprocess.PIPE, env=environment) as process:
            printed = b""
            while printed.count(b"\n") < 2:
                printed += await process.stdout.receive_some()
            for_spark, page = (line.split()[-1] for line in printed.decode().splitlines())
            async with connect(for_spark, data_mime_type="application/json") as requester:
                async with requester.request_stream(route="alerts"):
                    pass
                with pytest.raises(Invalid, match="not the CommitRequest"):
                    await requester.request_response(route="results.commit")
            host, _, port = page.removeprefix("http://").rstrip("/").partition(":")
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(b"GET /rsocket-uri HTTP/1.1\r\n\r\n")
                answer = b"".join([part async for part in stream])
            uri = answer.decode().partition("\r\n\r\n")[2]
            with pytest.raises(ConnectFailed, match="HTTP 403"):
                async with connect(uri, headers=[("Origin", "http://evil.example")]):
                    pass
            headers = [("Origin", page.rstrip("/"))]
            async with connect(uri, headers=headers) as requester:
                with pytest.raises(Invalid, match="no request_response handler"):
                    await requester.request_response(route="results.commit")
            process.terminate()
            assert await process.wait() == 0
