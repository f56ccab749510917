"""A page in a headless browser: rsocket-js over the browser's WebSocket, against our server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

JS = Path(__file__).parent / "js"
CHROMIUM = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # It may only connect to this machine.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def script(harness, tmp_path_factory) -> bytes:
    """The page's script with all of rsocket-js in it."""
    harness.require("rsocket-js")
    bundle = tmp_path_factory.mktemp("bundle") / "page.js"
    subprocess.run(
        [JS / "node_modules/.bin/esbuild", JS / "browser/page.js", "--bundle",
         "--define:global=globalThis", "--log-level=warning", f"--outfile={bundle}"],
        check=True,
    )  # fmt: skip
    return bundle.read_bytes()


@pytest.fixture
def page(harness, site, script, tmp_path):
    """``await page(uri)``: the page's results with the RSocket server there."""
    harness.require("chromium")

    async def run(uri: str) -> dict:
        async with (
            site(script) as there,
            harness.running(
                [*CHROMIUM, f"--user-data-dir={tmp_path}", f"{there.url}/?rsocket={uri}"]
            ),
        ):
            return await there.result.receive()

    return run


ANSWERS = {
    "held": 3,
    "stream": [str(number) for number in range(10)],
    "channel": ["a", "b", "c", "d"],
}


async def test_the_page_with_a_server_of_rsocket_js(page, harness):
    """The page gets its answers from rsocket-js too: if this fails, the page is at fault."""
    [over_websocket] = [each for each in harness.stacks() if str(each) == "rsocket-js-ws"]
    async with over_websocket.serve() as (uri, _):
        # rsocket-js answers without metadata.
        assert await page(uri) == {"response": {"data": "hello", "metadata": None}, **ANSWERS}


async def test_a_page_in_the_browser(page, served):
    """A page makes a request, a stream that waits for its demand, and a channel, over WebSocket."""
    async with served("ws") as (uri, _):
        assert await page(uri) == {"response": {"data": "hello", "metadata": "meta"}, **ANSWERS}
