"""Web pages that may connect: origins, and the list of allowed ones."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.transports.origins import normal_origin, normal_origins
from rsocket_trio.transports.websocket_handshake import Endpoint, Handshake, accept_websocket
from tests.transports.test_websocket_handshake import request


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("https://example.org", "https://example.org"),
        ("HTTPS://Example.ORG:443", "https://example.org"),
        ("http://localhost:80", "http://localhost"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://localhost:80", "https://localhost:80"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("http://[0:0:0::0:1]", "http://[::1]"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ("null", "null"),
    ],
)
def test_origins_are_normalised(text: str, normal: str) -> None:
    """They are compared as browsers write them; an origin that was normalised does not change."""
    assert normal_origin(text) == normal
    assert normal_origin(normal) == normal
    assert normal_origins([text, normal]) == {normal}


@pytest.mark.parametrize(
    "text",
    [
        "", "**", "example.org", "https://", "https://example.org/", "https://example.org/path",
        "https://example.org?", "https://example.org#", "https://a@example.org",
        "https://example.org:x", "https://example.org:99999", "https://[::1", "https://a\n.org",
        "https://*.example.org", "https://a.org https://b.org", "NULL", "file://",
        "https://b\u00fccher.example",  # No browser sends it so: it would never match.
    ],
)  # fmt: skip
def test_a_wrong_origin_is_refused(text: str) -> None:
    """It is refused where it is configured, with an example."""
    with pytest.raises(ValueError, match="is not an origin"):
        normal_origins([text])


def test_a_single_text_is_not_a_list() -> None:
    """As a list, one text would allow the pages of single letters."""
    with pytest.raises(TypeError, match="a list"):
        normal_origins("https://example.org")
    with pytest.raises(TypeError, match="must be of type str"):
        normal_origins([1])  # type: ignore[list-item] # to see that it is found
    assert normal_origins(None) is None
    assert normal_origins("*") == normal_origins(["*"]) == {"*"}


async def ask(
    data: bytes, allowed: list[str] | None, local: str = "127.0.0.1:80"
) -> tuple[Handshake | str, bytes]:
    """Return a server's result for a request, and its answer."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(data)
    outcome: Handshake | str
    try:
        endpoint = Endpoint(path="/rsocket", allowed_origins=normal_origins(allowed))
        outcome = await accept_websocket(ours, endpoint, local=local)
    except ConnectFailed as error:
        outcome = str(error)
    await ours.aclose()
    return outcome, b"".join([bytes(part) async for part in theirs])


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://evil.example", ["*"]),
        ("null", ["*"]),
        ("no origin at all", ["https://example.org", "*"]),
        ("https://example.org", ["https://other.example", "https://example.org"]),
        ("https://example.org", ["https://EXAMPLE.org:443"]),
        ("HTTPS://example.org:443", ["https://example.org"]),
        ("null", ["null"]),
        (None, ["https://example.org"]),
        (None, []),
    ],
)
async def test_allowed_origins(origin: str | None, allowed: list[str] | None) -> None:
    """Pages of a listed origin, all pages if the list says so, and clients that are no browsers."""
    outcome, answer = await ask(request(ORIGIN=origin), allowed)
    assert isinstance(outcome, Handshake)
    assert answer.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://evil.example", ["https://example.org"]),
        ("https://example.org.evil.example", ["https://example.org"]),
        ("https://evil-example.org", ["https://example.org"]),
        ("http://example.org", ["https://example.org"]),
        ("https://example.org:8443", ["https://example.org"]),
        ("https://example.org", []),
        ("null", ["https://example.org"]),
        ("", ["https://example.org"]),
        ("https://example.org, https://evil.example", ["https://example.org"]),
        ("https://evil.example https://example.org", ["https://example.org"]),
        ("https://example.org/", ["https://example.org"]),
        ("\xff\x80", ["https://example.org"]),
        ("x" * 10_000, ["https://example.org"]),
    ],
)
async def test_refused_origins(origin: str, allowed: list[str]) -> None:
    """They get 403 before the handshake; the origin is shown short and plain."""
    outcome, answer = await ask(request(origin=origin), allowed)
    assert isinstance(outcome, str)
    assert "403 Forbidden" in outcome
    assert outcome.isascii()
    assert len(outcome) < 600
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"101" not in answer.partition(b"\r\n")[0]


