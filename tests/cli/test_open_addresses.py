"""Commands that serve say at the start which public addresses ask for no credentials."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from rsocket_trio import RejectedSetup, Requester, Responder, Router, Setup
from rsocket_trio.cli.serving import asks_nobody, warn_of_open
from rsocket_trio.uri import parse_uri

Cli = Callable[..., subprocess.CompletedProcess[bytes]]

APP = """
from rsocket_trio import Router
async def authenticate(auth, facts):
    return "ada"
app = Router()
guarded = Router(authenticate=authenticate)
"""
TLS = ("--cert", "cert.pem")
AUTHORITY = (*TLS, "--ca", "ca.pem")
TOKEN = ("--auth-bearer", "send=s3cret")
COLLECT = ("collect", "--spool", "events")
SERVED = "anybody who can connect is served"
SENDS = "anybody who can connect may send events"
ALL = "may send, read and delete events"
READABLE = "can be read on their way"


@pytest.mark.parametrize(
    ("command", "schemes", "options", "warned"),
    [
        (("serve", "app.py"), ("tcp",), (), [("tcp", SERVED)]),
        (("serve", "app.py"), ("tls", "ws"), AUTHORITY, [("ws", SERVED)]),
        (
            ("serve", "app.py"),
            ("tls",),
            (*AUTHORITY, "--client-cert", "optional"),
            [("tls", SERVED)],
        ),
        (("serve", "app.py:guarded"), ("tcp",), (), []),
        (("serve", "app.py"), ("rsio",), (), [("rsio", SERVED)]),
        (("serve", "app.py"), ("rsios",), AUTHORITY, []),
        (("ttrpc", "serve", "app.py"), ("tcp",), (), [("tcp", SERVED)]),
        (("ttrpc", "serve", "app.py:guarded"), ("tcp",), (), []),
        (("lumberjack", "serve"), ("lumberjack",), (), [("lumberjack", SENDS)]),
        (("lumberjack", "serve"), ("lumberjacks",), TLS, [("lumberjacks", SENDS)]),
        (("lumberjack", "serve"), ("lumberjacks",), AUTHORITY, []),
        (COLLECT, ("lumberjack", "tcp"), (), [("tcp", ALL), ("lumberjack", SENDS)]),
        (COLLECT, ("lumberjacks", "tls"), TLS, [("tls", ALL), ("lumberjacks", SENDS)]),
        (COLLECT, ("lumberjacks", "tls"), AUTHORITY, [("tls", "lets it read and delete events")]),
        (COLLECT, ("lumberjacks", "tls"), (*AUTHORITY, *TOKEN), []),
        (COLLECT, ("tls",), AUTHORITY, []),
        (COLLECT, ("tls",), (*TLS, *TOKEN), []),
        (COLLECT, ("tcp",), TOKEN, [("tcp", READABLE)]),
    ],
)
def test_a_public_address_without_credentials_is_said(
    cli: Cli,
    tmp_path: Path,
    command: tuple[str, ...],
    schemes: tuple[str, ...],
    options: tuple[str, ...],
    warned: list[tuple[str, str]],
) -> None:
    """One line for each fault, with the address and what to do, before anything listens."""
    (tmp_path / "app.py").write_text(APP)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
    # An address for documentation (RFC 5737), which no host has: the command ends at once.
    listen = [part for each in schemes for part in ("--listen", f"{each}://192.0.2.1:1")]
    done = cli(*command, *listen, *options)
    assert done.returncode == 3, done.stderr
    lines = [each for each in done.stderr.decode().splitlines() if "WARNING" in each]
    assert len(lines) == len(warned)
    for line, (scheme, text) in zip(lines, warned, strict=True):
        assert re.search(rf"[ +]{scheme}://192\.0\.2\.1:1[^ ]*: .*{text}", line)
        assert "or listen on 127.0.0.1" in line


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("tcp://127.0.0.1:1", False),
        ("tcp://127.1.2.3:1", False),
        ("tcp://[::1]:1", False),
        ("tcp://localhost:1", False),
        ("unix:///run/app.sock", False),
        ("tcp://0.0.0.0:1", True),
        ("tcp://[::]:1", True),
        ("tcp://*:1", True),
        ("tcp://10.0.0.1:1", True),
        ("tcp://[fe80::1%eth0]:1", True),
        ("ws://app.example:1/path?token=s3cret", True),
    ],
)
def test_which_addresses_are_public(
    address: str, public: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that another host may reach; a secret in one is not shown."""
    warn_of_open([parse_uri(address)], "why")
    assert ("why" in caplog.text) is public
    assert "s3cret" not in caplog.text


def test_which_targets_ask_nobody() -> None:
    """A function decides about each connection itself; so may `Responder.accept`."""

    class Asks(Responder):
        async def accept(self, setup: Setup, requester: Requester) -> Responder:
            raise RejectedSetup("no")

    async def hook(*_: object) -> str:
        return "ada"

    asking = [Asks(), Router(authenticate=hook), Router(on_setup=hook), hook]
    assert not any(map(asks_nobody, asking))
    assert all(map(asks_nobody, [Responder(), Router(), {}, [object()]]))
