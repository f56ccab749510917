"""Standard input and output without blocking trio."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.cli.exits import LOCAL_IO, Failure
from rsocket_trio.cli.stdio import LineReader, Writer


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe; a test may close either."""
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        with suppress(OSError):
            os.close(fd)


async def test_lines_as_they_come(pipe: tuple[int, int], nursery: trio.Nursery) -> None:
    """A line is returned at its newline; the rest waits for its newline, or for the end."""
    reader, writer = pipe
    lines: list[bytes] = []

    async def read() -> None:
        async for line in LineReader(reader):
            lines.append(line)
        lines.append(b"(end)")

    nursery.start_soon(read)
    steps = [
        (b"on", []),
        (b"e\ntw", [b"one"]),
        (b"o\n\nfo", [b"one", b"two", b""]),
        (b"ur", [b"one", b"two", b""]),
    ]
    for data, expected in steps:
        os.write(writer, data)
        await trio.testing.wait_all_tasks_blocked()
        assert lines == expected
    os.close(writer)
    while len(lines) < 5:
        await trio.lowlevel.checkpoint()
    assert lines[3:] == [b"four", b"(end)"]


@settings(max_examples=60)
@given(st.binary(max_size=40).map(lambda data: data.replace(b"x", b"\r\n")), st.data())
def test_input_may_be_cut_anywhere(data: bytes, draw: st.DataObject) -> None:
    """The lines are the same, however the input is cut into reads."""
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    reader, writer = os.pipe()

    async def read() -> list[bytes]:
        lines = LineReader(reader)
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            if begin < end:
                os.write(writer, data[begin:end])
                await lines._read()
        os.close(writer)
        return [line async for line in lines]

    try:
        expected = data.removesuffix(b"\n").split(b"\n") if data else []
        assert trio.run(read) == [line.removesuffix(b"\r") for line in expected]
    finally:
        os.close(reader)


@pytest.mark.parametrize("content", [b"", b"one\ntwo", b"one\ntwo\n", b"one\r\ntwo\r\n"])
async def test_lines_of_a_file(tmp_path: Path, content: bytes) -> None:
    """A regular file, which cannot be waited for, is read to its end."""
    file = tmp_path / "lines"
    file.write_bytes(content)
    with file.open("rb") as opened:
        lines = [line async for line in LineReader(opened.fileno())]
    assert lines == content.split()


async def test_waiting_for_a_line_is_cancelled(pipe: tuple[int, int]) -> None:
    """A read of input can be cancelled, and no input is lost by it."""
    lines = LineReader(pipe[0])
    with trio.move_on_after(0.001) as scope:
        await anext(lines)
    assert scope.cancelled_caught
    os.write(pipe[1], b"one\n")
    assert await anext(lines) == b"one"


async def test_unreadable_input(tmp_path: Path) -> None:
    """A file that is not open for reading is an error of one line."""
    with (tmp_path / "write-only").open("wb") as opened:
        with pytest.raises(Failure, match="Bad file descriptor") as caught:
            await anext(LineReader(opened.fileno()))
    assert caught.value.status == LOCAL_IO


async def test_closed_input(pipe: tuple[int, int]) -> None:
    """A closed one, as by <&- in a shell, is an error of one line."""
    os.close(pipe[0])
    with pytest.raises(Failure, match="Bad file descriptor"):
        await anext(LineReader(pipe[0]))


async def test_nonblocking_input(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """If another program has taken the input in between, the reader waits again."""
    os.set_blocking(pipe[0], False)
    os.write(pipe[1], b"theirs\n")
    read = os.read

    def steal(fd: int, size: int) -> bytes:
        monkeypatch.setattr(os, "read", read)
        assert read(fd, size) == b"theirs\n"
        os.write(pipe[1], b"ours\n")
        raise BlockingIOError

    monkeypatch.setattr(os, "read", steal)
    assert await anext(LineReader(pipe[0])) == b"ours"


async def test_writes_to_a_slow_reader(pipe: tuple[int, int], nursery: trio.Nursery) -> None:
    """A full pipe blocks only the writing task, and all bytes arrive once it is read."""
    reader, writer = pipe
    data = bytes(range(256)) * 4096
    done = trio.Event()

    async def write() -> None:
        await Writer(writer).write(data)
        done.set()

    nursery.start_soon(write)
    await trio.testing.wait_all_tasks_blocked()
    assert not done.is_set()
    arrived = bytearray()
    while len(arrived) < len(data):
        await trio.lowlevel.wait_readable(reader)
        arrived += os.read(reader, 65536)
    await done.wait()
    assert arrived == data


async def test_writes_to_a_file(tmp_path: Path) -> None:
    """A regular file, which cannot be waited for, is written."""
    with (tmp_path / "out").open("wb") as opened:
        await Writer(opened.fileno()).write(b"x" * 10_000)
    assert (tmp_path / "out").read_bytes() == b"x" * 10_000


async def test_a_reader_that_has_gone(pipe: tuple[int, int]) -> None:
    """A pipe without a reader is a BrokenPipeError, also for a task that waits on a full one."""
    reader, writer = pipe
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        await Writer(writer).write(b"x")


async def test_a_reader_that_leaves(pipe: tuple[int, int], nursery: trio.Nursery) -> None:
    """A task that waits on a full pipe gets an error when the reader leaves."""
    reader, writer = pipe
    told = trio.Event()

    async def write() -> None:
        with pytest.raises(BrokenPipeError):
            await Writer(writer).write(bytes(1_000_000))
        told.set()

    nursery.start_soon(write)
    await trio.testing.wait_all_tasks_blocked()
    os.close(reader)
    await told.wait()


async def test_a_full_device() -> None:
    """It is an error of one line."""
    with Path("/dev/full").open("wb", buffering=0) as full:
        with pytest.raises(Failure, match="No space left on device") as caught:
            await Writer(full.fileno()).write(b"x")
    assert caught.value.status == LOCAL_IO


async def test_nonblocking_output(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer waits again if the output is suddenly full."""
    write = os.write

    def full_once(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        raise BlockingIOError

    monkeypatch.setattr(os, "write", full_once)
    await Writer(pipe[1]).write(b"text")
    assert os.read(pipe[0], 100) == b"text"
