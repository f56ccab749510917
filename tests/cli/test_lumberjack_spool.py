"""``lumberjack serve --spool``, and ``spool info`` and ``spool read`` that show what is in it."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from rsocket_trio.cli import event_storage
from rsocket_trio.cli.event_storage import EventStorage
from rsocket_trio.cli.exits import LOCAL_IO, Failure
from rsocket_trio.cli.main import main
from rsocket_trio.lumberjack import encode_pairs
from rsocket_trio.spool import Batch, SpoolConfig, SpoolFailed, describe_spool, open_spool
from tests.cli.senders import Receiving, Sender

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]
Receive = Callable[..., Receiving]

ANY = ("--listen", "lumberjack://127.0.0.1:0")


@pytest.fixture
def receive(start_cli: StartCli) -> Receive:
    """Starts a receiver with the spool ``events``."""
    return lambda *options: Receiving(
        start_cli("lumberjack", "serve", *ANY, "--spool", "events", *options)
    )


def numbered(first: int, count: int, size: int = 0) -> list[bytes]:
    return [b'{"n":%d,"x":"%s"}' % (first + n, b"x" * size)
            for n in range(count)]  # fmt: skip


def read(cli: Cli, *options: str) -> list[dict[str, object]]:
    """The events in the spool."""
    done = cli("spool", "read", "events", *options)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_events_are_kept(receive: Receive, cli: Cli) -> None:
    """Acknowledged events are in the spool, also while it is open, and none is printed."""
    receiving = receive()
    with receiving.sender() as sender, receiving.sender(version=1) as old:
        sender.send(*numbered(0, 3))
        assert sender.acks(3) == [3]
        assert [event["n"] for event in read(cli)] == [0, 1, 2]
        old.send(encode_pairs([(b"line", b"one")]))
        assert old.acks(1) == [1]
        sender.send(*numbered(3, 2), level=0)
        assert sender.acks(2) == [2]
        host, port = sender.socket.getsockname()
    output, errors = receiving.stop(signal.SIGTERM)
    assert (output, receiving.process.returncode) == (b"", 0)
    assert "connections: 2, events: 6, acknowledged: 6" in errors
    assert [event.get("n", event) for event in read(cli)] == [0, 1, 2, {"line": "one"}, 3, 4]
    assert [event["n"] for event in read(cli, "--from", "1", "--take", "2")] == [1, 2]
    assert read(cli, "--from", "6") == []
    [shown] = read(cli, "--from", "4", "--take", "1", "--json")
    assert (shown["offset"], shown["event"]) == (4, {"n": 3, "x": ""})
    assert shown["peer"] == f"{host}:{port}"
    assert str(shown["stored_at"]).endswith("Z")


def test_progress_on_a_terminal(start_cli: StartCli) -> None:
    """On a terminal one line shows what is stored; it is removed at the end."""
    terminal, theirs = os.openpty()
    process = start_cli("lumberjack", "serve", *ANY, "--spool", "events", stderr=theirs)
    os.close(theirs)
    assert process.stdout is not None
    port = int(process.stdout.readline().rpartition(b":")[2])
    shown = b""
    with Sender(port) as sender:
        sender.send(*numbered(0, 3))
        assert sender.acks(3) == [3]
        while b"\r\x1b[Kevents: 3  connections: 1  spool: " not in shown:
            shown += os.read(terminal, 4096)
    process.send_signal(signal.SIGTERM)
    with suppress(OSError):  # the end of a terminal
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    assert process.wait(20) == 0
    assert b"bytes\r\x1b[K" in shown
    last = shown.splitlines()[-1].rpartition(b"\x1b[K")[2]
    assert last.endswith(b"connections: 1, events: 3, acknowledged: 3")


def test_a_killed_receiver_has_lost_nothing(receive: Receive, cli: Cli) -> None:
    """After SIGKILL and another start, all acknowledged events are there, and others follow."""
    receiving = receive()
    with receiving.sender() as sender:
        sender.send(*numbered(0, 100))
        assert sender.acks(100) == [100]
        receiving.stop(signal.SIGKILL)
    receiving = receive()
    with receiving.sender() as sender:
        sender.send(*numbered(100, 100))
        assert sender.acks(100) == [100]
    receiving.stop(signal.SIGTERM)
    assert [event["n"] for event in read(cli)] == list(range(200))


def test_a_second_process(receive: Receive, program: Cli) -> None:
    """It is an error of one line, which names the first process; that one goes on."""
    receiving = receive()
    done = program("lumberjack", "serve", *ANY, "--spool", "events")
    assert (done.returncode, done.stdout) == (2, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("rsocket-trio: error: ")
    assert f"is open for writing in process {receiving.process.pid}" in line
    with receiving.sender() as sender:
        sender.send(b"{}")
        assert sender.acks(1) == [1]


def test_a_directory_of_others(program: Cli, tmp_path: Path) -> None:
    """A directory with other files, or a file, is not taken for a spool."""
    (tmp_path / "other").write_text("text")
    for directory, message in ((".", "is not a spool"), ("other", "is a file")):
        done = program("lumberjack", "serve", *ANY, "--spool", directory)
        assert (done.returncode, done.stdout) == (2, b"")
        assert message in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", ["info", "read"])
async def test_a_damaged_spool(program: Cli, tmp_path: Path, command: str) -> None:
    """It is no wrong usage: the status is that of files that failed."""
    async with open_spool(tmp_path / "events") as spool:
        for _ in range(50):
            await spool.append(Batch(1, b"{}" * 2000, encoding="json-lines"))
    database = tmp_path / "events" / "spool.sqlite3"
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (database.stat().st_size - 4096))
    done = await trio.to_thread.run_sync(program, "spool", command, "events")
    assert done.returncode == 4, done.stderr
    assert b"malformed" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_path_through_a_file(program: Cli, tmp_path: Path) -> None:
    """The message says why the spool cannot be made."""
    (tmp_path / "file").write_text("text")
    done = program("lumberjack", "serve", *ANY, "--spool", "file/events")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"rsocket-trio: error: cannot use the spool 'file/events': Not a dir" in done.stderr


def test_a_full_spool(receive: Receive, cli: Cli) -> None:
    """Senders wait without an ACK; another start with more room goes on."""
    receiving = receive("--spool-size", "100K", "--grace", "0.2")
    with receiving.sender() as sender:
        sender.send(*numbered(0, 10, 6000), level=0)
        assert sender.acks(10) == [10]
        sender.send(*numbered(10, 10, 6000), level=0)
        receiving.until_logged("is full (102400 bytes): senders wait")
        sender.no_ack_for(0.3)
        receiving.process.send_signal(signal.SIGTERM)
        assert sender.acks(10) == []
    assert receiving.end()[0] == b""
    receiving = receive("--spool-size", "1M")
    with receiving.sender() as sender:
        sender.send(*numbered(10, 10, 6000), level=0)
        assert sender.acks(10) == [10]
    receiving.stop(signal.SIGTERM)
    assert [event["n"] for event in read(cli)] == list(range(20))


@pytest.mark.parametrize("option", [("--keep-size", "64K"), ("--keep-age", "0.1")])
def test_retention(receive: Receive, cli: Cli, option: tuple[str, str]) -> None:
    """Old events are deleted, so the spool does not fill up."""
    receiving = receive("--spool-size", "100K", *option)
    with receiving.sender() as sender:
        for batch in range(20):
            sender.send(*numbered(10 * batch, 10, 2000), level=0)
            assert sender.acks(10) == [10]
    receiving.stop(signal.SIGTERM)
    found = json.loads(cli("spool", "info", "events", "--json").stdout)
    assert found["head"] == 200
    assert found["oldest"] > 0
    assert found["size"] <= 100 * 1024


def test_a_batch_larger_than_the_spool(receive: Receive) -> None:
    """It closes its connection, with a line in the log; others are stored."""
    receiving = receive("--spool-size", "10K")
    with receiving.sender() as sender:
        sender.send(*numbered(0, 1, 20_000), level=0)
        assert sender.acks(1) == []
    with receiving.sender() as sender:
        sender.send(b"{}")
        assert sender.acks(1) == [1]
    _, errors = receiving.stop(signal.SIGTERM)
    assert "does not fit into a spool of 10240 bytes" in errors
    assert "Traceback" not in errors


async def test_a_full_spool_that_gets_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Both are logged, each once."""
    monkeypatch.setattr(event_storage, "_INTERVAL", 0.01)
    caplog.set_level("INFO")

    async def until_logged(text: str) -> None:
        with trio.fail_after(20):
            while text not in caplog.text:
                await trio.sleep(0.01)

    async with (
        open_spool(tmp_path / "events", max_size=1000) as spool,
        trio.open_nursery() as tasks,
    ):
        storage = EventStorage(spool, quiet=True)
        tasks.start_soon(storage.watch, None)
        await spool.append(Batch(1, bytes(500), encoding="x"))
        tasks.start_soon(spool.append, Batch(1, bytes(500), encoding="x"))
        await until_logged("is full (1000 bytes): senders wait")
        assert "--keep-age: it has no consumer" in caplog.text
        await spool.commit("consumer", 1)
        await until_logged("has room again")
        assert caplog.text.count("the spool in") == 2
        caplog.clear()
        tasks.start_soon(spool.append, Batch(1, bytes(500), encoding="x"))
        await until_logged("its oldest event is kept for consumer, which is at 1")
        assert "--keep" not in caplog.text  # they delete nothing that a consumer needs
        tasks.cancel_scope.cancel()


