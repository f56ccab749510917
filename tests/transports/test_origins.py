"""Whose web pages may connect: what an origin is, and who is let in."""

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
def test_origins(text: str, normal: str) -> None:
    """They are compared as browsers write them, and writing one again changes nothing."""
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
def test_what_is_no_origin(text: str) -> None:
    """It is refused where it is configured, with an example."""
    with pytest.raises(ValueError, match="is not an origin"):
        normal_origins([text])


def test_what_is_no_list() -> None:
    """One text is a mistake that would let in pages of one letter."""
    with pytest.raises(TypeError, match="a list"):
        normal_origins("https://example.org")
    with pytest.raises(TypeError, match="must be a str"):
        normal_origins([1])  # type: ignore[list-item] # to see that it is found
    assert normal_origins(None) is None


async def ask(data: bytes, allowed: list[str] | None) -> tuple[Handshake | str, bytes]:
    """What a server makes of a request, and what it answers."""
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
async def test_who_is_let_in(origin: str | None, allowed: list[str] | None) -> None:
    """Pages of a listed origin, everybody without a list, and clients that are no browsers."""
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
async def test_who_is_not(origin: str, allowed: list[str]) -> None:
    """403, before anything is agreed on; what is repeated of the origin is short and plain."""
    outcome, answer = await ask(request(origin=origin), allowed)
    assert isinstance(outcome, str)
    assert "403 Forbidden" in outcome
    assert outcome.isascii()
    assert len(outcome) < 600
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"101" not in answer.partition(b"\r\n")[0]


async def test_several_origins() -> None:
    """Each header counts: one that is allowed does not hide another."""
    good, evil = "Origin: https://example.org\r\n", "Origin: https://evil.example\r\n"
    for first, second in ((good, evil), (evil, good)):
        data = request().removesuffix(b"\r\n") + (first + second).encode() + b"\r\n"
        outcome, answer = await ask(data, ["https://example.org"])
        assert isinstance(outcome, str)
        assert answer.startswith(b"HTTP/1.1 403 ")


async def test_a_path_that_does_not_exist_comes_first() -> None:
    """404 and 403 do not tell a page more than one of them would."""
    _, answer = await ask(request("GET /elsewhere HTTP/1.1", origin="https://x.example"), [])
    assert answer.startswith(b"HTTP/1.1 404 ")
