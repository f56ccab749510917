"""``ttrpc serve``: what can be served, and how the server ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., "subprocess.CompletedProcess[bytes]"]
StartCli = Callable[..., "subprocess.Popen[bytes]"]

APP = "tests.cli.ttrpc_app"
ECHO = "ttrpc.integration.streaming.Streaming/Echo"


def started(start_cli: StartCli, target: str, *options: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server on a free port, and its address."""
    process = start_cli("ttrpc", "serve", target, "--listen", "tcp://127.0.0.1:0", *options)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line.startswith("listening on ttrpc+tcp://127.0.0.1:"), process.communicate()
    return process, line.removeprefix("listening on ").strip()


def stopped(process: subprocess.Popen[bytes]) -> bytes:
    """Stop a server; return its log."""
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, output) == (0, b"")
    return errors


@pytest.mark.parametrize(
    ("name", "method", "answer"),
    [
        ("", ECHO, b"0802"),
        (":app", ECHO, b"0802"),
        (":router", "test.Routed/Upper", b"41"),
    ],
)
def test_what_is_served(
    cli: Cli, start_cli: StartCli, name: str, method: str, answer: bytes
) -> None:
    """A list of services; or a Router, whose routes are the methods."""
    process, uri = started(start_cli, f"{APP}{name}")
    request = "61" if "Routed" in method else "0801"
    done = cli("ttrpc", "call", uri, method, request, "--hex")
    assert (done.returncode, done.stdout, done.stderr) == (0, answer + b"\n", b"")
    assert b"stopping: running calls have 5 s to finish" in stopped(process)


def test_one_service(cli: Cli, start_cli: StartCli) -> None:
    """A service, or an object of a base class, is served alone."""
    process, uri = started(start_cli, f"{APP}:failing")
    assert b"code 77" in cli("ttrpc", "call", uri, "test.Failing/Number", "--hex").stderr
    assert b"UNIMPLEMENTED" in cli("ttrpc", "call", uri, ECHO, "--hex").stderr
    stopped(process)
    process, uri = started(start_cli, f"{APP}:base")
    assert b"UNIMPLEMENTED" in cli("ttrpc", "call", uri, "test.Base/X", "--hex").stderr
    stopped(process)


def test_a_stream_of_a_router(cli: Cli, start_cli: StartCli) -> None:
    """The kind of a method decides between the routes of a Router."""
    process, uri = started(start_cli, f"{APP}:router")
    call = ("ttrpc", "stream", uri, "test.Routed/Letters", "6162", "--hex")
    assert cli(*call, "--kind", "server_stream").stdout == b"61\n62\n"
    stopped(process)


def test_several_addresses(cli: Cli, start_cli: StartCli, tmp_path: Path) -> None:
    """Each address has a line."""
    path = tmp_path / "socket"
    process, uri = started(start_cli, APP, "--listen", f"unix://{path}")
    assert process.stdout is not None
    assert process.stdout.readline() == f"listening on ttrpc+unix://{path}\n".encode()
    for address in (uri, f"ttrpc+unix://{path}", str(path)):
        assert cli("ttrpc", "call", address, ECHO, "0801", "--hex").stdout == b"0802\n"
    stopped(process)


def test_running_calls_may_finish(start_cli: StartCli) -> None:
    """A signal refuses new calls; a call that runs has --grace seconds."""
    process, uri = started(start_cli, APP, "--grace", "20")
    call = start_cli(
        *("ttrpc", "stream", uri, "ttrpc.integration.streaming.Streaming/EchoStream"),
        *("--hex", "--kind", "bidi_stream"),
    )
    assert call.stdin is not None
    assert call.stdout is not None
    assert process.stderr is not None
    call.stdin.write(b"0801\n")
    call.stdin.flush()
    assert call.stdout.readline() == b"0802\n"
    process.send_signal(signal.SIGTERM)
    assert b"stopping" in process.stderr.readline()
    call.stdin.write(b"0802\n")
    call.stdin.flush()
    assert call.stdout.readline() == b"0803\n"
    call.stdin.close()
    assert call.wait(20) == 0
    assert process.wait(20) == 0