async def test_a_spool_that_gets_room_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That it is full has just been logged. That it has room is logged all the same."""
    monkeypatch.setattr(event_storage, "_INTERVAL", 0)
    monkeypatch.setattr(event_storage, "store_in", lambda _spool: None)  # nothing is stored here
    caplog.set_level("INFO")
    looks = [True] * 3 + [False] * 3

    class Looks:
        directory, max_size = "events", 1000

        @property
        def full(self) -> bool:
            if not looks:
                storage._failed.set()
                storage._failure = SpoolFailed("the end")
            return looks.pop(0) if looks else False

        def instances(self) -> list[object]:
            return []

    storage = EventStorage(cast("Any", Looks()), quiet=True)
    with pytest.raises(Failure, match="the end"):
        await storage.watch(cast("Any", None))
    assert [line.partition("events ")[2][:8] for line in caplog.messages] == [
        "is full ",
        "has room",
    ]


async def test_a_spool_that_fails_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends with an error, as no event can be stored any more."""
    async with open_spool(tmp_path / "events") as spool:
        storage = EventStorage(spool, quiet=True)

        async def fail(batch: object) -> None:
            raise SpoolFailed("the database is damaged")

        monkeypatch.setattr(storage, "_store", fail)
        failures: list[Failure] = []

        async def watch() -> None:
            try:
                await storage.watch(None)  # type: ignore[arg-type]  needed for progress only
            except Failure as failure:
                failures.append(failure)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            with pytest.raises(SpoolFailed):
                await storage.handle(None)  # type: ignore[arg-type]  not used by `fail`
        assert [(each.message, each.status) for each in failures] == [
            ("the database is damaged", LOCAL_IO)
        ]


