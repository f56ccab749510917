"""``request``, ``fnf`` and ``push`` against a server with known answers."""

import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from rsocket_trio import Canceled, Rejected, Router, Server, StreamError, serve
from rsocket_trio.blocking import blocking

Cli = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
def test_a_response_is_printed(cli: Cli, server: dict[str, str], scheme: str) -> None:
    """A response is printed, over each transport."""
    done = cli("request", "--raw", server[scheme], "zwölf")
    assert (done.returncode, done.stdout, done.stderr) == (0, "zwölf\n".encode(), b"")


def test_a_request_without_data(cli: Cli, server: dict[str, str]) -> None:
    """Without DATA the request is empty."""
    assert cli("request", "--raw", server["tcp"]).stdout == b"\n"


def test_a_request_of_standard_input(cli: Cli, server: dict[str, str]) -> None:
    """With - the request is all of standard input; the answer is printed byte for byte."""
    assert cli("request", "--raw", server["tcp"], "-", stdin=b"a\n\xff").stdout == b"a\n\xff\n"


def test_a_request_larger_than_a_frame(cli: Cli, server: dict[str, str], tmp_path: Path) -> None:
    """A payload larger than any frame is sent and comes back."""
    (tmp_path / "data").write_bytes(b"x" * 17_000_000)
    done = cli("request", "--raw", server["tcp"], "@data")
    assert done.stdout == b"x" * 17_000_000 + b"\n"


def test_a_response_as_json(cli: Cli, server: dict[str, str]) -> None:
    """--json shows data and metadata."""
    done = cli("request", "--raw", server["tcp"], "ping", "--metadata", "0x00ff", "--json")
    assert {"data": "ping", "metadata_hex": "00ff"}.items() <= json.loads(done.stdout).items()


def test_json_of_bytes(cli: Cli, server: dict[str, str]) -> None:
    """Bytes that are not text are hexadecimal; absent metadata is null."""
    done = cli("request", "--raw", server["tcp"], "-", "--json", stdin=b"\xff")
    assert json.loads(done.stdout) == {"data_hex": "ff", "metadata_hex": None}


def test_a_route_is_sent(cli: Cli, server: dict[str, str]) -> None:
    """--route is routing metadata in composite metadata."""
    done = cli("request", "--raw", server["tcp"], "ping", "--route", "greet", "--json")
    assert json.loads(done.stdout)["metadata_hex"] == "fe000006056772656574"


def test_completion_without_a_payload(cli: Cli, server: dict[str, str]) -> None:
    """A response without a payload prints nothing."""
    done = cli("request", "--raw", server["tcp"], "empty", "--json")
    assert (done.returncode, done.stdout) == (0, b"")


def test_an_error_of_the_peer(cli: Cli, server: dict[str, str]) -> None:
    """It is one line with code and text, and status 1."""
    done = cli("request", "--raw", server["tcp"], "error:out of beans")
    line = b"rsocket-trio: error: the peer answered APPLICATION_ERROR: out of beans\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", line)


@pytest.mark.parametrize(
    ("error", "options", "sent"),
    [
        (Rejected, ["--retry", "2"], 3),
        (Rejected, ["--retry", "1"], 2),
        (Rejected, [], 1),
        (Canceled, ["--retry", "2"], 1),
        (Canceled, ["--retry", "2", "--idempotent"], 3),
    ],
)
@pytest.mark.parametrize("command", ["request", "stream"])
def test_a_request_is_sent_again(
    cli: Cli, command: str, error: type[StreamError], options: list[str], sent: int
) -> None:
    """As often as --retry says; and what may have been processed with --idempotent only."""
    tries = []
    router = Router()

    @router.request_response("ask")
    async def ask() -> int:
        tries.append(1)
        if len(tries) <= 2:
            raise error("not now")
        return 42

    @router.request_stream("ask")
    async def items() -> AsyncIterator[int]:
        yield await ask()

    with blocking(partial(_serving, router)) as server:
        done = cli(command, server.value.uris[0], "--route", "ask", *options)
    assert len(tries) == sent
    assert (done.returncode, done.stdout) == ((0, b"42\n") if sent == 3 else (1, b""))


@asynccontextmanager
async def _serving(router: Router) -> AsyncIterator[Server]:
    async with trio.open_nursery() as nursery:
        yield await nursery.start(serve, router, "tcp://127.0.0.1:0")
        nursery.cancel_scope.cancel()


def test_fire_and_forget(cli: Cli, server: dict[str, str]) -> None:
    """fnf sends its message before it ends, and prints nothing."""
    done = cli("fnf", "--raw", server["tcp"], "it rained", "--route", "log")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert cli("request", "--raw", server["tcp"], "last-fnf").stdout == b"it rained\n"


