"""Entries of metadata, authentication and traces on the command line."""

import json
import re
import subprocess
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from rsocket_trio.cli.exits import Failure
from rsocket_trio.cli.metadata import read_secret, request_metadata, setup_metadata
from rsocket_trio.metadata import (
    BearerAuthentication,
    Metadata,
    MetadataEntry,
    Sampling,
    SimpleAuthentication,
)

Cli = Callable[..., subprocess.CompletedProcess[bytes]]

GUARDED = """
from typing import Annotated
from rsocket_trio import Principal, Rejected, Router, Setup, SimpleAuthentication

async def authenticate(auth, facts):
    if auth is None and facts.principal is None:
        raise Rejected("authentication is needed")
    if auth is None:
        return facts.principal
    return auth.username if isinstance(auth, SimpleAuthentication) else auth.token

app = Router(authenticate=authenticate)

@app.request_response("me")
async def me(name: Annotated[str, Principal]) -> str:
    return name
"""


def metadata_of(cli: Cli, uri: str, *arguments: str) -> tuple[Metadata, str]:
    done = cli("request", "--raw", uri, "ping", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return Metadata.decode(bytes.fromhex(json.loads(done.stdout)["metadata_hex"])), str(done.stderr)


def test_entries_of_metadata(cli: Cli, server: dict[str, str], tmp_path: Path) -> None:
    """MIME=VALUE is an entry, and may be repeated; other metadata go behind, unchanged."""
    (tmp_path / "note").write_text("a=b")
    metadata, _ = metadata_of(
        cli, server["tcp"], "--route", "r", "--metadata", "text/x-note=@note",
        "--metadata", "application/json=0x7b7d", "--metadata", "0xe3000000",
    )  # fmt: skip
    assert metadata == Metadata(
        route="r", extra=[("text/x-note", b"a=b"), ("application/json", b"{}"), (99, b"")]
    )
    assert isinstance(metadata.extra[0], MetadataEntry)


def test_tags_go_behind_the_route(cli: Cli, server: dict[str, str]) -> None:
    """--tag may be repeated; tags are in the entry of the route, also beside other entries."""
    words = ("--tag", "eu", "--tag", "v=2", "--route", "r")
    metadata, _ = metadata_of(cli, server["tcp"], *words)
    assert metadata == Metadata(route="r", tags=("eu", "v=2"))
    metadata, _ = metadata_of(cli, server["tcp"], *words, "--metadata", "text/plain=x")
    assert metadata == Metadata(route="r", tags=("eu", "v=2"), extra=[("text/plain", b"x")])
    done = cli("stream", server["tcp"], *words[:3], "t" * 256, *words[4:])
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


def test_an_option_begins_a_trace(cli: Cli, server: dict[str, str]) -> None:
    """--trace begins a trace and prints its id."""
    metadata, said = metadata_of(cli, server["tcp"], "--trace")
    assert metadata.trace is not None
    assert metadata.trace.sampling is Sampling.SAMPLE
    assert re.search(r"trace ([0-9a-f]{32})", said)[1] == metadata.trace.trace_id.hex()


def test_metadata_of_a_channel(cli: Cli, server: dict[str, str]) -> None:
    """Its request has the entries too."""
    done = cli(
        "channel", "--raw", server["tcp"], "one", "two", "--metadata", "text/plain=x", "--json"
    )
    first, second = [json.loads(line)["metadata_hex"] for line in done.stdout.splitlines()]
    assert Metadata.decode(bytes.fromhex(first)) == Metadata(extra=[("text/plain", b"x")])
    assert second is None
    done = cli("stream", "--raw", server["tcp"], "2", "--metadata", "text/plain=x", "--trace")
    assert (done.returncode, done.stdout) == (0, b"0\n1\n")


def test_authentication(cli: Cli, start_cli: Callable, tmp_path: Path) -> None:
    """SETUP has the credentials; a refusal is status 3."""
    (tmp_path / "app.py").write_text(GUARDED)
    (tmp_path / "token").write_text("from a file\n")
    process = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "-q")
    uri = process.stdout.readline().decode().removeprefix("listening on ").strip()
    for arguments, name in [
        (("--auth-simple", "ada:secret:with colon"), b'"ada"\n'),
        (("--auth-bearer", "token"), b'"token"\n'),
        (("--auth-bearer", "@token"), b'"from a file"\n'),
    ]:
        assert cli("request", uri, "--route", "me", *arguments).stdout == name
    done = cli("request", "--raw", uri, "--route", "me")
    assert done.returncode == 3
    assert b"REJECTED_SETUP: authentication is needed" in done.stderr


def options(**given: object) -> Namespace:
    return Namespace(
        **{
            "metadata": [],
            "tags": [],
            "route": None,
            "trace": False,
            "auth_simple": None,
            "auth_bearer": None,
        }
        | given
    )


def test_without_options_there_are_no_metadata() -> None:
    """Absent metadata are not empty metadata."""
    assert request_metadata(options()) == (None, None)
    assert setup_metadata(options()) is None


def test_secrets_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets need not be on the command line."""
    monkeypatch.setenv("SECRET", "ada:secret")
    auth = SimpleAuthentication("ada", "secret")
    assert setup_metadata(options(auth_simple="env:SECRET")) == Metadata(auth=auth)
    monkeypatch.setenv("SECRET", "token")
    auth = BearerAuthentication("token")
    assert setup_metadata(options(auth_bearer="env:SECRET")) == Metadata(auth=auth)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"metadata": ["0x00", "0x01"]}, "may be repeated"),
        ({"metadata": ["a/b=0xzz"]}, "'0xzz' is not hexadecimal"),
        ({"tags": ["eu"]}, "--tag needs --route"),
    ],
)
def test_wrong_entries(given: dict[str, object], text: str) -> None:
    """An entry that cannot be metadata is wrong usage."""
    with pytest.raises(Failure, match=text):
        request_metadata(options(**given))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"auth_simple": "hunter2"}, "no ':'"),
        ({"auth_bearer": "env:NO_SUCH_VARIABLE"}, "no environment variable"),
    ],
)
def test_errors_show_no_secret(given: dict[str, object], text: str) -> None:
    """The message shows no part of the secret."""
    with pytest.raises(Failure, match=text) as caught:
        setup_metadata(options(**given))
    assert "hunter2" not in str(caught.value)


def test_a_secret_that_is_not_text(tmp_path: Path) -> None:
    """Secrets are UTF-8 on the wire."""
    (tmp_path / "key").write_bytes(b"\xff")
    with pytest.raises(Failure, match="not UTF-8"):
        read_secret(f"@{tmp_path}/key", "--auth-bearer")
