"""``collect``: receive events into a spool, and ask a collector how it is."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trustme

from rsocket_trio import Payload, connect
from rsocket_trio.cli.output import utc
from rsocket_trio.collector import connect_collector, payloads_to_store
from rsocket_trio.spool import describe_spool, open_spool
from tests.cli.senders import PATIENCE, Sender

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]

LUMBERJACK = ("--listen", "lumberjack://127.0.0.1:0")
RSOCKET = ("--listen", "tcp://127.0.0.1:0")
PUBLISHER = ("--subscribe", "tcp://h:1/a")
ANY = ("--spool", "events", *LUMBERJACK, *RSOCKET)


class Collecting:
    """A process of ``collect`` that listens."""

    def __init__(self, process: subprocess.Popen[bytes], addresses: int = 2) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stderr is not None
        self.errors = process.stderr
        lines = [process.stdout.readline().decode() for _ in range(addresses)]
        assert all(line.startswith("listening on ") for line in lines), (lines, self.errors.read())
        uris = [line.removeprefix("listening on ").rstrip("\n") for line in lines]
        self.uris = {uri.partition(":")[0]: uri for uri in uris}

    def sender(self) -> Sender:
        return Sender(int(self.uris["lumberjack"].rpartition(":")[2]))

    def stop(self, number: int = signal.SIGTERM) -> str:
        """Send a signal, and return the messages."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=PATIENCE)
        assert output == b""
        return errors.decode()

    def until_logged(self, text: str) -> None:
        while text not in (line := self.errors.readline().decode()):
            assert line, f"the process has ended without the message {text!r}"


@pytest.fixture
def start(start_cli: StartCli) -> Callable[..., Collecting]:
    return lambda *options: Collecting(start_cli("collect", *ANY, *options))


def send_by_rsocket(uri: str, *data: bytes) -> int:
    """Send events, and return how many are acknowledged."""

    async def send() -> int:
        count = 0
        async with connect(uri, data_mime_type="application/json") as requester:
            items = [Payload(each) for each in data]
            async with requester.request_channel(items, route="events") as replies:
                async for reply in replies:
                    count += json.loads(reply.data)["count"]
        return count

    return trio.run(send)


def read(cli: Cli) -> list[object]:
    done = cli("spool", "read", "events")
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_events_are_kept(
    start: Callable[..., Collecting], cli: Cli, tmp_path: Path, number: int
) -> None:
    """Both kinds of senders; a signal ends it with everything on the disk; a restart goes on."""
    collecting = start()
    with collecting.sender() as sender:
        sender.send(b'{"n":0}', b'{"n":1}')
        assert sender.acks(2) == [2]
        assert send_by_rsocket(collecting.uris["tcp"], b'{"n":2}') == 1
        errors = collecting.stop(number)
    assert collecting.process.returncode == 0
    assert "events: 3 stored, 0 dropped" in errors
    before = describe_spool(tmp_path / "events").spool_id
    collecting = start()
    assert send_by_rsocket(collecting.uris["tcp"], b'{"n":3}') == 1
    collecting.stop(number)
    assert read(cli) == [{"n": number} for number in range(4)]
    assert describe_spool(tmp_path / "events").spool_id == before


