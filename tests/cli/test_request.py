"""``request``, ``fnf`` and ``push`` against a server with known answers."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
def test_request(cli: Cli, server: dict[str, str], scheme: str) -> None:
    """A response is printed, over every transport."""
    done = cli("request", server[scheme], "zwölf")
    assert (done.returncode, done.stdout, done.stderr) == (0, "zwölf\n".encode(), b"")


def test_no_data(cli: Cli, server: dict[str, str]) -> None:
    """Without DATA the request is empty."""
    assert cli("request", server["tcp"]).stdout == b"\n"


def test_stdin(cli: Cli, server: dict[str, str]) -> None:
    """With - the request is all of standard input; what is not UTF-8 is printed as it is."""
    assert cli("request", server["tcp"], "-", stdin=b"a\n\xff").stdout == b"a\n\xff\n"


def test_file(cli: Cli, server: dict[str, str], tmp_path: Path) -> None:
    """A payload larger than any frame goes there and back."""
    (tmp_path / "data").write_bytes(b"x" * 17_000_000)
    done = cli("request", server["tcp"], "@data")
    assert done.stdout == b"x" * 17_000_000 + b"\n"


def test_json(cli: Cli, server: dict[str, str]) -> None:
    """--json shows data and metadata."""
    done = cli("request", server["tcp"], "ping", "--metadata", "0x00ff", "--json")
    assert json.loads(done.stdout) == {"data": "ping", "metadata_hex": "00ff"}


def test_json_of_bytes(cli: Cli, server: dict[str, str]) -> None:
    """What is no text is hexadecimal; absent metadata is null."""
    done = cli("request", server["tcp"], "-", "--json", stdin=b"\xff")
    assert json.loads(done.stdout) == {"data_hex": "ff", "metadata_hex": None}


def test_route(cli: Cli, server: dict[str, str]) -> None:
    """--route is routing metadata in composite metadata."""
    done = cli("request", server["tcp"], "ping", "--route", "greet", "--json")
    assert json.loads(done.stdout)["metadata_hex"] == "fe000006056772656574"


def test_completed_without_a_value(cli: Cli, server: dict[str, str]) -> None:
    """A response without a value prints nothing."""
    done = cli("request", server["tcp"], "empty", "--json")
    assert (done.returncode, done.stdout) == (0, b"")


def test_error(cli: Cli, server: dict[str, str]) -> None:
    """An error of the peer is one line with code and text, and status 1."""
    done = cli("request", server["tcp"], "error:out of beans")
    line = b"rsocket-trio: error: the peer answered APPLICATION_ERROR: out of beans\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", line)


def test_fire_and_forget(cli: Cli, server: dict[str, str]) -> None:
    """fnf sends its message before it ends, and prints nothing."""
    done = cli("fnf", server["tcp"], "it rained", "--route", "log")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert cli("request", server["tcp"], "last-fnf").stdout == b"it rained\n"


@pytest.mark.parametrize(("data", "sent"), [("0x666f6f", "foo"), ("reload", "reload"), ("", "")])
def test_push(cli: Cli, server: dict[str, str], data: str, sent: str) -> None:
    """push sends its metadata before it ends, and prints nothing."""
    done = cli("push", server["tcp"], data)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert cli("request", server["tcp"], "last-push").stdout == f"{sent}\n".encode()


def test_push_metadata(cli: Cli, server: dict[str, str]) -> None:
    """--metadata is another way to give the metadata; not both ways at a time."""
    assert cli("push", server["tcp"], "--metadata", "other").returncode == 0
    assert cli("request", server["tcp"], "last-push").stdout == b"other\n"
    done = cli("push", server["tcp"], "data", "--metadata", "other")
    assert done.returncode == 2
    assert b"give only one" in done.stderr


def test_missing_file(cli: Cli, server: dict[str, str]) -> None:
    """A file that is not there is told of before anything is sent."""
    done = cli("request", server["tcp"], "@missing")
    line = b"rsocket-trio: error: cannot read 'missing': No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", line)


def test_full_disk(
    start_cli: Callable[..., subprocess.Popen[bytes]], server: dict[str, str]
) -> None:
    """An output that cannot be written has a status of its own."""
    with Path("/dev/full").open("wb") as full:
        process = start_cli("request", server["tcp"], "ping", stdout=full)
        _, errors = process.communicate()
    line = b"rsocket-trio: error: cannot write to standard output: No space left on device\n"
    assert (process.returncode, errors) == (4, line)


def test_the_draft_of_2015(cli: Cli, server: dict[str, str]) -> None:
    """--protocol reactivesocket: the same answers from the same address."""
    for uri in server.values():
        done = cli("request", uri, "hello", "--protocol", "reactivesocket")
        assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"", 0)
