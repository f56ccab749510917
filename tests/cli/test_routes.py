"""``routes``: what a router answers, of a target and of a server."""

import json
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
Start = Callable[..., subprocess.Popen[bytes]]

APP = '''
from collections.abc import AsyncIterator

import attrs

from rsocket_trio import Rejected, Router


@attrs.frozen
class Order:
    """<b>An order</b>"""

    item: str


async def admins(auth, facts):
    principal = getattr(facts, "principal", None)
    return auth.token if auth is not None else principal


router = Router()


@router.request_response("buy.{shop}")
async def buy(shop: str, order: Order) -> float: ...


@router.request_stream("ticks")
async def ticks(first: int = 1) -> AsyncIterator[int]:
    """Tick & <tock>."""
    yield 1


router.include(router.introspection(authenticate=admins), "introspection.")
'''

TABLE = b"""\
buy.{shop}              request_response  (shop: str, order: Order) -> float
introspection.describe  request_stream    () -> RouteDescription
ticks                   request_stream    (first: int = ...) -> int
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


def test_the_routes_of_a_target(cli: Cli, app: Path) -> None:
    """A line for each handler; as JSON with the schemas."""
    done = cli("routes", str(app))
    assert (done.returncode, done.stdout, done.stderr) == (0, TABLE, b"")
    lines = cli("routes", str(app), "--json").stdout.splitlines()
    assert [json.loads(line)["route"] for line in lines] == [
        "buy.{shop}",
        "introspection.describe",
        "ticks",
    ]
    assert json.loads(lines[2])["result"] == {"name": "int", "schema": {"type": "integer"}}


def test_the_routes_of_a_server(cli: Cli, app: Path, start_cli: Start) -> None:
    """The same, if the server tells it to this client; a stranger is told nothing."""
    server = start_cli("serve", str(app), "--listen", "tcp://127.0.0.1:0")
    assert server.stdout is not None
    uri = server.stdout.readline().decode().removeprefix("listening on ").strip()
    assert cli("routes", uri, "--auth-bearer", "token").stdout == TABLE
    done = cli("routes", uri)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"authentication is needed" in done.stderr
    done = cli("routes", uri, "--auth-bearer", "token", "--prefix", "other.")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"includes router.introspection(...) as 'other.' (--prefix)" in done.stderr


class Tags(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page(cli: Cli, app: Path, tmp_path: Path) -> None:
    """One file: texts are escaped, and nothing is loaded or run."""
    page = tmp_path / "routes.html"
    done = cli("routes", str(app), "--html", str(page))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    tags = Tags()
    tags.feed(page.read_text(encoding="utf-8"))
    assert {tag for tag, _ in tags.found} <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "section"),
        *("p", "pre", "code", "details", "summary"),
    }
    assert not {name for _, given in tags.found for name in given} & {"src", "href", "onclick"}
    assert "Tick & <tock>." in tags.text
    assert "<b>An order</b>" in tags.text
    assert '"item": {' in tags.text


def test_what_has_no_routes(cli: Cli, tmp_path: Path) -> None:
    """A target that is no Router, a wrong address, and a page that cannot be written."""
    text = "from rsocket_trio import Router, Responder\napp = Responder()\nrouter = Router()\n"
    (tmp_path / "other.py").write_text(text)
    done = cli("routes", str(tmp_path / "other.py"))
    assert done.returncode == 2
    assert b"is no Router" in done.stderr
    assert cli("routes", "http://127.0.0.1:1").returncode == 2
    target = f"{tmp_path}/other.py:router"
    assert cli("routes", target).stdout == b""
    done = cli("routes", target, "--html", str(tmp_path / "no" / "page.html"))
    assert done.returncode == 4
    assert b"--html" in done.stderr


def test_a_module_for_clients(cli: Cli, app: Path) -> None:
    """``client`` prints a module that can be imported."""
    done = cli("client", str(app), "--name", "Shop")
    assert (done.returncode, done.stderr) == (0, b"")
    compile(done.stdout, "shop.py", "exec")
    assert b"class Shop(Protocol):\n" in done.stdout
    assert cli("client", str(app), "--name", "class").returncode == 2


@pytest.mark.parametrize(
    ("item", "count", "text"),
    [
        ("7", 1, b"the answer of the peer is no description: "),
        ("RouteDescription('events', None, 'x')", 10_001, b"the peer tells more than 10000 routes"),
    ],
)
def test_a_server_that_answers_something_else(
    cli: Cli, tmp_path: Path, start_cli: Start, item: str, count: int, text: bytes
) -> None:
    """What is no description is an error, and so are more of them than are kept."""
    (tmp_path / "odd.py").write_text(f"""
from collections.abc import AsyncIterator
from rsocket_trio import RouteDescription, Router

router = Router(prefix="introspection.")


@router.request_stream("describe")
async def describe() -> AsyncIterator[int | RouteDescription]:
    for _ in range({count}):
        yield {item}
""")
    server = start_cli("serve", "odd.py", "--listen", "tcp://127.0.0.1:0")
    assert server.stdout is not None
    uri = server.stdout.readline().decode().removeprefix("listening on ").strip()
    done = cli("routes", uri)
    assert (done.returncode, done.stdout) == (1, b"")
    assert text in done.stderr
