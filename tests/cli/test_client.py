"""The connection of a command: its options and its failures."""

import signal
import socket
import ssl
import subprocess
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
import trustme

from rsocket_trio.cli import client
from rsocket_trio.cli.exits import Failure
from rsocket_trio.uri import parse_uri

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]

APP = """\
import trio
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
            case b"never":
                print("asked", flush=True)
                try:
                    await trio.sleep_forever()
                finally:
                    print("cancelled", flush=True)
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
    """A directory with ca.pem, and cert.pem for 127.0.0.1."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
    return tmp_path


def test_setup_options(cli: Cli, serve: Callable[..., str]) -> None:
    """The options of SETUP reach the peer."""
    uri = serve("tcp://127.0.0.1:0")
    options = {
        "--setup-data": "hello",
        "--setup-metadata": "0xff",
        "--data-mime": "application/json",
        "--metadata-mime": "text/x.test",
        "--keepalive": "1.5",
        "--max-lifetime": "4",
    }
    words = [word for pair in options.items() for word in pair]
    done = cli("request", uri, "--raw", "setup", *words)
    expected = (b"hello", b"\xff", "application/json", "text/x.test", 1.5, 4.0)
    assert done.stdout == f"{expected}\n".encode()
    done = cli("request", "--raw", uri, "setup")
    composite = "message/x.rsocket.composite-metadata.v0"
    assert done.stdout == f"{(b'', None, 'application/cbor', composite, 20.0, 90.0)}\n".encode()


def test_a_header_of_the_handshake(cli: Cli, serve: Callable[..., str]) -> None:
    """--header adds to the WebSocket handshake."""
    uri = serve("ws://127.0.0.1:0/path")
    assert cli("request", "--raw", uri, "header", "--header", "X-Name: a b").stdout == b"'a b'\n"


@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_tls_options(cli: Cli, serve: Callable[..., str], certificate: Path, scheme: str) -> None:
    """--ca trusts a certificate, --insecure all of them; without both the connection fails."""
    uri = serve(f"{scheme}://127.0.0.1:0", "--cert", "cert.pem")
    for option in (("--ca", "ca.pem"), ("--insecure",)):
        assert cli("request", "--raw", uri, "header", *option).stdout == b"None\n"
    done = cli("request", "--raw", uri, "header")
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"certificate verify failed" in done.stderr
    assert done.stderr.count(b"--ca") == done.stderr.count(b"--insecure") == 1
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_a_certificate_of_another_name(
    cli: Cli, serve: Callable[..., str], tmp_path: Path, scheme: str
) -> None:
    """--tls-server-name is what is checked, in place of the address; the error tells of it once."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("db.internal")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
    uri = serve(f"{scheme}://127.0.0.1:0", "--cert", "cert.pem")
    command = ("request", "--raw", uri, "header", "--ca", "ca.pem")
    assert cli(*command, "--tls-server-name", "db.internal").stdout == b"None\n"
    for wrong in ((), ("--tls-server-name", "127.0.0.1"), ("--tls-server-name", "db")):
        done = cli(*command, *wrong)
        assert (done.returncode, done.stdout) == (3, b"")
        assert done.stderr.count(b"(--tls-server-name, if it is of another name; ") == 1
        assert done.stderr.count(b"\n") == 1


def test_tls_to_a_server_without_tls(cli: Cli, server: dict[str, str]) -> None:
    """The message says so, once."""
    done = cli("request", "--raw", server["tcp"].replace("tcp:", "tls:"), "ping")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.endswith(b"wrong version number: the other end does not use TLS\n")
    assert done.stderr.count(b"\n") == 1


def test_a_refused_setup(cli: Cli, serve: Callable[..., str]) -> None:
    """It is printed with code and text, status 3."""
    done = cli("request", "--raw", serve("tcp://127.0.0.1:0"), "--setup-data", "refuse")
    line = b"rsocket-trio: error: the peer refused the connection: REJECTED_SETUP: not you\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", line)


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
def test_connecting_where_no_server_listens(cli: Cli, tmp_path: Path, scheme: str) -> None:
    """One line is printed, with status 3."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    uri = f"unix://{tmp_path}/absent" if scheme == "unix" else f"{scheme}://{address}"
    done = cli("request", "--raw", uri, "ping")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: ")
    assert done.stderr.count(b"\n") == 1


