"""The connection of a command: its options, and how it fails."""

import signal
import socket
import subprocess
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]

APP = """\
from rsocket_trio import Payload, RejectedSetup, Responder

class Echo(Responder):
    def __init__(self, setup):
        self.setup = setup

    async def request_response(self, payload):
        setup = self.setup
        match payload.data:
            case b"setup":
                answer = (setup.data, setup.metadata, setup.data_mime_type,
                          setup.metadata_mime_type, setup.keepalive_interval, setup.max_lifetime)
            case b"header":
                answer = setup.transport.header("x-name")
        return Payload(repr(answer).encode())

async def app(setup, requester):
    if setup.data == b"refuse":
        raise RejectedSetup("not you")
    return Echo(setup)
"""


@pytest.fixture
def serve(start_cli: StartCli, tmp_path: Path) -> Callable[..., str]:
    """Serves the app above on one address; returns the address."""
    (tmp_path / "app.py").write_text(APP)

    def start(uri: str, *arguments: str) -> str:
        process = start_cli("serve", "app.py", "--listen", uri, "--quiet", *arguments)
        assert process.stdout is not None
        line: str = process.stdout.readline().decode()
        return line.removeprefix("listening on ").rstrip("\n")

    return start


@pytest.fixture
def certificate(tmp_path: Path) -> Iterator[Path]:
    """A directory with ca.pem, and cert.pem for localhost."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
    return tmp_path


def test_setup(cli: Cli, serve: Callable[..., str]) -> None:
    """The options of SETUP reach the peer."""
    uri = serve("tcp://127.0.0.1:0")
    options = {
        "--setup-data": "hello",
        "--setup-metadata": "0xff",
        "--data-mime": "application/json",
        "--metadata-mime": "text/x.test",
        "--keepalive": "1.5",
        "--lifetime": "4",
    }
    done = cli("request", uri, "setup", *(word for pair in options.items() for word in pair))
    expected = (b"hello", b"\xff", "application/json", "text/x.test", 1.5, 4.0)
    assert done.stdout == f"{expected}\n".encode()
    done = cli("request", uri, "setup")
    composite = "message/x.rsocket.composite-metadata.v0"
    assert done.stdout == f"{(b'', None, 'text/plain', composite, 20.0, 90.0)}\n".encode()


def test_header(cli: Cli, serve: Callable[..., str]) -> None:
    """--header is part of the WebSocket handshake."""
    uri = serve("ws://127.0.0.1:0/path")
    assert cli("request", uri, "header", "--header", "X-Name: a b").stdout == b"'a b'\n"


@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_tls(cli: Cli, serve: Callable[..., str], certificate: Path, scheme: str) -> None:
    """--ca trusts a certificate, --insecure any, and neither does not."""
    uri = serve(f"{scheme}://localhost:0", "--tls-cert", "cert.pem")
    for option in (("--ca", "ca.pem"), ("--insecure",)):
        assert cli("request", uri, "header", *option).stdout == b"None\n"
    done = cli("request", uri, "header")
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"certificate verify failed" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_refused_setup(cli: Cli, serve: Callable[..., str]) -> None:
    """A refused SETUP is told with code and text, status 3."""
    done = cli("request", serve("tcp://127.0.0.1:0"), "--setup-data", "refuse")
    line = b"rsocket-trio: error: the peer refused the connection: REJECTED_SETUP: not you\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", line)


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
def test_nobody_there(cli: Cli, tmp_path: Path, scheme: str) -> None:
    """Where nobody listens there is one line, and status 3."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    uri = f"unix://{tmp_path}/absent" if scheme == "unix" else f"{scheme}://{address}"
    done = cli("request", uri, "ping")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: ")
    assert done.stderr.count(b"\n") == 1


def test_verbose(cli: Cli, tmp_path: Path) -> None:
    """--verbose shows where an error comes from, before its one line."""
    done = cli("request", f"unix://{tmp_path}/absent", "--verbose")
    assert done.returncode == 3
    assert b"Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(b"rsocket-trio: error: ")


def test_not_rsocket(cli: Cli) -> None:
    """A peer that closes at once is a lost connection, status 3."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with subprocess.Popen(
            ["/bin/sh", "-c", "true"]  # only so that both run at a time
        ):
            listener.settimeout(20)
            import threading

            def close_at_once() -> None:
                listener.accept()[0].close()

            thread = threading.Thread(target=close_at_once)
            thread.start()
            done = cli("request", uri, "ping")
            thread.join()
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.count(b"\n") == 1


def test_control_c(start_cli: StartCli, server: dict[str, str]) -> None:
    """Ctrl-C ends a request that is not answered: no traceback, status 130."""
    process = start_cli("request", server["tcp"], "never", "--verbose")
    assert process.stderr is not None
    _wait_until_connected(process)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert b"Traceback" not in process.stderr.read()


def _arguments(**given: object) -> Namespace:
    names = ("ca", "cert", "key", "keepalive", "lifetime")
    return Namespace(**dict.fromkeys(names), **({"insecure": False, "headers": []} | given))
