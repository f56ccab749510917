"""``decode``: its output and its exit status."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rsocket_trio
from rsocket_trio import lumberjack
from rsocket_trio.cli.main import main
from rsocket_trio.frames.dump import as_fields, describe

Cli = Callable[..., subprocess.CompletedProcess[bytes]]

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "rsocket.json").read_text()
)
FRAMES = [vector for vector in VECTORS if vector["kind"] in {"frame", "frame-lenient"}]
PING = "00000001100070696e67"


@pytest.mark.parametrize("tcp", [False, True])
def test_json_of_the_vectors(cli: Cli, tcp: bool) -> None:
    """Each golden frame, one a line of standard input, gives one object with its fields."""
    lines = "\n".join(vector["tcp_hex" if tcp else "hex"] for vector in FRAMES)
    arguments = ["--tcp"] if tcp else []
    done = cli("decode", "--protocol", "rsocket", "--json", "-", *arguments, stdin=lines.encode())
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(shown) == len(FRAMES)
    for vector, fields in zip(FRAMES, shown, strict=True):
        assert vector["fields"].items() <= fields.items(), vector["name"]
    assert (done.stderr, done.returncode) == (b"", 0)


def test_text_of_frames(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Without --json a frame is its description, then its metadata, one line each, in order."""
    frames = [vector["hex"] for vector in FRAMES[:5]]
    assert main(["decode", *frames]) == 0
    shown = capfdbinary.readouterr().out.decode().splitlines()
    for frame, line in zip(frames, shown, strict=True):
        assert line.startswith(describe(bytes.fromhex(frame)))


@pytest.mark.parametrize("text", ["0000 0001 1000 7069 6e67", f"0x{PING}", f" {PING.upper()}\t"])
def test_spellings_of_hexadecimal(capfdbinary: pytest.CaptureFixture[bytes], text: str) -> None:
    """Blanks inside, 0x before and capital letters are accepted."""
    assert main(["decode", "--json", text]) == 0
    assert json.loads(capfdbinary.readouterr().out) == as_fields(bytes.fromhex(PING))


def test_blank_lines_are_skipped(cli: Cli) -> None:
    """Blank lines are skipped; the last line needs no newline."""
    done = cli("decode", "--json", "-", stdin=f"\n{PING}\r\n   \n{PING}".encode())
    assert [json.loads(line)["stream_id"] for line in done.stdout.splitlines()] == [1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zz", "not pairs of hexadecimal digits: 'zz'"),
        ("123", "not pairs of hexadecimal digits: '123'"),
        ("z" * 99, "not pairs of hexadecimal digits: '" + "z" * 40 + "...'"),
        ("", "0 bytes"),
        ("00", "1 bytes"),
    ],
)
def test_malformed_input_is_an_error_line(
    capfdbinary: pytest.CaptureFixture[bytes], text: str, message: str
) -> None:
    """Malformed input gives an error line in its place, and the rest is still decoded."""
    assert main(["decode", "--json", text, PING]) == 1
    first, second = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert list(first) == ["error"]
    assert message in first["error"]
    assert second["type"] == "REQUEST_RESPONSE"


