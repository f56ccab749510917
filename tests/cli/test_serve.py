"""``serve``: addresses, signals and failures."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
import trustme

from tests.programs import environment

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]

APP = """\
import sys
import trio
from rsocket_trio import Payload, Responder

class App(Responder):
    async def request_stream(self, payload):
        return self.items(float(payload.data))

    async def items(self, seconds):
        yield Payload(b"first")
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            print("cancelled", file=sys.stderr, flush=True)
            raise
        yield Payload(b"last")

app = App()
"""


class Serving:
    """A server process, its first address, and its output so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("listening on ")
        self.uri = line.removeprefix("listening on ").rstrip("\n")


@pytest.fixture
def serve(start_cli: StartCli, tmp_path: Path) -> Callable[..., Serving]:
    """Serves the app above on a free port."""
    (tmp_path / "app.py").write_text(APP)
    return lambda *options: Serving(
        start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", *options)
    )


def test_addresses_are_printed(start_cli: StartCli, cli: Cli, tmp_path: Path) -> None:
    """Each address is printed with its real port once it accepts connections, in order."""
    (tmp_path / "app.py").write_text(APP)
    wanted = ["ws://127.0.0.1:0/path", f"unix://{tmp_path}/socket", "tcp://127.0.0.1:0"]
    listen = [argument for uri in wanted for argument in ("--listen", uri)]
    process = start_cli("serve", "app.py", *listen)
    assert process.stdout is not None
    for uri in wanted:
        line = process.stdout.readline().decode()
        assert line.startswith("listening on ")
        shown = line.removeprefix("listening on ").rstrip("\n")
        assert ":0" not in shown
        assert shown.partition("://")[0] == uri.partition("://")[0]
        assert cli("stream", "--raw", shown, "0").stdout == b"first\nlast\n"


