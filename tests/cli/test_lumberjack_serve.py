"""``lumberjack serve`` that prints: what is printed, when it is acknowledged, and how it ends."""

import json
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from rsocket_trio.lumberjack import encode_pairs
from tests.cli.senders import Receiving

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]
Receive = Callable[..., Receiving]

ANY = ("--listen", "lumberjack://127.0.0.1:0")
MANY = [b'{"n":%d,"text":"%s"}' % (n, b"x" * 1000) for n in range(1000)]
"""Events of more bytes than a pipe holds."""


@pytest.fixture
def receive(start_cli: StartCli) -> Receive:
    """Starts a receiver on a free port, or where the first option says."""
    return lambda *options: Receiving(
        start_cli("lumberjack", "serve", *(() if "--listen" in options else ANY), *options)
    )


def test_events_are_printed_and_acknowledged(receive: Receive) -> None:
    """Each event is a line, in order and unchanged; both versions, compressed or not."""
    receiving = receive()
    texts = [b'{"b":1.10,"a":12345678901234567890123}', b'{"a":1e400,"a":"\xc3\xa4"}', b"[1]"]
    with receiving.sender() as sender:
        sender.send(*texts)
        assert sender.acks(3) == [3]
        assert [receiving.output.readline() for _ in texts] == [text + b"\n" for text in texts]
        sender.send(b'{\n "n":\t1\r\n}', level=0)
        assert sender.acks(1) == [1]
        assert receiving.output.readline() == b'{  "n": 1  }\n'
    with receiving.sender(version=1) as sender:
        sender.send(*(encode_pairs([(b"line", b"one \xc3\xa4"), (b"n", b"1")]) for _ in range(2)))
        assert sender.acks(2) == [2]
        assert receiving.events(2) == [{"line": "one ä", "n": "1"}] * 2
    output, errors = receiving.stop(signal.SIGTERM)
    assert (output, receiving.process.returncode) == (b"", 0)
    assert "connections: 2, events: 6, acknowledged: 6" in errors


def test_every_address_is_printed(start_cli: StartCli) -> None:
    """Each address has a line, with its real port."""
    process = start_cli("lumberjack", "serve", *ANY, *ANY)
    first, second = Receiving(process), Receiving(process)
    assert first.port != second.port
    for each in (first, second):
        with each.sender() as sender:
            sender.send(b"{}")
            assert sender.acks(1) == [1]


def test_an_event_cannot_control_the_terminal(receive: Receive) -> None:
    """Characters that a terminal obeys are escaped; the value stays the same."""
    receiving = receive()
    text = '{"text":"\x9b31m\u202e\u2028"}'
    with receiving.sender() as sender:
        sender.send(text.encode())
        sender.acks(1)
    line = receiving.output.readline()
    assert line == b'{"text":"\\u009b31m\\u202e\\u2028"}\n'
    assert json.loads(line) == json.loads(text)


def test_invalid_events(receive: Receive) -> None:
    """They are printed on standard error with all their bytes, and acknowledged."""
    receiving = receive()
    with receiving.sender() as sender:
        sender.send(b'{"n":1}', b'{"n":\x1b[31m', b"\xff{}", b'{"n":2}')
        assert sender.acks(4) == [4]
        host, port = sender.socket.getsockname()
    assert receiving.events(2) == [{"n": 1}, {"n": 2}]
    lines = [receiving.errors.readline().decode() for _ in range(2)]
    begin = f"rsocket-trio: an event from {host}:{port} is not"
    assert lines[0] == f'{begin} JSON at character 5: {{"n":\\x1b[31m\n'
    assert lines[1] == f"{begin} UTF-8 at byte 0: \\xff{{}}\n"


def test_messages_as_json(receive: Receive) -> None:
    """With --json each line of standard error is an object; standard output is the same."""
    receiving = receive("--json")
    with receiving.sender() as sender:
        sender.send(b'{"n":1}', b'{"n":', b"\xff\x00")
        assert sender.acks(3) == [3]
    output, errors = receiving.stop(signal.SIGINT)
    assert (output, receiving.process.returncode) == (b'{"n":1}\n', 0)
    invalid, no_text, *messages = [json.loads(line) for line in errors.splitlines()]
    assert (invalid["invalid_event"], invalid["reason"]) == ('{"n":', "is not JSON at character 5")
    assert no_text["invalid_event_hex"] == "ff00"
    assert {each["level"] for each in messages} == {"info"}
    assert "stopping" in messages[0]["message"]


