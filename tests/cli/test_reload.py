"""SIGHUP: long-running commands read their certificates again; a closed terminal stops them."""

import os
import pty
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

from rsocket_trio.cli.hangup import reload_at_hangup
from rsocket_trio.lumberjack import AckReader, encode_batch
from tests.cli.senders import PATIENCE

StartCli = Callable[..., subprocess.Popen[bytes]]
Cli = Callable[..., subprocess.CompletedProcess[bytes]]

CA = trustme.CA()
APP = "rsocket_trio.testing.peer:app"
TLS = ("--cert", "cert.pem", "--key", "key.pem")


@pytest.fixture(autouse=True)
def hears_sighup() -> Iterator[None]:
    """These tests also run below nohup, from which programs inherit that SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def listens(process: subprocess.Popen[bytes], count: int = 1) -> list[int]:
    """The ports of a command, when it listens."""
    assert process.stdout is not None
    lines = [process.stdout.readline().decode() for _ in range(count)]
    assert all(line.startswith("listening on ") for line in lines), lines
    return [int(line.split("/")[2].rpartition(":")[2]) for line in lines]


def until_logged(process: subprocess.Popen[bytes], text: str) -> str:
    assert process.stderr is not None
    while text not in (line := process.stderr.readline().decode()):
        assert line, f"the process has ended without the message {text!r}"
    return line


def write(directory: Path, issued: trustme.LeafCert) -> bytes:
    """Write a certificate and its key; return the certificate as peers see it."""
    issued.cert_chain_pems[0].write_to_path(str(directory / "cert.pem"))
    issued.private_key_pem.write_to_path(str(directory / "key.pem"))
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


def connected(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    CA.configure_trust(context)
    raw = socket.create_connection(("127.0.0.1", port), PATIENCE)
    return context.wrap_socket(raw, server_hostname="localhost")


def shown(port: int) -> bytes | None:
    """The certificate that a new connection gets."""
    with connected(port) as sock:
        return sock.getpeercert(binary_form=True)


@pytest.mark.parametrize(
    ("command", "schemes"),
    [
        (("serve", APP), ("tls", "wss")),
        (("serve", "rsocket_trio.testing.rsio_peer:app"), ("rsios", "rsio+wss")),
        (("collect", "--spool", "events"), ("tls", "lumberjacks")),
        (("lumberjack", "serve"), ("lumberjacks",)),
    ],
    ids=lambda value: value[0] if len(value) == 1 else value[1],
)
def test_new_connections_get_the_new_certificate(
    start_cli: StartCli, tmp_path: Path, command: tuple[str, ...], schemes: tuple[str, ...]
) -> None:
    """On every wire. A bad file leaves the old one in use, and the log says which is bad."""
    first = write(tmp_path, CA.issue_cert("localhost"))
    listen = [part for each in schemes for part in ("--listen", f"{each}://127.0.0.1:0")]
    process = start_cli(*command, *listen, *TLS)
    ports = listens(process, len(schemes))
    assert [shown(port) for port in ports] == [first] * len(ports)
    # One of another kind: files that are loaded into the old context would have two kinds.
    second = write(tmp_path, CA.issue_cert("localhost", key_type=trustme.KeyType.RSA))
    process.send_signal(signal.SIGHUP)
    until_logged(process, "new connections get what is now in the files")
    assert [shown(port) for port in ports] == [second] * len(ports)
    other = CA.issue_cert("localhost")
    other.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    process.send_signal(signal.SIGHUP)
    line = until_logged(process, "what was read before stays in use")
    assert "the key in 'key.pem' belongs to another certificate" in line
    assert [shown(port) for port in ports] == [second] * len(ports)
    (tmp_path / "cert.pem").unlink()
    process.send_signal(signal.SIGHUP)
    assert "cannot read 'cert.pem'" in until_logged(process, "what was read before stays in use")
    third = write(tmp_path, CA.issue_cert("localhost"))
    process.send_signal(signal.SIGHUP)
    until_logged(process, "new connections get")
    assert [shown(port) for port in ports] == [third] * len(ports)
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_connections_go_on(start_cli: StartCli, tmp_path: Path) -> None:
    """A sender is served on, and one whose authority is in the file no more is not let in."""
    write(tmp_path, CA.issue_cert("localhost"))
    mine, other = trustme.CA(), trustme.CA()
    mine.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    listen = ("--listen", "lumberjacks://127.0.0.1:0", *TLS, "--ca", "ca.pem")
    process = start_cli("lumberjack", "serve", *listen)
    [port] = listens(process)
    context = ssl.create_default_context()
    CA.configure_trust(context)
    mine.issue_cert("sender").configure_cert(context)

    def acknowledged(sock: socket.socket) -> bool:
        sock.sendall(encode_batch([b"{}"]))
        data = sock.recv(100)
        return bool(data) and AckReader(2).feed(data) == [1]

    def connect() -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", port), PATIENCE)
        return context.wrap_socket(raw, server_hostname="localhost")

    with connect() as before:
        assert acknowledged(before)
        other.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        process.send_signal(signal.SIGHUP)
        until_logged(process, "new connections get")
        with pytest.raises(OSError), connect() as after:
            assert not acknowledged(after)
            raise ConnectionResetError("closed")
        assert acknowledged(before)


def test_a_shipper(start_cli: StartCli, tmp_path: Path) -> None:
    """It is not killed, and presents its new certificate when it connects again."""
    CA.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "app.log").write_text("a line\n")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    CA.configure_trust(context)
    CA.issue_cert("localhost").configure_cert(context)

    def presented() -> bytes | None:
        """What the next connection presents; it is closed then, so there is another one."""
        raw, _ = listener.accept()
        raw.settimeout(PATIENCE)
        with context.wrap_socket(raw, server_side=True) as sock:
            return sock.getpeercert(binary_form=True)

    first = write(tmp_path, CA.issue_cert("first"))
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        listener.settimeout(PATIENCE)
        target = f"lumberjacks://localhost:{listener.getsockname()[1]}"
        options = ("--follow", "--registry", "ship.json", "--ca", "ca.pem", *TLS, "--grace", "0")
        process = start_cli("lumberjack", "ship", "app.log", "--to", target, *options)
        assert presented() == first
        second = write(tmp_path, CA.issue_cert("second"))
        process.send_signal(signal.SIGHUP)
        until_logged(process, "new connections get what is now in the files")
        # One handshake may have begun before the signal.
        assert second in {presented(), presented()}
        process.terminate()
        assert process.wait(PATIENCE) == 143


def test_without_tls(start_cli: StartCli) -> None:
    """There is nothing to read, and the server goes on: its unit may have an ExecReload=."""
    process = start_cli(
        "ttrpc", "serve", "rsocket_trio.testing.ttrpc_peer:app", "--listen", "tcp://127.0.0.1:0"
    )
    [port] = listens(process)
    process.send_signal(signal.SIGHUP)
    until_logged(process, "there is no file to read again")
    socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    process.terminate()
    assert process.wait(PATIENCE) == 0


async def test_a_signal_that_is_not_handled_any_more() -> None:
    """It came during a reload, at whose end the command stops: it does not kill the process."""
    reached: list[int] = []
    began, goes_on = threading.Event(), threading.Event()

    class Slow:
        def reload(self) -> None:
            began.set()
            goes_on.wait()

    before = signal.signal(signal.SIGHUP, lambda number, _: reached.append(number))
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(reload_at_hangup, [Slow()], lambda _: None)
            signal.raise_signal(signal.SIGHUP)
            await trio.to_thread.run_sync(began.wait)
            signal.raise_signal(signal.SIGHUP)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            signal.raise_signal(signal.SIGHUP)
        await trio.testing.wait_all_tasks_blocked()
        assert reached == []
        signal.raise_signal(signal.SIGHUP)
        assert reached == [signal.SIGHUP]
    finally:
        goes_on.set()
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_is_ignored(start_cli: StartCli, tmp_path: Path) -> None:
    """As nohup has it: it stays ignored."""
    write(tmp_path, CA.issue_cert("localhost"))
    process = start_cli(
        "serve",
        APP,
        "--listen",
        "tls://127.0.0.1:0",
        *TLS,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    listens(process)
    process.send_signal(signal.SIGHUP)
    process.terminate()
    assert b"SIGHUP" not in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0


def test_a_terminal_that_is_closed(start_cli: StartCli, tmp_path: Path) -> None:
    """It stops the server: else one without an owner would be left, with its port."""
    write(tmp_path, CA.issue_cert("localhost"))
    ours, theirs = pty.openpty()
    try:
        process = start_cli(
            "serve",
            APP,
            "--listen",
            "tls://127.0.0.1:0",
            *TLS,
            stdin=theirs,
            stderr=theirs,
            # The first terminal that the leader of a new session opens is its own.
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
        )
        os.close(theirs)
        listens(process)
        process.send_signal(signal.SIGHUP)  # of somebody: the terminal is still there
        said = b""
        while b"new connections get" not in said:
            said += os.read(ours, 4096)
    finally:
        os.close(ours)
    assert process.wait(PATIENCE) == 0


def test_tokens_are_read_again(start_cli: StartCli, program: Cli, tmp_path: Path) -> None:
    """A collector refuses the old token then; a file without a token leaves it in use."""
    token = tmp_path / "token"
    token.write_text("first")
    listen = ("--listen", "tcp://127.0.0.1:0", "--auth-bearer", "read=@token")
    process = start_cli("collect", "--spool", "events", *listen)
    [port] = listens(process)

    def admits(given: str) -> bool:
        status = ("collect", "--status", f"tcp://127.0.0.1:{port}", "--auth-bearer", given)
        return program(*status).returncode == 0

    assert admits("first")
    token.write_text("second")
    process.send_signal(signal.SIGHUP)
    until_logged(process, "new connections get")
    assert (admits("first"), admits("second")) == (False, True)
    token.write_text("")
    process.send_signal(signal.SIGHUP)
    assert "the token is empty" in until_logged(process, "what was read before stays in use")
    assert admits("second")
