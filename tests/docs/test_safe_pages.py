"""Pages, examples and the help of commands follow the advice of the pages.

What a page shows is copied into production. So nothing in it listens for other hosts without TLS
and credentials, has a socket or a spool in a directory of all users, compares a secret by ``==``,
or is a service whose files others may read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.test_code_blocks import BLOCK, PAGES, ROOT

PROGRAMS = sorted((ROOT / "examples").rglob("*.py"))
SOURCES = sorted((ROOT / "rsocket_trio").rglob("*.py"))
EVERYWHERE = re.compile(r"0\.0\.0\.0|\[::\]|://\*:")
ENCRYPTED = re.compile(r"--cert|ssl_context=")
CREDENTIALS = re.compile(r"--ca\b|--auth-|authenticate=|CERT_REQUIRED")
SHARED = re.compile(r"(?<![\w.])/(?:var/)?tmp/")
SECRET = re.compile(r"token|password|secret|bearer|authorization|api_?key", re.IGNORECASE)


def texts() -> Iterator[tuple[str, str]]:
    """Every code block of a page, every example, and every text in the package, with its place."""
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text()):
            yield str(page.relative_to(ROOT)), match["text"]
    for path in PROGRAMS:
        yield str(path.relative_to(ROOT)), path.read_text()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield str(path.relative_to(ROOT)), node.value


def is_open(text: str) -> bool:
    """Whether a text listens at all addresses of a host, and not all of that is needed."""
    found = EVERYWHERE.search(text)
    return found is not None and not (ENCRYPTED.search(text) and CREDENTIALS.search(text))


def compared_secrets(source: str) -> Iterator[str]:
    """The comparisons of a program that stop at the first difference, with a secret in them."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(ops=ops):
                compares = any(isinstance(each, ast.Eq | ast.NotEq) for each in ops)
            case ast.MatchClass():  # A text in a pattern is compared as well.
                compares = any(isinstance(each, ast.MatchValue) for each in ast.walk(node))
            case _:
                continue
        if compares and SECRET.search(text := ast.unparse(node)):
            yield text


def test_nothing_listens_for_everybody() -> None:
    """An address for other hosts has TLS and asks for credentials, in the same block."""
    assert [(place, text) for place, text in texts() if is_open(text)] == []


def test_nothing_is_in_a_directory_of_all_users() -> None:
    """There another user may have the name first: a link, a socket, or a spool of its own."""
    assert [(place, text) for place, text in texts() if SHARED.search(text)] == []


def test_secrets_are_compared_in_constant_time() -> None:
    """`hmac.compare_digest`: the time of ``==`` tells how much of a guess is right."""
    programs = [(path.name, path.read_text()) for path in PROGRAMS]
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text()):
            if match["language"] == "python":
                programs.append((page.name, match["text"]))
    assert [(name, each) for name, text in programs for each in compared_secrets(text)] == []


def test_services_keep_their_files_to_themselves() -> None:
    """A unit of systemd has a user of its own and a umask."""
    units = [(place, text) for place, text in texts() if "[Service]" in text]
    assert units
    for place, text in units:
        assert "User=" in text, place
        assert "UMask=0077" in text, place


@pytest.mark.parametrize(
    "text",
    [
        "rsocket-trio collect --listen tcp://0.0.0.0:1",
        "rsocket-trio serve app.py --listen tls://[::]:1 --cert c.pem",
        "rsocket-trio collect --listen tcp://*:1 --auth-bearer @t",
        'serve(router, "ws://0.0.0.0:1", ssl_context=context)',
    ],
)
def test_the_rule_of_addresses(text: str) -> None:
    """It sees what it is for."""
    assert is_open(text)
    assert not is_open(text + " --cert c.pem --ca peers.pem")


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("if token == known: pass", True),
        ("if known != call.metadata['authorization']: pass", True),
        ("if auth != BearerAuthentication('x'): pass", True),
        ("match a:\n  case BearerAuthentication(token='x'): pass", True),
        ("match a:\n  case BearerAuthentication(token=t): pass", False),
        ("if token is None or name == 'ada': pass", False),
    ],
)
def test_the_rule_of_secrets(source: str, seen: bool) -> None:
    """It sees what it is for, also in a pattern."""
    assert bool(list(compared_secrets(source))) is seen