@pytest.mark.parametrize("verbose", [False, True])
def test_close_at_an_invalid_event(receive: Receive, verbose: bool) -> None:
    """--invalid close acknowledges the events before it, and closes the connection."""
    receiving = receive("--invalid", "close", *(["--verbose"] if verbose else []))
    with receiving.sender() as sender:
        sender.send(b'{"n":1}', b'{"n":2}', b"secret", b'{"n":3}')
        assert sender.acks(4) == [2]
    with receiving.sender() as sender:
        sender.send(b'{"n":4}')
        assert sender.acks(1) == [1]
    assert receiving.events(3) == [{"n": 1}, {"n": 2}, {"n": 4}]
    _, errors = receiving.stop(signal.SIGTERM)
    assert ("Traceback" in errors) is verbose
    assert "is not JSON at character 0" in errors
    assert "secret" not in errors


@pytest.mark.parametrize(("take", "acknowledged"), [(1, [1]), (2, [2]), (3, [3]), (4, [3, 1])])
def test_take(receive: Receive, take: int, acknowledged: list[int]) -> None:
    """--take ends the command after so many events, which are acknowledged, and no others."""
    receiving = receive("--take", f"{take}")
    with receiving.sender() as sender:
        sender.send(*(b'{"n":%d}' % n for n in range(3)))
        sender.send(b'{"n":3}', b'{"n":4}')
        assert sender.acks(9) == acknowledged
    output, _ = receiving.end()
    assert [json.loads(line)["n"] for line in output.splitlines()] == list(range(take))
    assert receiving.process.returncode == 0


def test_a_slow_reader_holds_its_senders(receive: Receive) -> None:
    """There is no ACK before the last event is printed; a signal meanwhile loses nothing."""
    receiving = receive("--grace", "60")
    with receiving.sender() as sender:
        sender.send(*MANY)
        sender.no_ack_for(0.5)
        receiving.process.send_signal(signal.SIGTERM)
        receiving.until_logged("stopping")
        sender.no_ack_for(0.2)
        assert receiving.events(len(MANY)) == [json.loads(event) for event in MANY]
        assert sender.acks(len(MANY)) == [len(MANY)]
    assert receiving.end()[0] == b""
    assert receiving.process.returncode == 0


@pytest.mark.parametrize(
    ("options", "second", "status"), [((), signal.SIGTERM, 143), (("--grace", "0.2"), None, 0)]
)
def test_a_reader_that_stands_still(
    receive: Receive, options: list[str], second: int | None, status: int
) -> None:
    """The end of the grace, or a second signal, ends the command; nothing is acknowledged."""
    receiving = receive(*options)
    with receiving.sender() as sender:
        sender.send(*MANY)
        sender.no_ack_for(0.2)
        receiving.process.send_signal(signal.SIGTERM)
        receiving.until_logged("stopping")
        if second is not None:
            receiving.process.send_signal(second)
        assert sender.acks(len(MANY)) == []
    assert receiving.process.wait(20) == status
    assert "Traceback" not in receiving.errors.read().decode()


def test_a_reader_that_has_gone(receive: Receive) -> None:
    """The command ends with status 141, without a traceback, and acknowledges nothing more."""
    receiving = receive()
    with receiving.sender() as sender, receiving.sender() as other:
        sender.send(b'{"n":1}')
        assert sender.acks(1) == [1]
        assert receiving.events(1) == [{"n": 1}]
        receiving.output.close()
        sender.send(b'{"n":2}')
        assert sender.acks(1) == []
        assert other.acks(1) == []
    assert receiving.process.wait(20) == 141
    assert "Traceback" not in receiving.errors.read().decode()