def test_errors_as_text(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Without --json an error is a line that begins with error:."""
    assert main(["decode", "00", PING]) == 1
    first, second = capfdbinary.readouterr().out.splitlines()
    assert first.startswith(b"error: ")
    assert second.startswith(b"REQUEST_RESPONSE")


def test_binary_stdin(cli: Cli) -> None:
    """Bytes that are not text are an error line, not a traceback."""
    done = cli("decode", "--json", "-", stdin=b"\xff\xfe\x00\n")
    assert list(json.loads(done.stdout)) == ["error"]
    assert (done.stderr, done.returncode) == (b"", 1)


def test_several_frames_with_length_prefixes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """They may follow one another, as in a capture."""
    assert main(["decode", "--tcp", "--json", f"00000a{PING}00000a{PING}"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "incomplete length prefix: 0 of 3 bytes"),
        ("0000", "incomplete length prefix: 2 of 3 bytes"),
        ("00000b" + PING, "incomplete frame: 10 of 11 bytes"),
        ("000000", "0 bytes"),
    ],
)
def test_malformed_length_prefixes(
    capfdbinary: pytest.CaptureFixture[bytes], text: str, message: str
) -> None:
    """A prefix that is cut short, longer than its frame, or of an empty frame is an error."""
    assert main(["decode", "--tcp", "--json", text]) == 1
    assert message in json.loads(capfdbinary.readouterr().out)["error"]


def test_closed_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is an error of one line."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["decode", "-"]) == 4
    assert capsys.readouterr().err == "rsocket-trio: error: standard input is closed\n"


def test_unreadable_stdin(start_cli: Callable[..., Any], tmp_path: Path) -> None:
    """It is an error of one line."""
    with (tmp_path / "write-only").open("wb") as unreadable:
        process = start_cli("decode", "-", stdin=unreadable)
        _, errors = process.communicate()
    assert process.returncode == 4
    assert errors == b"rsocket-trio: error: cannot read standard input: Bad file descriptor\n"


def test_lines_are_decoded_at_once(start_cli: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A line is decoded when it comes, not at the end of standard input."""
    process = start_cli("decode", "--json", "-")
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(3):
        process.stdin.write(f"{PING}\n".encode())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["stream_id"] == 1
    process.stdin.close()
    assert process.wait() == 0


def test_imports_are_few() -> None:
    """Decoding loads no module of the commands that connect, no trio, and no sockets."""
    program = (
        "import sys; before = set(sys.modules); "
        f"from rsocket_trio.cli.main import main; main(['decode', '{PING}']); "
        "names = set(sys.modules) - before; "
        "print({name for name in names if name.partition('.')[0] not in sys.stdlib_module_names})"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(rsocket_trio.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    loaded = ast.literal_eval(done.stdout.splitlines()[-1].decode())
    commands = {f"rsocket_trio.cli.{name}" for name in ("serve", "client", "bench", "stdio")}
    assert "rsocket_trio.cli.decode" in loaded
    assert {name.partition(".")[0] for name in loaded} == {"attr", "attrs", "rsocket_trio"}
    assert not loaded & {*commands, "rsocket_trio.sockets", "rsocket_trio.transports"}


DRAFT: list[dict[str, Any]] = [
    vector
    for vector in json.loads(
        (Path(__file__).parents[1] / "vectors" / "reactivesocket.json").read_text()
    )
    if vector["kind"] in {"v0-frame", "v0-frame-lenient"}
]


@pytest.mark.parametrize("tcp", [False, True])
def test_vectors_of_the_draft(cli: Cli, tcp: bool) -> None:
    """--protocol reactivesocket reads the frames of the draft, with and without their length."""
    lines = "\n".join(vector["tcp_hex" if tcp else "hex"] for vector in DRAFT)
    arguments = ["--tcp"] if tcp else []
    done = cli(
        "decode", "--protocol", "reactivesocket", "--json", "-", *arguments, stdin=lines.encode()
    )
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    for vector, fields in zip(DRAFT, shown, strict=True):
        assert vector["fields"].items() <= fields.items()
    assert (done.stderr, done.returncode) == (b"", 0)


def test_a_length_of_the_draft_must_count_itself(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Lengths below four are impossible, and a frame that is cut off is reported with its size."""
    arguments = ["decode", "--protocol", "reactivesocket", "--tcp"]
    assert main([*arguments, "00000003", "0000000c0003"]) == 1
    assert capfdbinary.readouterr().out == (
        b"error: the length is 3, but it includes itself, so 4 is the minimum\n"
        b"error: incomplete frame: 2 of 8 bytes\n"
    )


LUMBERJACK: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "lumberjack.json").read_text()
)["frames"]


@pytest.mark.parametrize("tcp", [False, True])
def test_vectors_of_lumberjack(cli: Cli, tcp: bool) -> None:
    """--protocol lumberjack prints all frames of a line; --tcp changes nothing."""
    lines = "\n".join(vector["hex"] for vector in LUMBERJACK)
    arguments = ["--tcp"] if tcp else []
    done = cli(
        "decode", "--protocol", "lumberjack", "--json", "-", *arguments, stdin=lines.encode()
    )
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    frames = [
        frame
        for vector in LUMBERJACK
        for frame in lumberjack.cut_frames(bytes.fromhex(vector["hex"]))
    ]
    assert shown == [lumberjack.as_fields(frame) for frame in frames]
    assert [each["inner_hex"] for each in shown if "inner_hex" in each] == [
        vector["inner_hex"] for vector in LUMBERJACK if "inner_hex" in vector
    ]
    assert (done.stderr, done.returncode) == (b"", 0)


def test_malformed_frames_of_lumberjack(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Frames before the malformed one are printed, and the next argument is decoded."""
    arguments = ["decode", "--protocol", "lumberjack"]
    assert main([*arguments, "324100000001 32", "324300000000", "31570000 0002"]) == 1
    assert capfdbinary.readouterr().out == (
        b"ACK version=2 sequence=1\n"
        b"error: the frame is cut off: there are 1 bytes of it\n"
        b"error: a compressed frame is empty\n"
        b"WINDOW version=1 window=2\n"
    )


TTRPC: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "ttrpc" / "vectors" / "ttrpc.json").read_text()
)["frames"]


@pytest.mark.parametrize("tcp", [False, True])
def test_vectors_of_ttrpc(cli: Cli, tcp: bool) -> None:
    """--protocol ttrpc prints the fields of each vector; --tcp changes nothing."""
    lines = "\n".join(vector["hex"] for vector in TTRPC)
    arguments = ["--tcp"] if tcp else []
    done = cli("decode", "--protocol", "ttrpc", "--json", "-", *arguments, stdin=lines.encode())
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert shown == [vector["decoded"] for vector in TTRPC]
    assert (done.stderr, done.returncode) == (b"", 0)


def test_malformed_frames_of_ttrpc(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Frames around the malformed one are printed; a frame that is cut off is the last one."""
    data, garbage = "000000000000000d0305", "00000002000000010200ffff"
    assert main(["decode", "--protocol", "ttrpc", f"{data} {garbage} {data}", data[:-2]]) == 1
    assert capfdbinary.readouterr().out == (
        b"DATA stream=13 flags=0x05 payload=0 bytes b''\n"
        b"error: Response, byte 0: a varint is cut off\n"
        b"DATA stream=13 flags=0x05 payload=0 bytes b''\n"
        b"error: incomplete header: 9 of 10 bytes\n"
    )


RSIO: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "rsio" / "vectors" / "rsio.json").read_text()
)["messages"]


@pytest.mark.parametrize("tcp", [False, True])
def test_vectors_of_rsio(cli: Cli, tcp: bool) -> None:
    """--protocol rsio prints the fields of each vector and its name; --tcp changes nothing."""
    lines = "\n".join(vector["hex"] for vector in RSIO)
    arguments = ["--tcp"] if tcp else []
    done = cli("decode", "--protocol", "rsio", "--json", "-", *arguments, stdin=lines.encode())
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert shown == [{"message": vector["message"], **vector["fields"]} for vector in RSIO]
    assert (done.stderr, done.returncode) == (b"", 0)


def test_the_sizes_of_elements_of_rsio(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A size that one argument declares is used for the next; a wrong message is the last one."""
    assert main(["decode", "--protocol", "rsio", "200204", "21020000002a 2202 00 2202"]) == 1
    assert capfdbinary.readouterr().out == (
        b"subscribed subscriber=2 elementSize=4\n"
        b"onNext subscriber=2 element=4 bytes b'\\x00\\x00\\x00*'\n"
        b"onComplete subscriber=2\n"
        b"error: unknown-type 0x00\n"
    )


LONG = PING + "aa" * 40
XXD = """00000000: 0000 0001 1000 7069 6e67 aaaa aaaa aaaa  ......ping......
00000010: aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa  ................
00000020: aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa  ................
00000030: aaaa                                     ..
"""
HEXDUMP = """00000000  00 00 00 01 10 00 70 69  6e 67 aa aa aa aa aa aa  |......ping......|
00000010  aa aa aa aa aa aa aa aa  aa aa aa aa aa aa aa aa  |................|
00000020  aa aa aa aa aa aa aa aa  aa aa aa aa aa aa aa aa  |................|
00000030  aa aa                                             |..|
00000032
"""


@pytest.mark.parametrize("dump", [XXD, HEXDUMP, f"{XXD}{HEXDUMP}", f"{HEXDUMP}{XXD}\n{LONG}\n"])
def test_dumps(cli: Cli, tmp_path: Path, dump: str) -> None:
    """Of xxd and hexdump -C, from standard input and from files; each begins at offset 0."""
    number = dump.count("00000000") + dump.count(LONG)
    expected = f"{describe(bytes.fromhex(LONG))}\n".encode() * number
    file = tmp_path / "dump"
    file.write_text(dump)
    for done in (cli("decode", "-", stdin=dump.encode()), cli("decode", f"@{file}")):
        assert (done.stdout, done.returncode) == (expected, 0)


def test_a_dump_without_lines_that_are_the_same(cli: Cli) -> None:
    """What hexdump leaves out cannot be read, and the error says how to get it."""
    done = cli("decode", "-", stdin=HEXDUMP.splitlines()[0].encode() + b"\n*\n00000040\n")
    assert b"make it with -v" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("width", [1, 2, 60, 99])
def test_wrapped_digits(cli: Cli, width: int) -> None:
    """With --wrapped a frame goes on to a blank line, wherever its lines are cut."""
    wrapped = "\n".join(LONG[at : at + width] for at in range(0, len(LONG), width))
    done = cli("decode", "--wrapped", "-", stdin=f"{wrapped}\n\n{wrapped}".encode())
    assert done.stdout == f"{describe(bytes.fromhex(LONG))}\n".encode() * 2
    assert done.returncode == 0


@pytest.mark.parametrize(
    "line",
    ["{}", "{", '{"hex": 5}', '{"hex": "zz"}', '{"hex": "00", "protocol": "no"}', "{" * 9999],
)
def test_lines_that_are_no_records(cli: Cli, line: str) -> None:
    """They are errors in their place."""
    done = cli("decode", "-", stdin=f"{line}\n{PING}\n".encode())
    first, second = done.stdout.splitlines()
    assert first == b"error: not a line of --wiretap-file"
    assert second.startswith(b"REQUEST_RESPONSE")


def test_files(cli: Cli, tmp_path: Path) -> None:
    """One that is not there is wrong usage; a name without @ gets a hint."""
    done = cli("decode", f"@{tmp_path}/no")
    assert (done.returncode, b"cannot read" in done.stderr) == (2, True)
    file = tmp_path / "frames"
    file.write_text(PING)
    assert b"@" + str(file).encode() + b" reads the file" in cli("decode", str(file)).stdout
