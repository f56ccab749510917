"""``rsio subscribe``, and ``serve`` at addresses of rsio."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

APP = """\
from rsocket_trio import rsio
from rsocket_trio.reactive_streams import failed, from_iterable

app = {
    "words": from_iterable([b"one", b"two", b"\\xff"]),
    "fails": failed(rsio.PublisherError("no \\x1b[31m words")),
}
"""
ROUTER = """\
from collections.abc import AsyncIterator

from rsocket_trio import Router

app = Router()


@app.request_stream("twice")
async def twice(value: int) -> AsyncIterator[int]:
    yield value
    yield 2 * value
"""


@pytest.fixture
def serve(start_cli, tmp_path):
    """Serve a target; the addresses it listens on."""

    def start(source: str, *listen: str) -> list[str]:
        Path(tmp_path, "app.py").write_text(source)
        options = [option for uri in listen for option in ("--listen", uri)]
        process = start_cli("serve", "app.py", *options)
        lines = [process.stdout.readline().decode() for _ in listen]
        return [line.removeprefix("listening on ").rstrip("\n") for line in lines]

    return start


def test_elements_are_lines(cli, serve):
    """Octets as they are; with --json objects."""
    (uri,) = serve(APP, "rsio://127.0.0.1:0")
    done = cli("rsio", "subscribe", uri, "words")
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n\xff\n")
    done = cli("rsio", "subscribe", uri, "words", "--json", "--prefetch", "1")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{"data": "one"}, {"data": "two"}, {"data_hex": "ff"}]
    done = cli("rsio", "subscribe", uri, "words", "--take", "1")
    assert (done.returncode, done.stdout) == (0, b"one\n")


def test_an_error_of_the_publisher_is_printed_without_control_characters(cli, serve):
    """The status is 1."""
    (uri,) = serve(APP, "rsio://127.0.0.1:0")
    done = cli("rsio", "subscribe", uri, "fails")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"rsocket-trio: error: publisher 'fails': no \\x1b[31m words\n"
    done = cli("rsio", "subscribe", uri, "nobody", "--json")
    assert json.loads(done.stderr) == {"error": {"message": "unknown publisher"}}


def test_one_server_listens_by_rsio_and_rsocket(cli, serve):
    """The same handlers answer."""
    rsio, tcp = serve(ROUTER, "rsio://127.0.0.1:0", "tcp://127.0.0.1:0")
    if rsio.startswith("tcp"):
        rsio, tcp = tcp, rsio
    assert cli("rsio", "subscribe", rsio, "twice?value=4").stdout == b"4\n8\n"
    assert cli("stream", tcp, "4", "--route", "twice").stdout == b"4\n8\n"


def test_wrong_usage(cli, tmp_path):
    """The status is 2, and the error says what is wrong."""
    done = cli("rsio", "subscribe", "tcp://127.0.0.1:1", "words")
    assert done.returncode == 2
    assert b"is not an address" in done.stderr
    Path(tmp_path, "app.py").write_text("app = 5")
    done = cli("serve", "app.py", "--listen", "rsio://127.0.0.1:0")
    assert done.returncode == 2
    assert b"a mapping of names to publishers" in done.stderr
    done = cli("serve", "app.py", "--listen", "rsio://127.0.0.1:0", "--lease", "1/1")
    assert done.returncode == 2


def test_no_server(cli):
    """The status is 3."""
    done = cli("rsio", "subscribe", "rsio://127.0.0.1:1", "words")
    assert done.returncode == 3
    assert b"cannot connect to rsio://127.0.0.1:1" in done.stderr