def test_invalid_events(receive: Receive, cli: Cli) -> None:
    """They are kept as they came. ``spool read`` shows them, and ends with status 1."""
    receiving = receive()
    with receiving.sender() as sender:
        sender.send(b'{"n":1}', b'{"n":\x1b', b"\xff", b'{"n":2}')
        assert sender.acks(4) == [4]
    done = cli("spool", "read", "events")
    assert (done.returncode, done.stdout) == (1, b'{"n":1}\n{"n":2}\n')
    assert done.stderr.decode().splitlines() == [
        "rsocket-trio: an event from offset 1 is not JSON at character 5: {\"n\":\\x1b",
        "rsocket-trio: an event from offset 2 is not UTF-8 at byte 0: \\xff",
    ]  # fmt: skip
    done = cli("spool", "read", "events", "--json")
    assert (done.returncode, done.stderr) == (1, b"")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["offset"] for each in shown] == [0, 1, 2, 3]
    assert (shown[1]["invalid_event"], shown[1]["reason"]) == (
        '{"n":\x1b',
        "is not JSON at character 5",
    )
    assert shown[2]["invalid_event_hex"] == "ff"


def test_follow(receive: Receive, start_cli: StartCli) -> None:
    """``spool read --follow`` prints events as they come, until a signal."""
    receiving = receive()
    with receiving.sender() as sender:
        sender.send(*numbered(0, 2))
        sender.acks(2)
        reading = start_cli("spool", "read", "events", "--follow", "--from", "1")
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert json.loads(reading.stdout.readline())["n"] == 1
        sender.send(*numbered(2, 2))
        assert [json.loads(reading.stdout.readline())["n"] for _ in range(2)] == [2, 3]
    reading.send_signal(signal.SIGINT)
    assert reading.wait(20) == 130
    assert reading.stderr.read() == b""