def test_a_silent_peer(cli: Cli) -> None:
    """With --no-confirm-setup messages can be sent to a peer that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        received = b""

        def receive() -> None:
            nonlocal received
            with listener.accept()[0] as connection:
                while data := connection.recv(1000):
                    received += data

        receiving = threading.Thread(target=receive)
        receiving.start()
        uri = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        done = cli("fnf", "--raw", uri, "it rained", "--no-confirm-setup")
        receiving.join()
    assert (done.returncode, done.stderr) == (0, b"")
    assert received.endswith(b"it rained")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["request", "--route", "r" * 256], "255 bytes"),
        (["stream", "--prefetch", "65537"], "Limits.max_prefetch"),
    ],
)
def test_impossible_requests(
    cli: Cli, server: dict[str, str], arguments: list[str], message: str
) -> None:
    """A request that the protocol or a limit does not allow is wrong usage."""
    done = cli(*arguments, server["tcp"])
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_verbose_shows_tracebacks(cli: Cli, tmp_path: Path) -> None:
    """--verbose shows the traceback of an error, before its one line."""
    done = cli("request", "--raw", f"unix://{tmp_path}/absent", "--verbose")
    assert done.returncode == 3
    assert b"Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(b"rsocket-trio: error: ")


def test_a_peer_that_closes_at_once(cli: Cli) -> None:
    """It is an error with status 3."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        closing = threading.Thread(target=lambda: listener.accept()[0].close())
        closing.start()
        done = cli("request", "--raw", f"tcp://127.0.0.1:{listener.getsockname()[1]}", "ping")
        closing.join()
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: tcp://127.0.0.1:")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("header", ["A B: 1", "X: 1\r\nY: 2", "Sec-WebSocket-Key: 1"])
def test_impossible_headers(cli: Cli, server: dict[str, str], header: str) -> None:
    """A header that cannot be sent is wrong usage."""
    done = cli("request", "--raw", server["ws"], "ping", "--header", header)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: --header: ")
    assert done.stderr.count(b"\n") == 1


def test_control_c_cancels_a_request(start_cli: StartCli, tmp_path: Path) -> None:
    """Ctrl-C cancels a request at the peer and ends: no traceback, status 130."""
    (tmp_path / "app.py").write_text(APP)
    server = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--quiet")
    assert server.stdout is not None
    uri = server.stdout.readline().decode().removeprefix("listening on ").strip()
    process = start_cli("request", "--raw", uri, "never")
    assert server.stdout.readline() == b"asked\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == (b"", b"")
    assert process.returncode == 130
    assert server.stdout.readline() == b"cancelled\n"


def test_control_c_while_connecting(start_cli: StartCli) -> None:
    """Ctrl-C ends a command whose peer does not answer: no traceback, status 130."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        process = start_cli(
            "request", "--raw", f"tcp://127.0.0.1:{listener.getsockname()[1]}", "ping"
        )
        with listener.accept()[0] as connection:
            connection.recv(1)  # Its SETUP has arrived.
            process.send_signal(signal.SIGINT)
            assert process.communicate() == (b"", b"")
    assert process.returncode == 130


@pytest.mark.parametrize("options", [(), ("--no-confirm-setup",), ("--reconnect", "--quiet")])
def test_a_limit_of_time(cli: Cli, options: tuple[str, ...]) -> None:
    """--timeout bounds connecting and the request: one line, and a status of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:  # It never answers.
        uri = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        done = cli("request", "--raw", uri, "ping", "--timeout", "0.1", *options)
    line = f"rsocket-trio: error: {uri}: not done within 0.1 s (--timeout)\n"
    assert (done.returncode, done.stdout, done.stderr) == (124, b"", line.encode())


def test_a_limit_of_time_that_is_kept(cli: Cli, server: dict[str, str]) -> None:
    """It changes nothing."""
    done = cli("request", "--raw", server["tcp"], "ping", "--timeout", "1e9")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ping\n", b"")


def _until(lines: IO[bytes], text: bytes) -> None:
    while text not in (line := lines.readline()):
        assert line, "the command has ended"