def test_an_address_in_use(program: Cli) -> None:
    """It is an error of one line, with status 3."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"lumberjack://127.0.0.1:{taken.getsockname()[1]}"
        done = program("lumberjack", "serve", "--listen", uri)
    assert (done.returncode, done.stdout) == (3, b"")
    line = f"rsocket-trio: error: cannot listen on {uri}: Address already in use\n"
    assert done.stderr.decode() == line


@pytest.mark.parametrize(
    ("options", "data", "says"),
    [
        (["--max-event-size", "1K"], b'{"text":"' + b"x" * 1024 + b'"}', "max_event_size"),
        (["--max-batch-size", "1K"], b'{"text":"' + b"x" * 1024 + b'"}', "max_batch_size"),
        (["--idle-timeout", "0.2"], None, ""),
    ],
)
def test_limits(receive: Receive, options: list[str], data: bytes | None, says: str) -> None:
    """A sender beyond a limit is disconnected."""
    receiving = receive(*options)
    with receiving.sender() as sender:
        sender.send(b"{}")
        assert sender.acks(1) == [1]
        if data is not None:
            sender.send(data)
        assert sender.acks(1) == []
    _, errors = receiving.stop(signal.SIGTERM)
    assert says in errors
    assert "Traceback" not in errors


def test_too_many_connections(receive: Receive) -> None:
    """--max-connections closes further ones."""
    receiving = receive("--max-connections", "1")
    with receiving.sender() as sender:
        sender.send(b"{}")
        assert sender.acks(1) == [1]
        with receiving.sender() as second:
            assert second.acks(1) == []
        sender.send(b"{}")
        assert sender.acks(1) == [1]


@pytest.fixture
def certificates(tmp_path: Path) -> trustme.CA:
    """An authority, and certificates of a server and of a sender."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name in ("localhost", "sender.example"):
        issued = authority.issue_cert(name)
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    return authority


@pytest.mark.parametrize(
    ("options", "with_certificate", "accepted"),
    [
        ([], False, True),
        (["--ca", "ca.pem"], False, False),
        (["--ca", "ca.pem"], True, True),
        (["--ca", "ca.pem", "--client-cert", "required"], False, False),
        (["--ca", "ca.pem", "--client-cert", "optional"], False, True),
        (["--ca", "ca.pem", "--client-cert", "optional"], True, True),
    ],
)
def test_tls(
    receive: Receive,
    certificates: trustme.CA,
    tmp_path: Path,
    options: list[str],
    with_certificate: bool,
    accepted: bool,
) -> None:
    """--ca demands certificates of the senders, unless they are optional."""
    listen = ["--listen", "lumberjacks://127.0.0.1:0", "--cert", "localhost.pem"]
    receiving = receive(*listen, *options)
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    if with_certificate:
        context.load_cert_chain(tmp_path / "sender.example.pem")
    with receiving.sender(context) as sender:
        try:
            sender.send(b'{"n":1}')
            acks = sender.acks(1)
        except (ssl.SSLError, ConnectionError):  # the alert of the server, or its reset
            acks = []
        assert acks == ([1] if accepted else [])
    output, errors = receiving.stop(signal.SIGTERM)
    assert output == (b'{"n":1}\n' if accepted else b"")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--listen", "lumberjacks://127.0.0.1:0"], "lumberjacks://127.0.0.1:0 needs --cert"),
        ([*ANY, "--cert", "c"], "--cert works only with lumberjacks:// addresses"),
        ([*ANY, "--key", "k"], "--key needs --cert"),
        ([*ANY, "--ca", "c"], "--ca needs --cert"),
        (
            ["--listen", "lumberjacks://127.0.0.1:0", "--cert", "c", "--client-cert", "optional"],
            "--client-cert needs --ca",
        ),
        (
            ["--listen", "lumberjacks://127.0.0.1:0", "--cert", "absent"],
            "cannot read 'absent': No such file or directory",
        ),
        ([*ANY, "--max-event-size", "5G"], "--max-event-size, --max-batch-size: "),
        ([*ANY, "--spool-size", "1M"], "--spool-size needs --spool"),
        ([*ANY, "--keep-size", "1M"], "--keep-size needs --spool"),
        ([*ANY, "--keep-age", "1"], "--keep-age needs --spool"),
        ([*ANY, "--spool", "s", "--take", "1"], "--take does not work with --spool"),
        ([*ANY, "--spool", "s", "--invalid", "close"], "--invalid does not work with --spool"),
        ([*ANY, "--max-size", "1M"], "--spool-size needs --spool"),
        (
            [*ANY, "--spool", "s", "--spool-size", "1M", "--keep-size", "2M"],
            "--keep-size is larger",
        ),
    ],
)
def test_wrong_usage(cli: Cli, options: list[str], message: str) -> None:
    """Options that contradict each other are wrong usage, found before the command listens."""
    done = cli("lumberjack", "serve", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"rsocket-trio: error: {message}")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("text", ["0", "-1", "1X", "1.5G", "K", "9999999999T", "x"])
def test_a_wrong_size(cli: Cli, text: str) -> None:
    """A size is a whole number from 1 on, perhaps with a unit."""
    done = cli("lumberjack", "serve", *ANY, f"--max-event-size={text}")
    assert done.returncode == 2
    assert f"{text!r} is not a size in bytes, such as 4096 or 64M" in done.stderr.decode()