def test_leases_are_granted(serve: Callable[..., Serving], cli: Cli) -> None:
    """--lease grants leases to clients that ask, whose requests wait for them; others are free."""
    serving = serve("--lease", "1/3600")
    for options in ([], ["--lease"]):
        done = cli("stream", "--raw", serving.uri, "0", *options)
        assert (done.returncode, done.stdout) == (0, b"first\nlast\n")
    bench = ["--interaction", "request_stream", "--concurrency", "300", "--warmup", "0"]
    done = cli(
        "bench",
        "--raw",
        serving.uri,
        "--data",
        "0",
        "--lease",
        "--duration",
        "0.5",
        "--json",
        *bench,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["requests"] == 1


def test_leases_are_not_offered_by_default(serve: Callable[..., Serving], cli: Cli) -> None:
    """Without --lease a client that asks for leases is refused."""
    done = cli("stream", "--raw", serve().uri, "0", "--lease")
    assert done.returncode == 3
    assert b"UNSUPPORTED_SETUP" in done.stderr


def test_leases_are_enforced(serve: Callable[..., Serving], cli: Cli) -> None:
    """With --lease-enforced requests of a client without leases are rejected beyond N."""
    serving = serve("--lease", "1/3600", "--lease-enforced")
    done = cli("stream", "--raw", serving.uri, "0")
    assert (done.returncode, done.stdout) == (0, b"first\nlast\n")
    bench = ["--interaction", "request_stream", "--concurrency", "2", "--warmup", "0"]
    done = cli("bench", "--raw", serving.uri, "--data", "0", "--duration", "0.5", *bench)
    assert done.returncode != 0
    assert b"REJECTED" in done.stderr


def test_leases_are_required(serve: Callable[..., Serving], cli: Cli) -> None:
    """With --lease-required a client that does not ask for leases is refused, and told why."""
    serving = serve("--lease", "100/1", "--lease-required")
    done = cli("stream", "--raw", serving.uri, "0")
    assert done.returncode == 3
    assert b"REJECTED_SETUP" in done.stderr
    assert b"--lease" in done.stderr
    assert cli("stream", "--raw", serving.uri, "0", "--lease").stdout == b"first\nlast\n"


def test_leases_that_are_required_must_be_granted(cli: Cli) -> None:
    """--lease-required alone is wrong usage."""
    target = "rsocket_trio.testing.peer:app"
    done = cli("serve", target, "--listen", "tcp://127.0.0.1:0", "--lease-required")
    assert done.returncode == 2
    assert b"--lease-required needs --lease" in done.stderr


@pytest.mark.parametrize("value", ["5", "0/1", "1/0", "1/nan", "x/1", "1/1e9"])
def test_a_wrong_lease(cli: Cli, value: str) -> None:
    """A value other than N/SECONDS is wrong usage."""
    target = "rsocket_trio.testing.peer:app"
    done = cli("serve", target, "--listen", "tcp://127.0.0.1:0", "--lease", value)
    assert done.returncode == 2
    assert b"--lease" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_without_open_streams(serve: Callable[..., Serving], number: int) -> None:
    """It ends the server at once, with status 0."""
    serving = serve("--grace", "30")
    serving.process.send_signal(number)
    _, errors = serving.process.communicate(timeout=20)
    assert serving.process.returncode == 0
    assert b"Traceback" not in errors


def test_a_graceful_stop(serve: Callable[..., Serving], start_cli: StartCli, cli: Cli) -> None:
    """An open stream finishes within the grace; new clients are refused meanwhile."""
    serving = serve("--grace", "30")
    client = start_cli("stream", "--raw", serving.uri, "1")
    assert client.stdout is not None
    assert client.stdout.readline() == b"first\n"
    serving.process.send_signal(signal.SIGTERM)
    rest, errors = client.communicate(timeout=20)
    assert (rest, errors, client.returncode) == (b"last\n", b"", 0)
    _, log = serving.process.communicate(timeout=20)
    assert serving.process.returncode == 0
    assert b"cancelled" not in log
    assert cli("stream", "--raw", serving.uri, "0").returncode == 3


def test_the_end_of_the_grace(serve: Callable[..., Serving], start_cli: StartCli) -> None:
    """A stream that is still open is cancelled, and the peer gets an error."""
    serving = serve("--grace", "0.2")
    client = start_cli("stream", "--raw", serving.uri, "1000")
    assert client.stdout is not None
    assert client.stdout.readline() == b"first\n"
    serving.process.send_signal(signal.SIGTERM)
    rest, errors = client.communicate(timeout=20)
    assert (rest, client.returncode) in {(b"", 1), (b"", 3)}
    assert errors.count(b"\n") == 1
    _, log = serving.process.communicate(timeout=20)
    assert serving.process.returncode == 0
    assert b"cancelled" in log


def test_a_second_signal(serve: Callable[..., Serving], start_cli: StartCli) -> None:
    """It ends the server at once, with the status of that signal."""
    serving = serve("--grace", "1000")
    client = start_cli("stream", "--raw", serving.uri, "1000")
    assert client.stdout is not None
    assert client.stdout.readline() == b"first\n"
    assert serving.process.stderr is not None
    serving.process.send_signal(signal.SIGTERM)
    while b"stopping" not in serving.process.stderr.readline():
        pass
    serving.process.send_signal(signal.SIGINT)
    _, errors = serving.process.communicate(timeout=20)
    assert serving.process.returncode == 130
    assert b"Traceback" not in errors
    client.communicate(timeout=20)
    assert client.returncode == 3


def test_limits_on_clients(start_cli: StartCli, program: Cli, tmp_path: Path) -> None:
    """--allow-origin and --max-connections have the meaning they have for `serve`."""
    (tmp_path / "app.py").write_text(APP)
    options = ["--allow-origin", "https://a.example", "--allow-origin", "null"]
    serving = Serving(
        start_cli(
            *["serve", "app.py", "--listen", "ws://127.0.0.1:0/", "--max-connections", "1"],
            *options,
        )
    )
    stream = ["stream", "--raw", serving.uri, "0", "--header"]
    for origin, status in (("https://b.example", 3), ("https://a.example", 0), ("null", 0)):
        done = program(*stream, f"Origin: {origin}")
        assert done.returncode == status, done.stderr
        assert (b"403 Forbidden" in done.stderr) is (status == 3)
    client = start_cli("stream", "--raw", serving.uri, "60")
    assert client.stdout is not None
    assert client.stdout.readline() == b"first\n"
    done = program("stream", "--raw", serving.uri, "0")
    assert done.returncode == 3
    assert b"503 Service Unavailable" in done.stderr
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=20)


