"""The sources of a payload's bytes."""

import io
import sys
from pathlib import Path

import pytest

from rsocket_trio.cli.exits import LOCAL_IO, USAGE, Failure
from rsocket_trio.cli.payloads import read_bytes, read_lines, read_value


class _Stdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


class _BrokenStdin:
    class buffer:  # noqa: N801  as of a text stream
        @staticmethod
        def read() -> bytes:
            raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("", b""),
        ("text", b"text"),
        ("zwölf", "zwölf".encode()),
        ("@@home", b"@home"),
        ("0x41", b"0x41"),
        ("\udcff", b"\xff"),
    ],
)
def test_a_literal(argument: str, expected: bytes) -> None:
    """A literal is its own bytes, also if they are not UTF-8; @@ stands for @."""
    assert read_value(argument) == expected


def test_a_file(tmp_path: Path) -> None:
    """@FILE is the content of the file."""
    file = tmp_path / "data"
    file.write_bytes(b"\x00line\n")
    assert read_value(f"@{file}") == b"\x00line\n"


@pytest.mark.parametrize("name", ["missing", "nul\0", "."])
def test_an_unreadable_file(name: str) -> None:
    """It is wrong usage, with an error of one line."""
    with pytest.raises(Failure, match="cannot read") as caught:
        read_value(f"@{name}")
    assert caught.value.status == USAGE
    assert "\n" not in caught.value.message


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """- is all of standard input."""
    monkeypatch.setattr(sys, "stdin", _Stdin(b"a\nb\n"))
    assert read_value("-") == b"a\nb\n"


@pytest.mark.parametrize("stdin", [None, _BrokenStdin()])
def test_unreadable_stdin(monkeypatch: pytest.MonkeyPatch, stdin: object) -> None:
    """A standard input that is closed or fails has a status of its own."""
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(Failure, match="standard input") as caught:
        read_value("-")
    assert caught.value.status == LOCAL_IO


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("", b""), ("text", b"text"), ("0x", b""), ("0xfe 00", b"\xfe\x00")],
)
def test_bytes(argument: str, expected: bytes) -> None:
    """Metadata and data may be hexadecimal."""
    assert read_bytes(argument) == expected


def test_bad_hexadecimal() -> None:
    """0x and something else is wrong usage."""
    with pytest.raises(Failure, match="'0xz' is not hexadecimal") as caught:
        read_bytes("0xz")
    assert caught.value.status == USAGE


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_channel_reads_lines_of_stdin(arguments: list[str]) -> None:
    """It does so without a payload, or with -."""
    assert read_lines(arguments) is None


def test_payloads_of_lines(tmp_path: Path) -> None:
    """Literals are a payload each, a file is a payload a line, blank lines are empty payloads."""
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\nthree")
    empty = tmp_path / "empty"
    empty.touch()
    expected = [b"zero", b"one", b"", b"three", b"@four", b"five\nsix"]
    arguments = ["zero", f"@{file}", "@@four", f"@{empty}", "five\nsix"]
    assert read_lines(arguments) == expected


def test_the_last_newline(tmp_path: Path) -> None:
    """It begins no further payload, and no carriage return before it is in one."""
    file = tmp_path / "lines"
    for content in (b"one\ntwo\n", b"one\r\ntwo\r\n"):
        file.write_bytes(content)
        assert read_lines([f"@{file}"]) == [b"one", b"two"]


def test_stdin_among_payloads() -> None:
    """Standard input cannot be combined with other payloads."""
    with pytest.raises(Failure, match="cannot be combined"):
        read_lines(["one", "-"])