def test_status(start: Callable[..., Collecting], cli: Cli) -> None:
    """Numbers about the spool and its consumers, as text and as JSON."""
    collecting = start("--max-size", "1M")
    uri = collecting.uris["tcp"]
    send_by_rsocket(uri, *[b"%d" % number for number in range(1000)])

    async def commit() -> None:
        async with connect_collector(uri) as client:
            info = await client.info()
            await client.commit("q", 7, instance="a\x1b", spool_id=info.spool_id, lease=7200)

    trio.run(commit)
    done = cli("collect", "--status", uri, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    found = json.loads(done.stdout)
    assert (found["head"], found["max_size"], found["full"]) == (1000, 2**20, False)
    assert (found["consumers"], found["stored"], found["subscriptions"]) == ({"q": 7}, 1000, [])
    [instance] = found["instances"]
    assert 0 <= instance.pop("age") < 100
    assert 0 < instance.pop("lag_seconds") < 100
    assert found["oldest_at"] <= found["newest_at"] <= utc(time.time())
    assert instance == {
        "consumer": "q", "instance": "a\x1b", "offset": 7, "lag": 993, "connected": False,
        "lease": 7200.0, "lease_left": 7200.0,
    }  # fmt: skip
    done = cli("collect", "--status", uri)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"head               1,000\n" in done.stdout
    assert b"consumers          q 7\n" in done.stdout
    line = rb"instances          q/a\\x1b at 7, lag 993 \(\d+ s\), last seen "
    assert re.search(line, done.stdout)
    assert f"oldest at          {found['oldest_at']}\n".encode() in done.stdout
    assert b"ago, lease left 2 h\n" in done.stdout
    assert b"full               no\n" in done.stdout
    assert b"trouble            none\n" in done.stdout


def test_credentials(start: Callable[..., Collecting], cli: Cli, tmp_path: Path) -> None:
    """Clients of RSocket need one of them, to send and to read; it is on no command line."""
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "user").write_text("ada:pass\n")
    collecting = start("--auth-bearer", "@token", "--auth-simple", "@user")
    uri = collecting.uris["tcp"]
    sent = ("--route", "events", "--data-mime", "application/json")
    for given in (("--auth-bearer", "@token"), ("--auth-simple", "ada:pass")):
        done = cli("channel", uri, "1", *sent, *given)
        assert (done.returncode, done.stderr) == (0, b"")
        done = cli("collect", "--status", uri, *given, "--json")
        assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["head"] == 2
    for given, why in (
        ((), b"authentication is needed"),
        (("--auth-bearer", "ada:pass"), b"the credentials are wrong"),
        (("--auth-simple", "ada:s3cret"), b"the credentials are wrong"),
    ):
        for command in (("channel", uri, "1", *sent), ("collect", "--status", uri)):
            done = cli(*command, *given)
            assert (done.returncode, done.stdout) == (3, b"")
            assert why in done.stderr
            hinted = b"(--auth-bearer or --auth-simple)" in done.stderr
            assert hinted == (command[0] == "collect" and not given)
    with collecting.sender() as sender:  # Lumberjack has no passwords.
        sender.send(b'{"n": 1}')
        assert sender.acks(1)[-1] == 1
    errors = collecting.stop()
    assert "s3cret" not in errors
    assert "ada:pass" not in errors
    assert len(read(cli)) == 3


def test_roles(start: Callable[..., Collecting], cli: Cli, tmp_path: Path) -> None:
    """A sender's token reads and forgets nothing; one without roles forgets nothing."""
    (tmp_path / "sender").write_text("out=going\n")  # a = in a file is one of the token
    given = "--auth-bearer", "send=@sender", "--auth-bearer", "both", "--auth-simple"
    collecting = start(*given, "admin=ada:a=b", "--auth-bearer", "YWI=")
    uri = collecting.uris["tcp"]
    sent = ("channel", uri, "1", "--route", "events", "--data-mime", "application/json")
    status = ("collect", "--status", uri)
    forget = (*status, "--forget", "q")
    for auth, allowed in (
        (("--auth-bearer", "@sender"), {sent}),
        (("--auth-bearer", "both"), {sent, status}),
        (("--auth-bearer", "YWI="), {sent, status}),
        (("--auth-simple", "ada:a=b"), {status, forget}),
    ):
        for command in (sent, status, forget):
            done = cli(*command, *auth)
            refused = b"is not for these credentials" in done.stderr
            assert refused == (command not in allowed), done.stderr
            assert b"no collector" not in done.stderr
    collecting.stop()


