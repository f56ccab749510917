"""A headless Chromium for the pages of the examples."""

import base64
import json
import os
import subprocess
from contextlib import asynccontextmanager

import trio
from trio_websocket import open_websocket_url

CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1000,760",
    "--remote-debugging-port=0",
]


@asynccontextmanager
async def running(command, **options):
    """A program that runs for the length of the block and is killed at its end."""
    process = await trio.lowlevel.open_process([str(part) for part in command], **options)
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    await pipe.aclose()


async def text_after(stream, marker):
    """Return the text between a marker and the next blank."""
    seen = ""
    while marker not in seen or not seen.partition(marker)[2].split(None, 1)[1:]:
        some = await stream.receive_some()
        assert some, f"no {marker!r} in {seen!r}"
        seen += some.decode()
    return seen.partition(marker)[2].split()[0]


class Page:
    """A page of a browser, controlled by the browser's debugging protocol."""

    def __init__(self, websocket):
        self._websocket = websocket
        self._session = {}
        self._calls = 0

    def _message(self, method, **params):
        self._calls += 1
        return json.dumps({"id": self._calls, "method": method, "params": params, **self._session})

    async def call(self, method, **params):
        await self._websocket.send_message(self._message(method, **params))
        while (answer := json.loads(await self._websocket.get_message())).get("id") != self._calls:
            pass  # events
        return answer["result"]

    async def open(self, url):
        """Go to the address, in the one open page, and wait until it is loaded."""
        targets = (await self.call("Target.getTargets"))["targetInfos"]
        [target] = [each["targetId"] for each in targets if each["type"] == "page"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        await self.call("Page.enable")
        await self._websocket.send_message(self._message("Page.navigate", url=url))
        while (
            json.loads(await self._websocket.get_message()).get("method") != "Page.loadEventFired"
        ):
            pass

    async def run(self, script):
        answer = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def wait_until(self, condition):
        """Wait until an expression is true in the page."""
        await self.run(
            "new Promise((done) => { const look = () => "
            f"({condition}) ? done() : requestAnimationFrame(look); look(); }})"
        )

    async def save_picture(self, name):
        """Save a picture of the page if somebody wants to see it: SCREENSHOTS is a directory."""
        if directory := os.environ.get("SCREENSHOTS"):
            picture = (await self.call("Page.captureScreenshot"))["data"]
            await trio.Path(directory, name).write_bytes(base64.b64decode(picture))


@asynccontextmanager
async def opened(chromium, profile, url):
    """The `Page` at that address, in a browser that runs for the length of the block."""
    command = [chromium, *CHROMIUM, f"--user-data-dir={profile}"]
    async with running(command, stderr=subprocess.PIPE) as browser:
        debugger = await text_after(browser.stderr, "DevTools listening on ")
        async with open_websocket_url(debugger, max_message_size=2**25) as websocket:
            page = Page(websocket)
            await page.open(url)
            yield page