@pytest.mark.parametrize(("data", "sent"), [("0x666f6f", "foo"), ("reload", "reload"), ("", "")])
def test_a_metadata_push(cli: Cli, server: dict[str, str], data: str, sent: str) -> None:
    """push sends its metadata before it ends, and prints nothing."""
    done = cli("push", server["tcp"], data)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert cli("request", "--raw", server["tcp"], "last-push").stdout == f"{sent}\n".encode()


def test_push_metadata(cli: Cli, server: dict[str, str]) -> None:
    """--metadata is another way to give the metadata; both ways at once are wrong usage."""
    assert cli("push", server["tcp"], "--metadata", "other").returncode == 0
    assert cli("request", "--raw", server["tcp"], "last-push").stdout == b"other\n"
    done = cli("push", server["tcp"], "data", "--metadata", "other")
    assert done.returncode == 2
    assert b"give only one" in done.stderr


def test_a_missing_file(cli: Cli, server: dict[str, str]) -> None:
    """A missing file is an error before a frame is sent."""
    done = cli("request", "--raw", server["tcp"], "@missing")
    line = b"rsocket-trio: error: cannot read 'missing': No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", line)


def test_a_full_disk(
    start_cli: Callable[..., subprocess.Popen[bytes]], server: dict[str, str]
) -> None:
    """Output that cannot be written has its own status."""
    with Path("/dev/full").open("wb") as full:
        process = start_cli("request", "--raw", server["tcp"], "ping", stdout=full)
        _, errors = process.communicate()
    line = b"rsocket-trio: error: cannot write to standard output: No space left on device\n"
    assert (process.returncode, errors) == (4, line)


def test_the_draft_of_2015(cli: Cli, server: dict[str, str]) -> None:
    """--protocol reactivesocket: the same answers from the same address."""
    for uri in server.values():
        done = cli("request", "--raw", uri, "hello", "--protocol", "reactivesocket")
        assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"", 0)


TYPED = """\
from collections.abc import AsyncIterator

import attrs
from trio.abc import ReceiveChannel

from rsocket_trio import Router, Setup

@attrs.frozen
class Order:
    id: int
    note: str = "none"

router = Router()

@router.request_response("order")
async def order(order: Order) -> Order:
    return attrs.evolve(order, id=order.id + 1)

@router.request_response("greet")
async def greet(name: str) -> str:
    return f"Hello, {name}!"

@router.request_stream("count")
async def count(upto: int) -> AsyncIterator[int]:
    for number in range(upto):
        yield number

@router.request_channel("sum")
async def add(orders: ReceiveChannel[Order]) -> AsyncIterator[Order]:
    async for order in orders:
        yield order

@router.request_response("setup")
async def setup_data(setup: Setup) -> str:
    return setup.data.hex()
"""


def test_a_router_with_its_defaults(
    cli: Cli, start_cli: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Without an option, a typed handler gets what is typed; its answers can be typed again."""
    (tmp_path / "app.py").write_text(TYPED)
    (tmp_path / "raw").write_bytes(b"dtrio")
    process = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "-q")
    assert process.stdout is not None
    uri = process.stdout.readline().decode().removeprefix("listening on ").strip()

    def ask(route: str, *words: str) -> bytes:
        done = cli("request", uri, "--route", route, *words)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    for mime in ((), ("--data-mime", "application/json"), ("--data-mime", "a/b+json")):
        first = ask("order", '{"id": 1}', *mime)
        assert json.loads(first) == {"id": 2, "note": "none"}
        assert json.loads(ask("order", first.decode(), *mime))["id"] == 3
        nested = json.loads(ask("order", '{"id": 1, "note": "x"}', "--json", *mime))
        assert nested == {"data": {"id": 2, "note": "x"}, "metadata_hex": None}
        assert ask("greet", "trio", *mime) == b'"Hello, trio!"\n'
    assert ask("greet", "trio", "--data-mime", "text/plain") == b"Hello, trio!\n"
    assert ask("setup", "--setup-data", "{}") == b'"a0"\n'
    assert ask("setup", "--setup-data", "0x00") == b'"00"\n'
    assert ask("greet", "0x647472696f") == b'"Hello, trio!"\n'
    assert ask("greet", "@raw", "--raw") == b"lHello, trio!\n"
    done = cli("stream", uri, "3", "--route", "count")
    assert (done.stdout, done.returncode) == (b"0\n1\n2\n", 0)
    done = cli("channel", uri, "--route", "sum", stdin=b'{"id": 1}\n{"id": 2}\n')
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    done = cli("request", uri, "5", "--route", "greet")
    assert done.returncode == 1
    assert b"quotes make text of a number" in done.stderr
    done = cli("request", uri, '{"id": ', "--route", "order")
    assert done.returncode == 2
    assert b"not JSON" in done.stderr