def test_certificates_of_clients(start_cli: StartCli, cli: Cli, tmp_path: Path) -> None:
    """With --ca, senders of Lumberjack and clients of RSocket need a certificate."""
    authority = trustme.CA()
    own, of_peer = authority.issue_cert("127.0.0.1", "localhost"), authority.issue_cert("peer")
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    of_peer.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "peer.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ("--cert", "own.pem", "--ca", "ca.pem")
    listen = ("--listen", "lumberjacks://127.0.0.1:0", "--listen", "tls://127.0.0.1:0")
    collecting = Collecting(start_cli("collect", "--spool", "events", *listen, *tls))
    port = int(collecting.uris["lumberjacks"].rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with pytest.raises(OSError), Sender(port, context) as sender:
        sender.send(b'{"n": 1}')
        assert sender.acks(1) == []
        raise ConnectionResetError("closed")
    context.load_cert_chain(str(tmp_path / "peer.pem"))
    with Sender(port, context) as sender:
        sender.send(b'{"n": 2}')
        assert sender.acks(1)[-1] == 1
    asked = ("collect", "--status", collecting.uris["tls"], "--json", "--ca", "ca.pem")
    assert cli(*asked).returncode == 3
    done = cli(*asked, "--cert", "peer.pem")
    assert (done.returncode, json.loads(done.stdout)["head"]) == (0, 1)


def test_forget(start: Callable[..., Collecting], cli: Cli, program: Cli) -> None:
    """A consumer is forgotten by the collector while it runs, and in the files when it does not."""
    collecting = start()
    uri = collecting.uris["tcp"]
    send_by_rsocket(uri, b"1", b"2")

    async def commit_and_forget() -> None:
        async with connect_collector(uri) as client:
            info = await client.info()
            for name, instance in (("q", "a"), ("r", "a"), ("r", "b"), ("r", "c")):
                await client.commit(name, 1, instance=instance, spool_id=info.spool_id)
            await trio.to_thread.run_sync(while_it_is_connected)

    def while_it_is_connected() -> None:
        done = program("collect", "--status", uri, "--forget", "q")
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"'q' is in use" in done.stderr
        done = program("collect", "--status", uri, "--forget", "q", "--force", "--json")
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(done.stdout)["consumers"] == {"r": 1}

    trio.run(commit_and_forget)
    done = cli("collect", "--status", uri, "--forget", "q")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"there is no consumer 'q'" in done.stderr
    done = cli("collect", "--status", uri, "--forget", "r", "--instance", "a", "--json")
    assert [each["instance"] for each in json.loads(done.stdout)["instances"]] == ["b", "c"]
    done = program("spool", "forget", "events", "r")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"collect --status URI --forget" in done.stderr
    collecting.stop()
    assert describe_spool("events").positions == {"r": 1}
    done = program("spool", "forget", "events", "r", "--instance", "a")
    assert b"has no consumer r/a: there are r/b, r/c\n" in done.stderr
    done = program("spool", "forget", "events", "r", "--instance", "b")
    assert (done.returncode, done.stdout) == (0, b"forgot r/b, which was at 1\n")
    [left] = describe_spool("events").instances
    assert left.key == ("r", "c")


def test_status_of_others(cli: Cli, server: dict[str, str]) -> None:
    """No server, and a server that is no collector."""
    done = cli("collect", "--status", "tcp://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.count(b"\n") == 1
    done = cli("collect", "--status", server["tcp"])
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: the peer is no collector")


def test_a_subscription(
    start_cli: StartCli, start: Callable[..., Collecting], cli: Cli, tmp_path: Path
) -> None:
    """Its events are stored, and the status shows it; a secret for it is in no status and log."""
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "publisher.py").write_text(
        "import trio\n"
        "from collections.abc import AsyncIterator\n"
        "from rsocket_trio import Rejected, Router\n"
        "async def authenticate(auth, facts):\n"
        "    if facts.principal is None and auth.token != 's3cret':\n"
        "        raise Rejected('not you')\n"
        "    return 'ada'\n"
        "app = Router(authenticate=authenticate)\n"
        '@app.request_stream("numbers")\n'
        "async def numbers() -> AsyncIterator[int]:\n"
        "    for number in range(100):\n"
        "        yield number\n"
        "    await trio.sleep_forever()\n"
    )
    publishing = start_cli("serve", "publisher.py", "--listen", "tcp://127.0.0.1:0")
    assert publishing.stdout is not None
    uri = publishing.stdout.readline().decode().removeprefix("listening on ").strip()
    mine, other = (f"--subscribe={uri}/numbers", "--subscribe-auth-bearer"), f"{uri}/numbers?"
    collecting = start(*mine, "@token", "--subscribe", other, "--subscribe-auth-simple", "a:wr0ng")
    found = {"head": 0, "subscriptions": [{}, {"trouble": None}]}
    while found["head"] < 100 or found["subscriptions"][1]["trouble"] is None:
        found = json.loads(cli("collect", "--status", collecting.uris["tcp"], "--json").stdout)
    assert found["subscriptions"][0] == {
        "subscription": f"{uri}/numbers", "state": "open", "events": 100, "connections": 1,
        "trouble": None,
    }  # fmt: skip
    assert found["subscriptions"][1]["events"] == 0  # The token was not for it.
    shown = cli("collect", "--status", collecting.uris["tcp"]).stdout.decode()
    assert f"{uri}/numbers open 100  " in shown
    for text in (shown, collecting.stop()):
        assert "s3cret" not in text
        assert "wr0ng" not in text
    assert read(cli) == list(range(100))


def test_payloads_that_are_not_json_lines(cli: Cli, tmp_path: Path) -> None:
    """``spool read`` prints them too: JSON in one line, and others as payloads."""

    async def store() -> None:
        async with open_spool(tmp_path / "events") as spool:
            json_texts = [Payload(b'{"a":\n1}'), Payload(b'{"b":2}', b"\1")]
            await spool.append(payloads_to_store(json_texts, mime_type="application/json"))
            others = [Payload(b"text", b"\1"), Payload(b"\xff")]
            await spool.append(payloads_to_store(others, mime_type="text/plain"))
            cbor = [Payload(b"\xa1\x61a\x01"), Payload(b"\xff")]
            await spool.append(payloads_to_store(cbor, mime_type="application/x+cbor"))

    trio.run(store)
    done = cli("spool", "read", "events", "--from", "1")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"b": 2},
        {"data": "text", "metadata_hex": "01"},
        {"data_hex": "ff", "metadata_hex": None},
        {"data": {"a": 1}, "metadata_hex": None},
        {"data_hex": "ff", "metadata_hex": None},
    ]
    assert cli("spool", "read", "events", "--take", "1").stdout == b'{"a": 1}\n'