OWN = [
    # the host that was asked for, the page, where the client has arrived
    ("127.0.0.1:7879", "http://127.0.0.1:7879", "127.0.0.1:7879"),
    ("localhost:7879", "http://localhost:7879", "127.0.0.1:7879"),
    ("LOCALHOST:7879", "http://localhost:7879", "[::1]:7879"),
    ("[::1]:7879", "http://[::1]:7879", "[::1]:7879"),
    ("192.168.1.7:80", "http://192.168.1.7", "192.168.1.7:80"),
    ("127.0.0.1", "https://127.0.0.1", "127.0.0.1:443"),
    ("127.0.0.1:443", "https://127.0.0.1", "127.0.0.1:443"),
    ("example.org", "https://example.org", "8.8.8.8:443"),
    ("example.org:8443", "https://example.org:8443", "[2606:4700::1111]:8443"),
]


@pytest.mark.parametrize(("host", "origin", "local"), OWN)
async def test_a_page_of_the_own_host_may_connect(host: str, origin: str, local: str) -> None:
    """Where no origins are named; with a list it must be on it."""
    data = request(Host=host, origin=origin)
    outcome, _ = await ask(data, None, local)
    assert isinstance(outcome, Handshake)
    outcome, answer = await ask(data, [], local)
    assert answer.startswith(b"HTTP/1.1 403 ")
    outcome, answer = await ask(request(Host=host, origin=None), None, local)
    assert isinstance(outcome, Handshake)


@pytest.mark.parametrize(
    ("host", "origin", "local"),
    [
        ("127.0.0.1:7879", "https://evil.example", "127.0.0.1:7879"),
        ("127.0.0.1:7879", "http://127.0.0.1:8000", "127.0.0.1:7879"),
        ("127.0.0.1:7879", "http://localhost:7879", "127.0.0.1:7879"),
        ("localhost:7879", "http://localhost", "127.0.0.1:7879"),
        ("localhost", "null", "127.0.0.1:80"),
        ("localhost", "file://", "127.0.0.1:80"),
        ("[g::1]", "http://localhost", "127.0.0.1:80"),
        ("localhost:99999", "http://localhost", "127.0.0.1:80"),
        ("", "http://localhost", "127.0.0.1:80"),
        # the name of a stranger's site points to an address of the user (DNS rebinding)
        ("evil.example:7879", "http://evil.example:7879", "127.0.0.1:7879"),
        ("evil.example:7879", "http://evil.example:7879", "[::1]:7879"),
        ("evil.example:7879", "http://evil.example:7879", "[::ffff:127.0.0.1]:7879"),
        ("evil.example:7879", "http://evil.example:7879", "192.168.1.7:7879"),
        ("evil.example:7879", "http://evil.example:7879", "[fe80::1%eth0]:7879"),
        ("evil.example:7879", "http://evil.example:7879", ""),
        ("localhost.evil.example", "http://localhost.evil.example", "127.0.0.1:80"),
        ("127.0.0.1.evil.example", "http://127.0.0.1.evil.example", "127.0.0.1:80"),
    ],
)
async def test_other_pages_may_not_connect_by_default(host: str, origin: str, local: str) -> None:
    """The log and the answer name what opens it."""
    outcome, answer = await ask(request(Host=host, origin=origin), None, local)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert "--allow-origin" in str(outcome)


async def test_an_absolute_target_is_the_host_that_counts() -> None:
    """RFC 9112, 3.2.2: `Host` is ignored then."""
    line = "GET http://evil.example/rsocket HTTP/1.1"
    data = request(line, Host="localhost", origin="http://localhost")
    outcome, answer = await ask(data, None)
    assert isinstance(outcome, str)
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_several_origin_headers() -> None:
    """Each header counts: an allowed one does not hide another."""
    good, evil = "Origin: https://example.org\r\n", "Origin: https://evil.example\r\n"
    for first, second in ((good, evil), (evil, good)):
        data = request().removesuffix(b"\r\n") + (first + second).encode() + b"\r\n"
        outcome, answer = await ask(data, ["https://example.org"])
        assert isinstance(outcome, str)
        assert answer.startswith(b"HTTP/1.1 403 ")


async def test_a_path_that_does_not_exist_comes_first() -> None:
    """It gets 404 with any origin."""
    _, answer = await ask(request("GET /elsewhere HTTP/1.1", origin="https://x.example"), [])
    assert answer.startswith(b"HTTP/1.1 404 ")
