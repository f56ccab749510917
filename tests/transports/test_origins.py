"""Web pages that may connect: origins, and the list of allowed ones."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.transports.origins import normal_origin, normal_origins
from rsocket_trio.transports.websocket_handshake import Handshake, accept_websocket
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
        "", "*", "example.org", "https://", "https://example.org/", "https://example.org/path",
        "https://example.org?", "https://example.org#", "https://a@example.org",
        "https://example.org:x", "https://example.org:99999", "https://[::1", "https://a\n.org",
        "https://*.example.org", "https://a.org https://b.org", "NULL", "file://",
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
    with pytest.raises(TypeError, match="must be a str"):
        normal_origins([1])  # type: ignore[list-item] # to see that it is found
    assert normal_origins(None) is None


async def ask(data: bytes, allowed: list[str] | None) -> tuple[Handshake | str, bytes]:
    """Return a server's result for a request, and its answer."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(data)
    outcome: Handshake | str
    try:
        outcome = await accept_websocket(ours, "/rsocket", allowed_origins=normal_origins(allowed))
    except ConnectFailed as error:
        outcome = str(error)
    await ours.aclose()
    return outcome, b"".join([bytes(part) async for part in theirs])


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://evil.example", None),
        ("https://example.org", ["https://other.example", "https://example.org"]),
        ("https://example.org", ["https://EXAMPLE.org:443"]),
        ("HTTPS://example.org:443", ["https://example.org"]),
        ("null", ["null"]),
        (None, ["https://example.org"]),
        (None, []),
    ],
)
async def test_allowed_origins(origin: str | None, allowed: list[str] | None) -> None:
    """Pages of a listed origin, all pages without a list, and clients that are not browsers."""
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