def test_a_full_spool(start: Callable[..., Collecting], cli: Cli) -> None:
    """Senders wait without an ACK, and the log says why."""
    collecting = start("--max-size", "100K", "--grace", "0.2")
    with collecting.sender() as sender:
        for _ in range(2):
            sender.send(*[b'"%s"' % (b"x" * 6000)] * 10, level=0)
        assert sender.acks(10) == [10]
        collecting.until_logged("is full (102400 bytes): senders wait")
        sender.no_ack_for(0.3)
        collecting.stop()
        assert sender.acks(10) == []
    assert len(read(cli)) == 10


def test_a_file_of_the_spool_that_is_deleted(
    start: Callable[..., Collecting], tmp_path: Path
) -> None:
    """The collector ends, and says which file it was: it is no fault of the program."""
    collecting = start()
    (tmp_path / "events" / "spool.sqlite3-wal").unlink()
    with collecting.sender() as sender:
        sender.send(b'{"n": 1}')
        assert sender.acks(1) == []
    errors = collecting.process.communicate(timeout=PATIENCE)[1].decode()
    assert collecting.process.returncode == 4
    assert "spool.sqlite3-wal was moved, replaced or deleted" in errors
    assert "Traceback" not in errors


def test_a_second_signal(start: Callable[..., Collecting]) -> None:
    """It ends a collector that cannot store what it has taken."""
    collecting = start("--max-size", "100K", "--grace", "100")
    with collecting.sender() as sender:
        for _ in range(2):
            sender.send(*[b'"%s"' % (b"x" * 6000)] * 10, level=0)
        collecting.until_logged("is full")
        collecting.process.send_signal(signal.SIGTERM)
        collecting.until_logged("stopping")
        collecting.stop(signal.SIGTERM)
    assert collecting.process.returncode == 143


def test_a_unix_socket(start_cli: StartCli, tmp_path: Path) -> None:
    """It is removed at the end."""
    collecting = Collecting(
        start_cli("collect", "--spool", "events", "--listen", f"unix://{tmp_path}/socket"), 1
    )
    assert send_by_rsocket(collecting.uris["unix"], b"1") == 1
    collecting.stop()
    assert not (tmp_path / "socket").exists()