@pytest.mark.parametrize("origins", [[], ["--allow-origin", "*"]])
def test_pages_and_health_checks(
    start_cli: StartCli, program: Cli, tmp_path: Path, origins: list[str]
) -> None:
    """A stranger's page may connect if the option says so; a health check is answered."""
    (tmp_path / "app.py").write_text(APP)
    listen = ["--listen", "ws://127.0.0.1:0/x"]
    serving = Serving(start_cli("serve", "app.py", *listen, *origins))
    done = program("stream", "--raw", serving.uri, "0", "--header", "Origin: https://evil.example")
    assert done.returncode == (0 if origins else 3), done.stderr
    with urlopen(f"http{serving.uri[2:-1]}ready") as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--allow-origin", "https://a.example"], "--allow-origin works only with ws:// and"),
        (["--allow-origin", "a.example"], "'a.example' is not an origin"),
        (["--health", "tcp://127.0.0.1:1"], "one of http"),
        (["--health", "http://127.0.0.1:1/ready"], "has no path"),
        (["--connection-age", "0"], "'0' is not SECONDS/GRACE"),
        (["--connection-age", "5/x"], "'5/x' is not SECONDS/GRACE"),
        (["--stop-delay", "inf"], "'inf' is not a number of seconds"),
        (["--max-connections", "0"], "--max-connections"),
    ],
)
def test_wrong_limits_on_clients(
    program: Cli, tmp_path: Path, options: list[str], message: str
) -> None:
    """A wrong value is wrong usage, found before the server listens."""
    (tmp_path / "app.py").write_text(APP)
    done = program("serve", "app.py", "--listen", "tcp://127.0.0.1:0", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()


def test_an_address_in_use(program: Cli, tmp_path: Path) -> None:
    """It is an error of one line, with status 3."""
    (tmp_path / "app.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = program("serve", "app.py", "--listen", uri)
    assert (done.returncode, done.stdout) == (3, b"")
    line = f"rsocket-trio: error: cannot listen on {uri}: Address already in use\n"
    assert done.stderr == line.encode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--listen", "tls://127.0.0.1:0"], "tls://127.0.0.1:0 needs --cert"),
        (["--listen", "tcp://127.0.0.1:0", "--key", "k"], "--key needs --cert"),
        (
            ["--listen", "tcp://127.0.0.1:0", "--cert", "c"],
            "--cert works only with tls://, wss://, rsios:// and rsio+wss:// addresses",
        ),
        (
            ["--listen", "tls://127.0.0.1:0", "--cert", "absent"],
            "cannot read 'absent': No such file or directory",
        ),
    ],
)
def test_certificates(cli: Cli, options: list[str], message: str) -> None:
    """TLS without a certificate, and a certificate without TLS, are wrong usage."""
    done = cli("serve", "app.py", *options)
    line = f"rsocket-trio: error: {message}\n".encode()
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", line)


@pytest.mark.parametrize("scheme", ["tls", "wss", "rsios"])
@pytest.mark.parametrize("optional", [False, True])
def test_certificates_of_clients(
    start_cli: StartCli, program: Cli, tmp_path: Path, scheme: str, optional: bool
) -> None:
    """With --ca clients need a certificate, unless --client-cert is optional."""
    authority = trustme.CA()
    for name in ("localhost", "client"):
        issued = authority.issue_cert(name, "127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "app.py").write_text(APP)
    target = "rsocket_trio.testing.rsio_peer:app" if scheme == "rsios" else "app.py"
    listen = ("--listen", f"{scheme}://127.0.0.1:0", "--cert", "localhost.pem", "--ca", "ca.pem")
    relaxed = ("--client-cert", "optional") if optional else ()
    process = start_cli("serve", target, *listen, *relaxed)
    assert process.stdout is not None
    uri = process.stdout.readline().decode().removeprefix("listening on ").strip()
    command = (
        ("rsio", "subscribe", uri, "count?n=3")
        if scheme == "rsios"
        else ("stream", "--raw", uri, "0")
    )
    done = program(*command, "--ca", "ca.pem", "--cert", "client.pem")
    assert done.returncode == 0, done.stderr
    done = program(*command, "--ca", "ca.pem")
    assert (done.returncode == 0) is optional, done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cert", "c", "--client-cert", "required"], "--client-cert needs --ca"),
        (["--ca", "ca.pem"], "--ca needs --cert"),
    ],
)
def test_wrong_options_about_clients(cli: Cli, options: list[str], message: str) -> None:
    """They are wrong usage."""
    scheme = "tls" if "--cert" in options else "tcp"
    listen = ["--listen", f"{scheme}://127.0.0.1:0"]
    done = cli("serve", "rsocket_trio.testing.peer:app", *listen, *options)
    assert done.returncode == 2
    assert message in done.stderr.decode()