def test_the_last_events(receive: Receive, cli: Cli, start_cli: StartCli) -> None:
    """``--last`` counts from the end, and ``--follow`` goes on from there."""
    receiving = receive()
    with receiving.sender() as sender:
        sender.send(*numbered(0, 3))
        sender.acks(3)
        for last, found in (("2", [1, 2]), ("9", [0, 1, 2])):
            done = cli("spool", "read", "events", "--last", last)
            assert [json.loads(line)["n"] for line in done.stdout.splitlines()] == found
        reading = start_cli("spool", "read", "events", "--last", "1", "--follow", "--take", "3")
        assert reading.stdout is not None
        assert json.loads(reading.stdout.readline())["n"] == 2
        sender.send(*numbered(3, 2))
        sender.acks(2)
    output, errors = reading.communicate(timeout=20)
    assert [json.loads(line)["n"] for line in output.splitlines()] == [3, 4]
    assert (errors, reading.returncode) == (b"", 0)
    assert cli("spool", "read", "events", "--last", "1", "--from", "0").returncode == 2


def test_the_last_events_of_an_empty_spool(
    receive: Receive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """With ``--follow``, all events that come are printed, also if more come at once."""
    receiving = receive()
    with receiving.sender() as sender:

        def wait(seconds: float) -> None:
            sender.send(*numbered(0, 3))
            sender.acks(3)

        monkeypatch.setattr("time.sleep", wait)
        command = ["spool", "read", str(tmp_path / "events"), "--last", "1", "--follow"]
        assert main([*command, "--take", "3"]) == 0
    output = capfdbinary.readouterr().out
    assert [json.loads(line)["n"] for line in output.splitlines()] == [0, 1, 2]


def test_follow_to_a_number(receive: Receive, start_cli: StartCli) -> None:
    """With --take it ends after so many events."""
    receiving = receive()
    with receiving.sender() as sender:
        reading = start_cli("spool", "read", "events", "--follow", "--take", "3")
        for first in (0, 2):
            sender.send(*numbered(first, 2))
            sender.acks(2)
    output, errors = reading.communicate(timeout=20)
    assert [json.loads(line)["n"] for line in output.splitlines()] == [0, 1, 2]
    assert (errors, reading.returncode) == (b"", 0)


def test_a_reader_that_has_gone(receive: Receive, start_cli: StartCli) -> None:
    """``spool read`` ends without a message when its output is not read any more."""
    receiving = receive()
    with receiving.sender() as sender:
        sender.send(*numbered(0, 1000, 200))
        sender.acks(1000)
    reading = start_cli("spool", "read", "events")
    assert reading.stdout is not None
    assert reading.stderr is not None
    reading.stdout.readline()
    reading.stdout.close()
    assert reading.wait(20) == 141
    assert reading.stderr.read() == b""


async def _fill(directory: Path) -> None:
    async with open_spool(directory) as spool:
        lines = b"".join(numbered(0, 3)).replace(b"}", b"}\n")
        await spool.append(Batch(3, lines, encoding="json-lines"))
        await spool.append(Batch(2, b"??", encoding="other"))
        await spool.commit("report\x1b", 2)


def test_info(cli: Cli, tmp_path: Path) -> None:
    """``spool info`` prints the numbers as text or JSON."""
    trio.run(_fill, tmp_path / "events")
    done = cli("spool", "info", "events", "--json")
    assert done.returncode == 0
    shown = json.loads(done.stdout)
    assert (shown["oldest"], shown["head"], shown["events"], shown["batches"]) == (0, 5, 5, 2)
    assert shown["consumers"] == {"report\x1b": 2}
    lines = cli("spool", "info", "events").stdout.decode().splitlines()
    assert lines[0] == f"spool id     {shown['spool_id']}"
    assert lines[-2] == "consumers    report\\x1b 2"
    last = r"instances    report\\x1b at 2, lag 3 \(\d+ s\), last seen \d+ s ago"
    assert re.fullmatch(last, lines[-1])
    assert f"newest at    {shown['newest_at']}" in lines
    assert shown["oldest_at"] <= shown["newest_at"]
    [instance] = shown["instances"]
    assert (instance["lag"], instance["lease"], instance["lease_left"]) == (3, None, None)
    assert 0 < instance["lag_seconds"] < 100


def test_times(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first event of a time on, up to that of another one."""
    start = 1_700_000_000  # 2023-11-14T22:13:20Z
    clock = iter([start, start, start + 60, start + 30, start + 3600])  # first: the opening

    async def fill() -> None:
        with monkeypatch.context() as patched:
            patched.setattr("rsocket_trio.spool.ages.now", lambda: next(clock))
            async with open_spool(tmp_path / "events") as spool:
                for number in range(4):
                    text = b'{"n":%d}\n{"n":%d}\n' % (2 * number, 2 * number + 1)
                    await spool.append(Batch(2, text, encoding="json-lines"))

    trio.run(fill)
    monkeypatch.setattr("time.time", lambda: start + 3660.0)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for options, expected in (
            (("--since", "2023-11-14T22:14Z"), range(2, 8)),
            (("--since", "2023-11-14 23:14"), range(2, 8)),
            (("--since", "20231114T221420+0000", "--take", "1"), [2]),
            (("--since", "2023-11-14T22:14:20.000001Z"), [6, 7]),
            (("--since", "61min", "--until", "60 min ago"), [0, 1]),
            (("--since", "1h", "--until", "1m"), range(2, 6)),
            (("--until", "7d"), []),
            (("--until", "0s", "--from", "3"), range(3, 8)),
            (("--since", "0s"), []),
            (("--since", "999999999d"), range(8)),
            (("--last", "3", "--until", "1m"), [5]),
        ):
            assert [each["n"] for each in read(cli, *options)] == list(expected), options
        for wrong, why in (
            (("--since", "yesterday"), "'yesterday' is no time, such as 2026-11-27T14:00"),
            (("--since", "0001-01-01"), "'0001-01-01' is no time"),
            (("--since", "1h", "--until", "2h"), "--until is before --since"),
            (("--since", "1h", "--last", "2"), "not allowed with"),
            (("--until", "1h", "--follow"), "not allowed with"),
        ):
            done = cli("spool", "read", "events", *wrong)
            assert (done.returncode, done.stdout) == (2, b""), wrong
            assert why in done.stderr.decode()
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "absent"], "absent is not a spool: there is no such directory"),
        (["read", "absent"], "absent is not a spool: there is no such directory"),
        (["read", "events", "--from", "6"], "offset 6 is beyond the head of the spool, 5"),
        (
            ["read", "events", "--from", "3"],
            "the batch at offset 3 has the encoding 'other'",
        ),
    ],
)
def test_what_cannot_be_read(cli: Cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    """It is an error of one line, with status 2."""
    trio.run(_fill, tmp_path / "events")
    done = cli("spool", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"rsocket-trio: error: {message}")
    assert done.stderr.count(b"\n") == 1


def test_a_consumer_is_forgotten(cli: Cli, tmp_path: Path) -> None:
    """Its events are not kept for it any more; no event is deleted by this command."""
    trio.run(_fill, tmp_path / "events")
    done = cli("spool", "forget", "events", "reprot")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"events has no consumer reprot: there are report\\x1b\n" in done.stderr
    done = cli("spool", "forget", "events", "report\x1b")
    assert (done.returncode, done.stdout) == (0, b"forgot report\\x1b, which was at 2\n")
    found = describe_spool(tmp_path / "events")
    assert (found.positions, found.oldest, found.head) == ({}, 0, 5)
    assert cli("spool", "forget", "events", "report\x1b").returncode == 2


def test_forgetting_needs_the_spool_alone(cli: Cli, tmp_path: Path) -> None:
    """The error names the process that has it, and nothing changes."""
    trio.run(_fill, tmp_path / "events")

    async def hold() -> None:
        async with open_spool(tmp_path / "events"):
            done = await trio.to_thread.run_sync(cli, "spool", "forget", "events", "report\x1b")
            assert done.returncode == 2
            assert f"open for writing in process {os.getpid()}" in done.stderr.decode()

    trio.run(hold)
    assert describe_spool(tmp_path / "events").positions == {"report\x1b": 2}
    assert cli("spool", "forget", "absent", "x").returncode == 2


def test_a_wrong_offset(cli: Cli) -> None:
    """An offset is a whole number from 0 on."""
    for text in ("-1", "x", "1.0"):
        done = cli("spool", "read", "events", f"--from={text}")
        assert done.returncode == 2
        assert f"{text!r} is not an offset" in done.stderr.decode()


def test_a_directory_that_somebody_has_prepared(cli: Cli, tmp_path: Path) -> None:
    """It is told from a spool with the status of wrong usage, and is not read."""

    async def make() -> None:
        async with open_spool(tmp_path / "events"):
            pass

    trio.run(make)
    with sqlite3.connect(tmp_path / "events/spool.sqlite3") as connection:
        connection.execute("DROP TABLE batches")
        endless = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i FROM n)"
        connection.execute(f"CREATE VIEW batches AS {endless} SELECT i AS first FROM n")
    connection.close()
    for words in (("info", "events"), ("read", "events"), ("forget", "events", "x")):
        done = cli("spool", *words)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"has a view named 'batches'" in done.stderr


def test_a_spool_for_a_group(receive: Receive, cli: Cli, tmp_path: Path) -> None:
    """The option opens it, and `spool forget` leaves it open."""
    receive("--group-readers").stop(signal.SIGTERM)
    where = tmp_path / "events"
    assert where.stat().st_mode & 0o777 == 0o770

    async def commit() -> None:
        async with open_spool(where, config=SpoolConfig(group_readers=True)) as spool:
            await spool.commit("me", 0)

    trio.run(commit)
    assert cli("spool", "forget", "events", "me").returncode == 0
    assert (where / "spool.sqlite3").stat().st_mode & 0o777 == 0o660
    receive().stop(signal.SIGTERM)
    assert (where / "spool.sqlite3").stat().st_mode & 0o777 == 0o600