def test_a_second_process(start: Callable[..., Collecting], program: Cli) -> None:
    """It is an error of one line, which names the first process."""
    collecting = start()
    done = program("collect", *ANY)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"is open for writing in process {collecting.process.pid}" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_an_address_in_use(program: Cli) -> None:
    """It is an error of one line, with the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        done = program("collect", "--spool", "events", "--listen", address)
    assert (done.returncode, done.stdout) == (3, b"")
    assert f"cannot listen on {address}" in done.stderr.decode()


def test_a_path_through_a_file(program: Cli, tmp_path: Path) -> None:
    """The message says why the spool cannot be made."""
    (tmp_path / "file").write_text("text")
    done = program("collect", "--spool", "file/events", *RSOCKET)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"cannot use the spool 'file/events': Not a dir" in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do all")
def test_a_spool_without_permission(program: Cli, tmp_path: Path) -> None:
    """The message says so."""
    (tmp_path / "closed").mkdir(mode=0o500)
    done = program("collect", "--spool", "closed/events", *RSOCKET)
    assert done.returncode == 2
    assert b"Permission denied" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "needs --spool"),
        (["--spool", "events"], "needs --listen"),
        (["--spool", "events", "--listen", "http://h:1"], "'http'"),
        (["--spool", "events", "--listen", "lumberjack://"], "no host"),
        (["--spool", "events", *RSOCKET, "--subscribe", "tcp://h:1"], "names no route"),
        (["--spool", "events", *RSOCKET, "--cert", "c"], "--cert works only with lumberjacks://"),
        (["--spool", "events", "--listen", "tls://127.0.0.1:0"], "needs --cert"),
        (["--spool", "events", "--listen", "lumberjacks://127.0.0.1:0"], "needs --cert"),
        (["--spool", "events", *RSOCKET, "--allow-origin", "https://a.b"], "--allow-origin works"),
        (["--spool", "events", *RSOCKET, "--insecure"], "--insecure works only with --status"),
        (["--spool", "events", *RSOCKET, "--tls-server-name", "a"], "works only with --status"),
        (["--spool", "events", *RSOCKET, "--keep-size", "2G"], "--keep-size is larger"),
        (
            ["--spool", "events", *RSOCKET, "--spool-size", "1M", "--keep-size", "2M"],
            "--keep-size is larger than the spool (1048576 bytes",
        ),
        (
            ["--spool", "events", *RSOCKET, "--subscribe", "tcp://h:1/a", "--subscribe-ca", "c"],
            "--subscribe-ca works only",
        ),
        (
            ["--spool", "events", *RSOCKET, "--subscribe-auth-bearer", "@t", *PUBLISHER],
            "name the publisher before it, by --subscribe",
        ),
        (
            ["--spool", "events", *RSOCKET, *PUBLISHER, *2 * ("--subscribe-auth-bearer", "@t")],
            "a publisher needs one of them, not several",
        ),
        (
            ["--spool", "events", *RSOCKET, *PUBLISHER, "--subscribe-auth-bearer", "@missing"],
            "missing",
        ),
        (
            ["--spool", "events", *RSOCKET, *PUBLISHER, "--subscribe-auth-simple", "ada"],
            "--subscribe-auth-simple: the value must be USER:PASSWORD",
        ),
        (
            [
                "--spool",
                "events",
                *RSOCKET,
                "--subscribe",
                "rsio://h:1/a?token=t0p",
                "--subscribe-auth-bearer",
                "s3cret",
            ],
            "--subscribe-auth-bearer: rsio://h:1: publishers of rsio know no credentials",
        ),
        (["--status", "tcp://h:1", "--spool", "e"], "--spool does not work with --status"),
        (["--status", "lumberjack://h:1"], "'lumberjack'"),
        (["--spool", "events", *RSOCKET, "--forget", "q"], "--forget works only with --status"),
        (["--spool", "events", *RSOCKET, "--force"], "--force works only with --forget"),
        (["--status", "tcp://h:1", "--force"], "--force works only with --forget"),
        (["--status", "tcp://h:1", "--instance", "a"], "--instance works only with --forget"),
        (["--spool", "events", *LUMBERJACK, "--auth-bearer", "t"], "are for RSocket"),
        (["--spool", "events", *RSOCKET, "--auth-bearer", ""], "the token is empty"),
        (["--spool", "events", *RSOCKET, "--auth-bearer", "@missing"], "missing"),
        (["--spool", "events", *RSOCKET, "--auth-bearer", "read,sned=@t"], "send, read and admin"),
        (["--spool", "events", *RSOCKET, "--auth-simple", "all=ada:pw"], "send, read and admin"),
        (["--spool", "events", *RSOCKET, "--auth-simple", "ada"], "it has no ':'"),
        (["--status", "tcp://h:1", "--auth-bearer", "a", "--auth-bearer", "b"], "not several"),
        (["--status", "tcp://h:1", "--tls-server-name", "a"], "works only with tls://"),
        (["--status", "tcp://h:1", "--insecure"], "--insecure works only with tls://"),
    ],
)
def test_wrong_usage(cli: Cli, options: list[str], message: str) -> None:
    """It is an error with status 2, before anything is made."""
    done = cli("collect", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert b"s3cret" not in done.stderr
    assert not Path("events").exists()