def test_a_second_signal(start_cli: StartCli) -> None:
    """It stops the server at once; the client has lost its connection."""
    process, uri = started(start_cli, APP, "--grace", "60")
    call = start_cli(
        *("ttrpc", "stream", uri, "ttrpc.integration.streaming.Streaming/EchoStream"),
        *("--hex", "--kind", "bidi_stream"),
    )
    assert call.stdin is not None
    assert call.stdout is not None
    assert process.stderr is not None
    call.stdin.write(b"0801\n")
    call.stdin.flush()
    assert call.stdout.readline() == b"0802\n"
    process.send_signal(signal.SIGTERM)
    assert b"stopping" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert call.wait(20) == 3
    assert call.stderr is not None
    errors = call.stderr.read()
    assert errors.startswith(b"rsocket-trio: error: ")
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (f"{APP}:number", "is neither a service, nor a list of services, nor a Router, but an"),
        (f"{APP}:mixed", "is a list with an object of type 'str', which is no service"),
        (f"{APP}:Base", "is a class; name an instance of that class"),
        (f"{APP}:absent", f"there is no 'absent' in '{APP}'"),
        ("absent", "there is no module named 'absent'"),
        ("twice.py", "there are two services with the name a.B"),
        ("gap.py", "'gap.py:app' cannot be served: nobody provides float"),
    ],
)
def test_wrong_targets(cli: Cli, tmp_path: Path, target: str, message: str) -> None:
    """What cannot be served is wrong usage, with one line."""
    (tmp_path / "twice.py").write_text(
        "from rsocket_trio.ttrpc import Service\napp = [Service('a.B'), Service('a.B')]\n"
    )
    (tmp_path / "gap.py").write_text(
        "from typing import Annotated\nfrom rsocket_trio import Provided, Router\n"
        "async def x(rate: Annotated[float, Provided]) -> float: return rate\n"
        "app = Router()\napp.request_response('a.B/X')(x)\n"
    )
    done = cli("ttrpc", "serve", target, "--listen", "tcp://127.0.0.1:0")
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_an_address_that_is_in_use(cli: Cli, tmp_path: Path, start_cli: StartCli) -> None:
    """It is status 3, as for other servers."""
    process, uri = started(start_cli, APP)
    done = cli("ttrpc", "serve", APP, "--listen", uri)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"Address already in use" in done.stderr
    stopped(process)


@pytest.mark.parametrize(
    ("who", "admitted"),
    [
        (["same-user"], True),
        ([f"uid:{os.getuid()}"], True),
        (["uid:12345", f"gid:{os.getgid()}"], True),
        (["uid:12345", "gid:12345", "cid:2"], False),
        ([], True),
    ],
)
def test_who_may_connect(
    cli: Cli, start_cli: StartCli, tmp_path: Path, who: list[str], admitted: bool
) -> None:
    """Others are disconnected before their first call."""
    options = [option for each in who for option in ("--allow", each)]
    uri = f"unix://{tmp_path}/socket"
    process = start_cli("ttrpc", "serve", APP, "--listen", uri, *options)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"listening on ")
    done = cli("ttrpc", "call", uri, ECHO, "0801", "--hex")
    assert (done.stdout == b"0802\n") is admitted
    assert (done.returncode == 0) is admitted
    assert (b"may not connect" in stopped(process)) is not admitted


@pytest.mark.parametrize("who", ["uid", "uid:", "uid:me", "uid:-1", f"gid:{2**32 - 1}", "me", ""])
def test_who_is_nobody(cli: Cli, who: str) -> None:
    """It is wrong usage."""
    done = cli("ttrpc", "serve", APP, "--listen", "unix:///nowhere/s", "--allow", who)
    assert done.returncode == 2
    assert b"argument --allow" in done.stderr


def test_users_are_not_known_at_tcp(cli: Cli) -> None:
    """A server that lets nobody in does not start; `serve` and `ttrpc serve` say the same."""
    for command in (("serve", "rsocket_trio.testing.peer:app"), ("ttrpc", "serve", APP)):
        done = cli(*command, "--listen", "tcp://127.0.0.1:0", "--allow", "same-user")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"--allow does not work with TCP: nobody could connect" in done.stderr
