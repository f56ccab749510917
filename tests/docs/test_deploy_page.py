"""docs/howto/deploy.md: its table of phases is true, and its recipes for containers work."""

from __future__ import annotations

import math
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme

from rsocket_trio import (
    ClosedByPeer,
    ConnectFailed,
    Health,
    Rejected,
    Router,
    Stopping,
    connect,
    health_pages,
    serve,
)
from tests.programs import environment

PAGE = (Path(__file__).parents[2] / "docs/howto/deploy.md").read_text(encoding="utf-8")
PHASES = {"delay": 10.0, "spread": 5.0, "grace": 30.0}
TABLE = [
    [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
    for line in PAGE[PAGE.index("| over RSocket |") :].partition("\n\n")[0].splitlines()
]


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


class Look:
    """What each kind of request meets, in the words of the table."""

    def __init__(self, uri, health, requester, stopping):
        self.uri, self.pages = uri, health_pages(health)
        self.requester, self.stopping = requester, stopping
        self.open_request = "goes on"

    async def column(self, *, over):
        return [
            await self.new_connection(),
            await self.new_request(self.requester),
            self.open_request,
            "set" if self.stopping.is_set() else "not set",
            # The process ends with its server, and its pages with the process.
            "refused" if over else str((await self.pages["/ready"]()).status),
            "refused" if over else str((await self.pages["/live"]()).status),
        ]

    async def new_connection(self):
        try:
            async with connect(self.uri) as requester:
                return await self.new_request(requester)
        except ConnectFailed:
            return "refused"

    async def new_request(self, requester):
        try:
            await requester.request_response(route="echo")
        except (ClosedByPeer, Rejected):
            return "told"
        return "served"


async def test_the_table_of_phases(autojump_clock):
    """Each column is what a client meets at that time."""
    app, health, begun = Router(), Health(), []

    @app.request_response("echo")
    async def echo() -> str:
        return ""

    @app.request_stream("ticks")
    async def ticks(stopping: Stopping) -> AsyncIterator[str]:
        begun.append(stopping)
        yield ""
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, app, "tcp://127.0.0.1:0", health=health))

        async def watch(items):
            with pytest.raises(ClosedByPeer):
                await items.receive()
            look.open_request = "cut"

        async with connect(server.uris[0]) as requester:
            async with requester.request_stream(route="ticks") as items:
                await items.receive()
                look = Look(server.uris[0], health, requester, begun[0])
                nursery.start_soon(watch, items)
                began = trio.current_time()
                server.stop(**PHASES)
                columns = [await look.column(over=False)]
                # The goodbye comes at a random moment of five seconds.
                await trio.sleep_until(began + 10.000001)
                columns.append(await look.column(over=False))
                await trio.sleep_until(began + 15.1)
                columns.append(await look.column(over=False))
                await server.aclose(grace=100)
                assert trio.current_time() == pytest.approx(began + 45, abs=0.1)
                await trio.sleep(1)
                columns.append(await look.column(over=True))
    assert [row[1:] for row in TABLE[2:]] == [list(row) for row in zip(*columns, strict=True)]


def arguments(values):
    """The times among the arguments of a server."""
    options = dict(zip(values[::2], values[1::2], strict=True))
    return [float(options[name]) for name in ("--stop-delay", "--stop-spread", "--grace")]


def test_the_pod():
    """Kubernetes gives the process time for all phases, and asks pages that exist."""
    yaml = pytest.importorskip("yaml", reason="the page's YAML is not read: no PyYAML here")
    pod = yaml.safe_load(block("yaml"))["spec"]
    (container,) = pod["containers"]
    phases = arguments(container["args"])
    assert pod["terminationGracePeriodSeconds"] == math.fsum(phases) + 5
    assert phases == list(PHASES.values())
    options = dict(zip(container["args"][::2], container["args"][1::2], strict=True))
    pages = health_pages(Health())
    for probe, path in (("startup", "/ready"), ("readiness", "/ready"), ("liveness", "/live")):
        asked = container[f"{probe}Probe"]["httpGet"]
        assert asked["path"] == path in pages
        assert options["--health"].endswith(f":{asked['port']}")
    readiness = container["readinessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < phases[0]


def test_the_container(tmp_path: Path):
    """Its command serves in a directory with the copied files alone, and ends at SIGTERM with 0.

    There is no Docker here: the instructions are read, and the command is run.
    """
    lines = [line.partition(" ") for line in block("dockerfile").replace("\\\n", "").splitlines()]
    steps = {name: rest for name, _, rest in lines}
    assert next(iter(steps)) == "FROM"
    app = PAGE.partition("<!-- file: app.py -->\n```python\n")[2].partition("```\n")[0]
    assert "app.py" in shlex.split(steps["COPY"])
    (tmp_path / "app.py").write_text(app)
    words = [*eval(steps["ENTRYPOINT"]), *eval(steps["CMD"])]
    assert words.pop(0) == "rsocket-trio"
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    (tmp_path / "tls.key").chmod(0o600)
    free = [re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", word) for word in words]
    free = [word.replace("/tls/", f"{tmp_path}/") for word in free]
    command = [sys.executable, "-m", "rsocket_trio", *free]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(b"listening on tls://127.0.0.1:")
        uri = process.stdout.readline().decode().removeprefix("answering probes at ").strip()
        for path in ("/live", "/ready"):
            with urllib.request.urlopen(uri + path, timeout=20) as answer:
                assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{uri}/metrics", timeout=20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
