"""``stream`` and ``channel`` against a server with known answers."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rsocket_trio.cli.stream import _demand

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]

APP = """\
import trio
from rsocket_trio import Payload, Responder

class App(Responder):
    async def request_stream(self, payload):
        return self.forever(payload.data)

    async def forever(self, name):
        n = 0
        try:
            while True:
                yield Payload(b"%d" % n)
                n += 1
                if name == b"one":
                    await trio.sleep_forever()
        finally:
            with open("ended", "a") as file:
                file.write(f"{name.decode()} {n}\\n")

app = App()
"""


def _numbers(end: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(end))


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
def test_items_are_printed(cli: Cli, server: dict[str, str], scheme: str) -> None:
    """The items of a stream are printed, one a line."""
    done = cli("stream", "--raw", server[scheme], "1000")
    assert (done.returncode, done.stdout, done.stderr) == (0, _numbers(1000), b"")


def test_stream_json(cli: Cli, server: dict[str, str]) -> None:
    """--json is an object a line."""
    done = cli("stream", "--raw", server["tcp"], "2", "--json")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert shown == [{"data": str(n), "metadata_hex": None} for n in range(2)]


def test_stream_error(cli: Cli, server: dict[str, str]) -> None:
    """A stream that ends with an error has status 1."""
    done = cli("stream", "--raw", server["tcp"], "many")
    assert done.returncode == 1
    assert done.stderr.startswith(b"rsocket-trio: error: the peer answered INVALID: ")


@pytest.mark.parametrize("take", [1, 7, 300])
def test_take_ends_a_stream(cli: Cli, server: dict[str, str], take: int) -> None:
    """--take ends the stream after that many items."""
    done = cli("stream", "--raw", server["tcp"], "1000000", "--take", str(take))
    assert (done.returncode, done.stdout, done.stderr) == (0, _numbers(take), b"")


@pytest.mark.parametrize(
    ("prefetch", "take", "expected"),
    [
        (None, None, (None, None)),
        (7, None, (7, None)),
        (None, 256, (0, 256)),
        (None, 257, (None, None)),
        (7, 7, (0, 7)),
        (7, 8, (7, None)),
    ],
)
def test_demand_within_one_window(
    prefetch: int | None, take: int | None, expected: tuple[int | None, int | None]
) -> None:
    """Exactly the wanted items are requested, so that no other item is made."""
    assert _demand(prefetch, take) == expected


@pytest.fixture
def forever(start_cli: StartCli, tmp_path: Path) -> str:
    """The address of a server with endless streams, which notes when they end."""
    (tmp_path / "app.py").write_text(APP)
    process = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--quiet")
    assert process.stdout is not None
    return process.stdout.readline().decode().removeprefix("listening on ").strip()


def test_items_as_they_arrive(start_cli: StartCli, forever: str) -> None:
    """An item is printed when it arrives; Ctrl-C ends the stream, without a traceback."""
    process = start_cli("stream", "--raw", forever, "one", "--verbose")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0\n"
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate()
    assert (rest, process.returncode) == (b"", 130)
    assert b"Traceback" not in errors


def test_a_reader_that_has_gone(start_cli: StartCli, forever: str) -> None:
    """The command ends without a message."""
    process = start_cli("stream", "--raw", forever, "two")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""


def test_a_slow_reader(start_cli: StartCli, forever: str, tmp_path: Path) -> None:
    """While the output is not read, Ctrl-C still works and the peer gets CANCEL."""
    process = start_cli("stream", "--raw", forever, "three")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0\n"
    # The output is not read any more: the pipe fills up, and the stream waits for demand.
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130


def test_a_lost_connection(start_cli: StartCli, cli: Cli, tmp_path: Path) -> None:
    """It is an error of one line, and status 3."""
    (tmp_path / "app.py").write_text(APP)
    serving = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--quiet")
    assert serving.stdout is not None
    uri = serving.stdout.readline().decode().removeprefix("listening on ").strip()
    process = start_cli("stream", "--raw", uri, "one")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0\n"
    serving.kill()
    rest, errors = process.communicate()
    assert (rest, process.returncode) == (b"", 3)
    assert errors.startswith(b"rsocket-trio: error: ")
    assert errors.count(b"\n") == 1


def test_replies_of_a_channel_are_printed(cli: Cli, server: dict[str, str], tmp_path: Path) -> None:
    """Payloads given as arguments and in files are sent, and the answers printed."""
    (tmp_path / "lines").write_bytes(b"two\nthree\n")
    done = cli("channel", "--raw", server["tcp"], "one", "@lines", "--route", "echo")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\ntwo\nthree\n", b"")


def test_bytes_of_a_channel(cli: Cli, server: dict[str, str], tmp_path: Path) -> None:
    """0xHEX is sent as it is, also as CBOR; the same line of a file is text."""
    (tmp_path / "lines").write_text("0x41\n")
    done = cli("channel", server["tcp"], "0x63666f6f", "@lines", "--route", "echo")
    assert (done.returncode, done.stdout, done.stderr) == (0, b'"foo"\n"0x41"\n', b"")


def test_channel_metadata(cli: Cli, server: dict[str, str]) -> None:
    """--metadata goes with the request, the first payload."""
    done = cli("channel", "--raw", server["tcp"], "one", "two", "--metadata", "0xff", "--json")
    shown = [json.loads(line)["metadata_hex"] for line in done.stdout.splitlines()]
    assert shown == ["ff", None]


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_channel_of_stdin(cli: Cli, server: dict[str, str], arguments: tuple[str]) -> None:
    """Each line of standard input is a payload."""
    done = cli("channel", "--raw", server["tcp"], *arguments, stdin=_numbers(5000))
    assert (done.returncode, done.stdout) == (0, _numbers(5000))


def test_channel_of_a_file(start_cli: StartCli, server: dict[str, str], tmp_path: Path) -> None:
    """Standard input may be a regular file."""
    (tmp_path / "lines").write_bytes(b"one\ntwo")
    with (tmp_path / "lines").open("rb") as file:
        process = start_cli("channel", "--raw", server["tcp"], stdin=file)
        assert process.communicate() == (b"one\ntwo\n", b"")


def test_channel_of_empty_stdin(cli: Cli, server: dict[str, str]) -> None:
    """Without a line of input no frame is sent and no item comes."""
    done = cli("channel", "--raw", server["tcp"])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_channel_dialogue(start_cli: StartCli, server: dict[str, str]) -> None:
    """Each line is sent when it is read and answered before the next; the end ends the channel."""
    process = start_cli("channel", "--raw", server["tcp"])
    assert process.stdin is not None
    assert process.stdout is not None
    for line in (b"one\n", b"two\n", b"\n", b"four\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline() == line
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0


def test_channel_control_c(start_cli: StartCli, server: dict[str, str]) -> None:
    """Ctrl-C works while no input comes."""
    process = start_cli("channel", "--raw", server["tcp"])
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"one\n"
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr.read() == b""


def test_channel_take(start_cli: StartCli, server: dict[str, str]) -> None:
    """--take ends a channel before its input ends."""
    process = start_cli("channel", "--raw", server["tcp"], "--take", "1")
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert process.wait() == 0
    assert process.communicate() == (b"one\n", b"")


def test_channel_unreadable_stdin(
    start_cli: StartCli, server: dict[str, str], tmp_path: Path
) -> None:
    """It is an error of one line."""
    with (tmp_path / "write-only").open("wb") as unreadable:
        process = start_cli("channel", "--raw", server["tcp"], stdin=unreadable)
        _, errors = process.communicate()
    assert process.returncode == 4
    assert errors == b"rsocket-trio: error: cannot read standard input: Bad file descriptor\n"