def test_reconnect_waits_for_a_server(
    start_cli: StartCli, serve: Callable[..., str], tmp_path: Path
) -> None:
    """A command waits for a server that is not there yet, and says what happens to it."""
    uri = f"unix://{tmp_path}/socket"
    process = start_cli("request", "--raw", uri, "header", "--reconnect")
    assert process.stderr is not None
    _until(process.stderr, b"no session yet, after attempt 1: cannot connect to unix://")
    _until(process.stderr, b"no session yet, after attempt 2: as before\n")
    serve(uri)
    output, errors = process.communicate()
    assert (process.returncode, output) == (0, b"None\n")
    assert errors.endswith(f"INFO rsocket_trio.cli: {uri}: connected\n".encode())


def test_reconnect_tells_of_a_server_that_stops(start_cli: StartCli, tmp_path: Path) -> None:
    """The goodbye of the server is a line, while the request goes on."""
    (tmp_path / "app.py").write_text(APP)
    server = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--grace", "60")
    assert server.stdout is not None
    uri = server.stdout.readline().decode().removeprefix("listening on ").strip()
    process = start_cli("request", "--raw", uri, "never", "--reconnect")
    assert process.stderr is not None
    assert server.stdout.readline() == b"asked\n"
    server.terminate()
    _until(process.stderr, f"rsocket_trio.cli: {uri}: draining".encode())
    server.kill()
    _until(process.stderr, b"the connection")
    assert process.wait(30) == 3


def test_reconnect_ends_at_a_final_refusal(cli: Cli, start_cli: StartCli, tmp_path: Path) -> None:
    """Who may not connect is not made to try for ever."""
    (tmp_path / "closed.py").write_text(
        "from rsocket_trio import Forbidden, Router\n"
        "async def members(auth, facts):\n"
        "    raise Forbidden('members only')\n"
        "app = Router(authenticate=members)\n"
    )
    server = start_cli("serve", "closed.py", "--listen", "tcp://127.0.0.1:0", "--quiet")
    assert server.stdout is not None
    uri = server.stdout.readline().decode().removeprefix("listening on ").strip()
    done = cli("request", "--raw", uri, "--reconnect", "--timeout", "30")
    assert done.returncode == 3
    assert b"the peer refused the connection: FORBIDDEN: members only" in done.stderr


OPTIONS = {
    "headers": [],
    "ca": None,
    "cert": None,
    "key": None,
    "insecure": False,
    "tls_server_name": None,
    "keepalive": None,
    "max_lifetime": None,
    "no_confirm_setup": False,
}


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("tcp://h:1", {"headers": [("a", "b")]}, "--header works only with ws:// and wss://"),
        ("tcp://h:1", {"ca": "ca.pem"}, "--ca works only with tls:// and wss://"),
        ("ws://h:1", {"insecure": True}, "--insecure works only with tls:// and wss://"),
        ("tcp://h:1", {"tls_server_name": "a"}, "--tls-server-name works only with tls://"),
        ("tls://h:1", {"ca": "absent.pem"}, "cannot read 'absent.pem': No such file"),
        ("tls://h:1", {"cert": "absent.pem", "key": "k"}, "cannot read 'absent.pem'"),
        ("tls://h:1", {"key": "key.pem"}, "--key needs --cert"),
    ],
)
def test_wrong_options(uri: str, options: dict[str, object], message: str) -> None:
    """Options that contradict each other, or missing files, are wrong usage."""
    with pytest.raises(Failure, match=message) as caught:
        client._ssl_context(Namespace(**(OPTIONS | options)), parse_uri(uri))
    assert caught.value.status == 2


@pytest.mark.parametrize("option", ["keepalive", "max_lifetime"])
def test_a_wrong_interval(option: str) -> None:
    """An interval that does not fit the frame is wrong usage."""
    with pytest.raises(Failure, match=option) as caught:
        client._config(Namespace(**(OPTIONS | {option: 1e9})))
    assert caught.value.status == 2


def test_client_certificate(certificate: Path) -> None:
    """--cert is presented to the server, and --insecure trusts every certificate."""
    cert = str(certificate / "cert.pem")
    options = OPTIONS | {"cert": cert, "insecure": True}
    context = client._ssl_context(Namespace(**options), parse_uri("tls://h:1"))
    assert context is not None
    handshake = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="h")
    assert handshake.context.verify_mode == ssl.CERT_NONE


def test_without_tls_there_is_no_context() -> None:
    """Without TLS there is no context."""
    assert client._ssl_context(Namespace(**OPTIONS), parse_uri("tcp://h:1")) is None