@pytest.mark.parametrize(
    ("who", "admitted"),
    [(["same-user"], True), (["uid:12345", f"gid:{os.getgid()}"], True), (["uid:12345"], False)],
)
def test_who_may_connect(
    start_cli: StartCli, program: Cli, tmp_path: Path, who: list[str], admitted: bool
) -> None:
    """Other users of the machine are disconnected."""
    (tmp_path / "app.py").write_text(APP)
    options = [option for each in who for option in ("--allow", each)]
    uri = f"unix://{tmp_path}/socket"
    process = start_cli("serve", "app.py", "--listen", uri, *options)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"listening on ")
    done = program("stream", "--raw", uri, "0")
    assert (done.returncode == 0) is admitted, done.stderr


@pytest.mark.parametrize("command", ["serve", "collect"])
def test_nobody_could_connect(cli: Cli, tmp_path: Path, command: str) -> None:
    """--allow beside an address of TCP would let nobody in there: wrong usage."""
    first = ("rsocket_trio.testing.peer:app",)
    if command == "collect":
        first = ("--spool", str(tmp_path / "spool"))
    listen = ("--listen", f"unix://{tmp_path}/socket", "--listen", "tcp://127.0.0.1:0")
    done = cli(command, *first, *listen, "--allow", "same-user")
    assert done.returncode == 2
    assert b"nobody could connect to tcp://127.0.0.1:0" in done.stderr


def test_two_protocols_have_one_target(start_cli: StartCli, tmp_path: Path) -> None:
    """It is imported once, and has one lifespan, so both serve the same application."""
    (tmp_path / "app.py").write_text(
        f"print('imported', flush=True)\n{APP}\n"
        "from contextlib import asynccontextmanager\n"
        "class Both(App):\n"
        "    @asynccontextmanager\n"
        "    async def lifespan(self):\n"
        "        print('entered', flush=True)\n"
        "        yield\n"
        "both = Both()\n"
    )
    listen = ("--listen", "tcp://127.0.0.1:0", "--listen", "rsio://127.0.0.1:0")
    process = start_cli("serve", "app.py:both", *listen)
    assert process.stdout is not None
    lines = [process.stdout.readline().split(b" ")[0] for _ in range(4)]
    assert lines == [b"imported\n", b"entered\n", b"listening", b"listening"]


def test_a_lifespan_that_fails(tmp_path: Path) -> None:
    """Its error ends the command, without a group around it, and nothing is announced."""
    (tmp_path / "app.py").write_text(
        "from rsocket_trio import Router\n"
        "async def lifespan():\n"
        "    raise ValueError('no database')\n"
        "    yield\n"
        "app = Router(lifespan=lifespan)\n"
    )
    command = [sys.executable, "-m", "rsocket_trio", "serve", "app.py"]
    done = subprocess.run(
        [*command, "--listen", "tcp://127.0.0.1:0"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: no database\n")
    assert "ExceptionGroup" not in done.stderr
    assert not done.stdout


def test_systemd_is_told(start_cli: StartCli, tmp_path: Path, monkeypatch) -> None:
    """When the server accepts, when it has read its files again, and when it stops."""
    (tmp_path / "app.py").write_text(APP)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "3600000000")
        process = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0")
        assert [sock.recv(100) for _ in range(2)] == [b"WATCHDOG=1", b"READY=1"]
        process.terminate()
        assert sock.recv(100) == b"STOPPING=1"
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--listen", "unix:///nowhere/x", "--reuse-port"], "--reuse-port is given, but no"),
        (["--listen", "fd://3", "--resume", "3"], "that there are none with --sole-process"),
        (["--listen", "tcp://127.0.0.1:0", "--reuse-port", "--resume", "3"], "leave --resume out"),
        (["--listen", "tcp://127.0.0.1:0", "--health", "http://192.0.2.1:1"], "192.0.2.1:1"),
    ],
)
def test_options_that_cannot_be_served(cli: Cli, arguments: list[str], text: str) -> None:
    """The error is one line, in the words of the options."""
    done = cli("serve", "rsocket_trio.testing.peer", *arguments)
    assert done.returncode in {2, 3}
    assert text.encode() in done.stderr
    assert done.stderr.count(b"\n") == 1
