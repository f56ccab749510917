"""Files are shipped line by line: once, followed, rotated, truncated, deleted, resumed."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import shutil
from pathlib import Path

import pytest
import trio

from rsocket_trio.logfiles import EventWriter, FilesMissing, Following, MultilineRule, Registry
from rsocket_trio.logfiles.tail import Tail
from rsocket_trio.testing import assert_no_leaks
from tests.logfiles.shipping import (
    FOLLOWING,
    Receiver,
    following,
    looked,
    positions,
    ship_once,
    shipment_of,
)


@pytest.fixture
async def receiver():
    return Receiver()


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


async def test_files_are_shipped_to_their_ends(tmp_path, receiver):
    """In the order in which they are named, also a last line without a line end."""
    (tmp_path / "a.log").write_bytes(b"1\n2\r\n3")
    (tmp_path / "b.log").write_bytes(b"4\n\n5\n")
    (tmp_path / "empty.log").touch()
    async with assert_no_leaks():
        done, counts = await ship_once(tmp_path, receiver, "b.log", "a.log", "empty.log")
    assert done
    assert receiver.messages == ["4", "", "5", "1", "2", "3"]
    assert [event["log"]["offset"] for event in receiver.events] == [0, 2, 3, 0, 2, 5]
    assert receiver.events[0]["log"]["file"]["path"] == str(tmp_path / "b.log")
    assert (counts.acknowledged_lines, counts.acknowledged_bytes, counts.files) == (6, 11, 0)


async def test_the_second_run_ships_what_is_new(tmp_path, receiver):
    file = tmp_path / "a.log"
    append(file, "1", "2")
    await ship_once(tmp_path, receiver, "a.log")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2"]
    append(file, "3")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2", "3"]


async def test_files_that_are_missing(tmp_path, receiver, caplog):
    """All are named before anything is sent, and the others are sent."""
    named_before = []

    async def send(events):
        named_before.append(caplog.text)
        await Receiver.send(receiver, events)

    receiver.send = send
    append(tmp_path / "a.log", "1")
    (tmp_path / "directory").mkdir()
    with pytest.raises(FilesMissing) as missing:
        await ship_once(tmp_path, receiver, "b.log", "a.log", "directory", "*.txt")
    for text in (str(missing.value), named_before[0]):
        assert f"{tmp_path / 'b.log'}" in text
        assert "No such file" in text
        assert "it is a directory" in text
        assert "no file matches" in text
    assert receiver.messages == ["1"]
    receiver.send = None
    with pytest.raises(FilesMissing, match="No such file"):
        await ship_once(tmp_path, receiver, "b.log")


async def test_many_files_that_are_missing(tmp_path, receiver):
    """An error is no longer than one can read."""
    with pytest.raises(FilesMissing, match=r"19\.log: [^;]*; and 80 more$"):
        await ship_once(tmp_path, receiver, *[f"{number}.log" for number in range(100)])


async def test_a_pattern_takes_the_oldest_file_first_and_no_compressed_ones(tmp_path, receiver):
    for number, name in enumerate(["app.log.2", "app.log.1", "app.log", "app.log.3.gz"]):
        append(tmp_path / name, name)
        os.utime(tmp_path / name, (1000 + number, 1000 + number))
    await ship_once(tmp_path, receiver, "app.log*")
    assert receiver.messages == ["app.log.2", "app.log.1", "app.log"]


async def test_a_name_with_brackets_is_a_file_if_it_exists(tmp_path, receiver):
    append(tmp_path / "a[1].log", "brackets")
    append(tmp_path / "a1.log", "pattern")
    await ship_once(tmp_path, receiver, "a[1].log")
    assert receiver.messages == ["brackets"]


async def test_a_file_with_two_names_is_shipped_once(tmp_path, receiver):
    append(tmp_path / "a.log", "1")
    os.link(tmp_path / "a.log", tmp_path / "b.log")
    os.symlink(tmp_path / "a.log", tmp_path / "c.log")
    await ship_once(tmp_path, receiver, "a.log", "b.log", "c.log", "*.log")
    assert receiver.messages == ["1"]


async def test_growth_is_followed(tmp_path, receiver):
    """A line is shipped when its line end comes."""
    file = tmp_path / "a.log"
    append(file, "1")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        with file.open("a") as out:
            out.write("2 begins")
        await looked(shipment)
        assert receiver.messages == ["1"]
        append(file, ", and ends", "3")
        await receiver.until(lambda r: r.messages == ["1", "2 begins, and ends", "3"])


async def test_a_file_that_comes_later(tmp_path, receiver, caplog):
    async with following(tmp_path, receiver, "a.log", "*.txt") as shipment:
        await looked(shipment, 5)
        append(tmp_path / "a.log", "1")
        append(tmp_path / "b.txt", "2")
        await receiver.until(lambda r: sorted(r.messages) == ["1", "2"])
    waiting = [record for record in caplog.records if "cannot read" in record.getMessage()]
    assert len(waiting) == 2, "each problem is logged once"


async def test_rotation_by_rename(tmp_path, receiver):
    """The old file is finished first, and read on while its writer still has it open."""
    file = tmp_path / "a.log"
    append(file, "1")
    patient = Following(poll=0.003, close_after=1)
    async with following(tmp_path, receiver, "a.log", following=patient) as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        with file.open("a") as old:
            old.write("2\n")
            old.flush()
            file.rename(tmp_path / "a.log.1")
            append(file, "3")
            await receiver.until(lambda r: r.messages == ["1", "2", "3"])
            old.write("4\n5 has no end")
            old.flush()
            await receiver.until(lambda r: "4" in r.messages)
        append(file, "6")
        await receiver.until(lambda r: {"5 has no end", "6"} <= set(r.messages))
        await receiver.until(lambda _: shipment.counts.files == 1)
    assert len(receiver.messages) == 6


async def test_rotation_inside_a_pattern(tmp_path, receiver):
    """A file that gets another name of the pattern is no new file."""
    file = tmp_path / "a.log"
    append(file, "1")
    async with following(tmp_path, receiver, "a.log*") as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        file.rename(tmp_path / "a.log.1")
        append(file, "2")
        await receiver.until(lambda r: r.messages == ["1", "2"])
        await looked(shipment)
    assert receiver.messages == ["1", "2"]
    await ship_once(tmp_path, receiver, "a.log*")
    assert receiver.messages == ["1", "2"]


async def test_a_file_that_was_renamed_while_no_process_read_it(tmp_path, receiver):
    """It is finished first, under the name that it had."""
    file = tmp_path / "a.log"
    append(file, "1")
    await ship_once(tmp_path, receiver, "a.log")
    append(file, "2")
    file.rename(tmp_path / "a.log.1")
    append(file, "3")
    async with following(tmp_path, receiver, "a.log"):
        await receiver.until(lambda r: len(r.messages) == 3)
    assert receiver.messages == ["1", "2", "3"]
    assert {event["log"]["file"]["path"] for event in receiver.events} == {str(file)}
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2", "3"]


async def test_a_file_that_was_truncated(tmp_path, receiver):
    """It is read from its beginning again: when it is shorter, and when it begins differently."""
    file = tmp_path / "a.log"
    append(file, "first", "second")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: len(r.messages) == 2)
        file.write_bytes(b"3\n")
        await receiver.until(lambda r: r.messages[2:] == ["3"])
        file.write_bytes(b"4 is longer than what was there before\n")
        await receiver.until(lambda r: r.messages[3:] == ["4 is longer than what was there before"])
        assert shipment.counts.truncations == 2
    append(file, "5")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages[4:] == ["5"]


async def test_an_unfinished_line_before_a_truncation(tmp_path, receiver):
    """It is shipped, because its rest will never come."""
    file = tmp_path / "a.log"
    file.write_bytes(b"1\nno end")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        await looked(shipment)
        file.write_bytes(b"2\n")
        await receiver.until(lambda r: r.messages == ["1", "no end", "2"])


async def test_truncation_while_acknowledgements_are_outstanding(tmp_path, receiver):
    """An acknowledgement for the old content does not move the offset in the new content."""
    file = tmp_path / "a.log"
    append(file, *"123456789")
    receiver.hold = True
    async with following(tmp_path, receiver, "a.log", grace=0) as shipment:
        await receiver.until(lambda r: len(r.seen) == 9)
        file.write_bytes(b"a\n")
        await receiver.until(lambda r: len(r.seen) == 10)
        receiver.hold = False
        await receiver.until(lambda r: len(r.events) == 10)
        append(file, "b")
        await receiver.until(lambda r: len(r.events) == 11)
        assert shipment.counts.waiting == 0
    (position,) = positions(tmp_path)
    assert position.offset == 4
    assert position.fingerprint.size in {2, 4}


async def test_a_deleted_file_is_read_to_its_end_and_forgotten(tmp_path, receiver):
    file = tmp_path / "a.log"
    append(file, "1")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        append(file, "2")
        file.unlink()
        await receiver.until(lambda r: r.messages == ["1", "2"])
        await receiver.until(lambda _: shipment.counts.files == 0)
    assert positions(tmp_path) == []


async def test_an_inode_that_is_used_again(tmp_path, receiver):
    """The new file is no continuation of the old one, even if it is longer."""
    file = tmp_path / "a.log"
    append(file, "1", "2")
    await ship_once(tmp_path, receiver, "a.log")
    inode = file.stat().st_ino
    # The same as a deletion and a new file on a file system that uses the inode again.
    file.write_bytes(b"another file\nwith more lines\n")
    assert file.stat().st_ino == inode
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2", "another file", "with more lines"]


async def test_multiline_waits_for_its_timeout(tmp_path, receiver, monkeypatch):
    """And then for more of the file, without reading it all the time."""
    reads, read = [], Tail.read
    monkeypatch.setattr(Tail, "read", lambda tail: reads.append(tail) or read(tail))
    rule = MultilineRule(start=re.compile(r"^\d"), timeout=0.05)
    file = tmp_path / "a.log"
    append(file, "1", " at a")
    async with following(tmp_path, receiver, "a.log", multiline=rule) as shipment:
        append(file, " at b")
        await receiver.until(lambda r: r.messages == ["1\n at a\n at b"])
        await looked(shipment)
        reads.clear()
        await looked(shipment, 10)
        assert len(reads) <= 10
        append(file, "2")
        await looked(shipment)
        append(file, "3")
        await receiver.until(lambda r: r.messages[1:] == ["2", "3"])
    assert receiver.events[0]["log"]["flags"] == ["multiline"]


async def test_multiline_waits_as_long_as_its_timeout_says(tmp_path, receiver):
    rule = MultilineRule(start=re.compile(r"^\d"), timeout=3600)
    append(tmp_path / "a.log", "1", " at a")
    async with following(tmp_path, receiver, "a.log", multiline=rule) as shipment:
        await looked(shipment, 10)
        assert receiver.messages == []
        append(tmp_path / "a.log", " at b", "2")
        await receiver.until(lambda r: r.messages == ["1\n at a\n at b"])


async def test_multiline_at_the_end_of_a_file(tmp_path, receiver):
    rule = MultilineRule(continues=re.compile(r"^\s"))
    (tmp_path / "a.log").write_bytes(b"1\n 2\n3\n 4")
    await ship_once(tmp_path, receiver, "a.log", multiline=rule)
    assert receiver.messages == ["1\n 2", "3\n 4"]


async def test_batches_on_the_way_are_bounded(tmp_path, receiver):
    """Also with many files."""
    for number in range(10):
        append(tmp_path / f"{number}.log", *map(str, range(50)))
    receiver.hold = True
    async with following(tmp_path, receiver, "*.log", max_events=5, in_flight=3) as shipment:
        await receiver.until(lambda r: r.most_at_once == 3)
        await looked(shipment, 5)
        assert len(receiver.seen) == 15
        receiver.hold = False
        await receiver.until(lambda r: len(r.events) == 500)
    assert receiver.most_at_once == 3


async def test_events_of_a_file_leave_in_order(tmp_path):
    """Also if they are acknowledged in another order, and the offset follows."""
    receiver = Receiver(jitter=3)
    append(tmp_path / "a.log", *map(str, range(2000)))
    await ship_once(tmp_path, receiver, "a.log", max_events=7, in_flight=8)
    assert [event["message"] for event in receiver.seen] == [str(n) for n in range(2000)]
    assert sorted(receiver.messages, key=int) != receiver.messages
    (position,) = positions(tmp_path)
    assert position.offset == (tmp_path / "a.log").stat().st_size


async def test_stop_waits_for_acknowledgements(tmp_path, receiver):
    append(tmp_path / "a.log", "1", "2")
    receiver.hold = True
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: len(r.seen) == 2)
        shipment.stop(20)
        await trio.sleep(0.01)
        receiver.hold = False
    assert receiver.messages == ["1", "2"]
    (position,) = positions(tmp_path)
    assert position.offset == 4


async def test_stop_waits_no_longer_than_its_grace(tmp_path, receiver):
    """What is not acknowledged comes again in the next run."""
    append(tmp_path / "a.log", "1", "2")
    receiver.hold = True
    async with following(tmp_path, receiver, "a.log", grace=0):
        await receiver.until(lambda r: len(r.seen) == 2)
    assert receiver.messages == []
    receiver.hold = False
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2"]


async def test_a_failing_sender_ends_the_shipment(tmp_path, receiver):
    """With its own exception, and what was acknowledged before is remembered."""
    append(tmp_path / "a.log", *map(str, range(10)))

    async def send(events):
        await trio.lowlevel.checkpoint()
        if b'"3"' in events[0]:
            raise ZeroDivisionError("as itself")

    receiver.send = send
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="as itself"):
            await ship_once(tmp_path, receiver, "a.log", max_events=1, in_flight=1)
        (position,) = positions(tmp_path)
        assert position.offset == 6


async def test_a_failure_while_a_file_is_followed_ends_the_shipment(
    tmp_path, receiver, monkeypatch
):
    """With its own exception: no nursery makes a group of it."""
    append(tmp_path / "a.log", "1")

    def failing_write(*_args):
        raise ZeroDivisionError("as itself")

    monkeypatch.setattr(EventWriter, "write", failing_write)
    registry = Registry(None)
    shipment = shipment_of(tmp_path, receiver, "a.log", registry=registry)
    with trio.fail_after(20), pytest.raises(ZeroDivisionError, match="as itself"):
        await shipment.run()


@pytest.mark.parametrize(("place", "name"), [(os, "pread"), (Tail, "read")], ids=["all", "more"])
async def test_a_file_that_cannot_be_read_any_more(
    tmp_path, receiver, monkeypatch, caplog, place, name
):
    """Following goes on: the file is opened again, at the acknowledged offset.

    It is a problem until then, also if it can be opened meanwhile.
    """
    caplog.set_level(logging.INFO)
    file = tmp_path / "a.log"
    append(file, "1")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        with monkeypatch.context() as patched:
            patched.setattr(place, name, failing)
            append(file, "2")
            await receiver.until(lambda _: shipment.problems)
        await receiver.until(lambda r: r.messages == ["1", "2"])
        await receiver.until(lambda _: not shipment.problems)
    begun, over = (
        caplog.text.count(text) for text in ("cannot read", "it was: Input/output error")
    )
    assert begun == over <= 2, "once as it comes, once when it is over; again if it is opened again"


async def test_a_file_that_cannot_be_read_and_is_deleted(tmp_path, receiver, monkeypatch):
    """It is no problem any more."""
    append(tmp_path / "a.log", "1")
    monkeypatch.setattr(Tail, "read", failing)
    async with following(tmp_path, receiver, "*.log") as shipment:
        await receiver.until(lambda _: shipment.problems)
        (tmp_path / "a.log").unlink()
        await receiver.until(lambda _: "a.log" not in str(shipment.problems))


def failing(*_args):
    raise OSError(5, "Input/output error")


async def test_a_file_whose_bytes_cannot_be_read_is_named(tmp_path, receiver, monkeypatch):
    """The files after it are shipped before that."""
    append(tmp_path / "a.log", "1")
    append(tmp_path / "b.log", "2")
    real = Tail.read

    def broken(tail):
        if tail.real.endswith("a.log"):
            raise OSError(5, "Input/output error")
        return real(tail)

    monkeypatch.setattr(Tail, "read", broken)
    with pytest.raises(OSError, match=r"Input/output error: '.*a.log'"):
        await ship_once(tmp_path, receiver, "a.log", "b.log")
    assert receiver.messages == ["2"]


async def test_without_a_registry_file(tmp_path, receiver):
    append(tmp_path / "a.log", "1")
    for _ in range(2):
        shipment = shipment_of(tmp_path, receiver, "a.log", registry=Registry(None), following=None)
        assert await shipment.run()
    assert receiver.messages == ["1", "1"]
    assert os.listdir(tmp_path) == ["a.log"]


async def test_a_file_that_was_never_acknowledged_and_is_renamed_between_two_runs(
    tmp_path, receiver
):
    """It is known from its opening on, so the next run finds it at its new name."""
    file = tmp_path / "a.log"
    append(file, "1", "2")
    receiver.hold = True
    async with following(tmp_path, receiver, "a.log", grace=0):
        await receiver.until(lambda r: len(r.seen) == 2)
    receiver.hold = False
    file.rename(tmp_path / "a.log.1")
    append(file, "3")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2", "3"]


async def test_an_empty_file_that_is_written_and_renamed_between_two_runs(tmp_path, receiver):
    """Only under a name that may be its new one: of an empty file there is only the inode."""
    file = tmp_path / "a.log"
    file.touch()
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda _: shipment.counts.files == 1)
    append(file, "1")
    file.rename(tmp_path / "secret")
    append(file, "2")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["2"]
    (tmp_path / "secret").rename(tmp_path / "a.log.1")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["2", "1"]


@pytest.mark.parametrize("followed", [False, True], ids=["once", "followed"])
async def test_nothing_is_sent_of_a_file_that_is_not_written_down(tmp_path, receiver, followed):
    """With its first bytes, also if it was empty when it was opened."""
    file = tmp_path / "a.log"
    kept = []

    async def send(events):
        await trio.lowlevel.checkpoint()
        kept.extend(
            (row["offset"], row["head_size"])
            for row in json.loads((tmp_path / "registry.json").read_text())["files"]
        )

    receiver.send = send
    if followed:
        file.touch()
        async with following(tmp_path, receiver, "a.log") as shipment:
            await receiver.until(lambda _: shipment.counts.files == 1)
            append(file, "1")
            await receiver.until(lambda _: kept)
    else:
        append(file, "1")
        await ship_once(tmp_path, receiver, "a.log")
    assert kept == [(0, 2)]


async def test_a_moment_without_descriptors_is_no_end_of_a_file(tmp_path, receiver):
    """The directory looks empty then. The beginning of a line is not shipped as a line."""
    file = tmp_path / "a.log"
    async with following(tmp_path, receiver, "*.log") as shipment:
        # Its first bytes must be in the registry already, which cannot be written then.
        append(file, "x" * 900, "y" * 900)
        await receiver.until(lambda r: len(r.messages) == 2)
        with file.open("a") as out:
            out.write("be")
            out.flush()
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            most = os.dup(out.fileno())  # the lowest number that is free
            os.close(most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
            try:
                began = trio.current_time()
                while trio.current_time() < began + 3 * FOLLOWING.close_after:
                    await looked(shipment)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            out.write("gun\n")
        await receiver.until(lambda r: len(r.messages) > 2)
    assert receiver.messages[2:] == ["begun"]


async def test_a_new_file_is_written_down_while_the_one_before_waits(tmp_path, receiver):
    """Its lines come later, but it may be renamed before."""
    file = tmp_path / "a.log"
    append(file, *map(str, range(50)))
    async with following(tmp_path, receiver, "a.log", max_events=1) as shipment:
        receiver.hold = True
        await receiver.until(lambda r: r.seen)
        file.rename(tmp_path / "a.log.1")
        append(file, "new")
        await receiver.until(lambda _: shipment.counts.files == 2)
        rows = lambda: json.loads((tmp_path / "registry.json").read_text())["files"]  # noqa: E731
        await receiver.until(lambda _: len(rows()) == 2)
        receiver.hold = False
        await receiver.until(lambda r: r.messages[-1:] == ["new"])


async def test_a_new_file_does_not_wait_for_acknowledgements_of_a_gone_one(tmp_path, receiver):
    """The one before is not read any more: all of it was sent long ago."""
    file = tmp_path / "a.log"
    append(file, "old")
    async with following(tmp_path, receiver, "a.log") as shipment:
        receiver.hold = True
        await receiver.until(lambda r: r.seen)
        file.unlink()
        began = trio.current_time()
        while trio.current_time() < began + 3 * FOLLOWING.close_after:
            await looked(shipment)
        append(file, "new")
        await receiver.until(lambda r: len(r.seen) == 2)
        assert not receiver.events
        receiver.hold = False
    assert sorted(receiver.messages) == ["new", "old"]


async def test_first_bytes_that_were_known_are_written_down_when_there_are_more(tmp_path, receiver):
    """The file was empty when it was known. Another one must not be taken for it after a kill."""
    file = tmp_path / "a.log"
    file.touch()
    await ship_once(tmp_path, receiver, "a.log")
    append(file, "one")
    kept = []

    async def send(events):
        await trio.lowlevel.checkpoint()
        rows = json.loads((tmp_path / "registry.json").read_text())["files"]
        kept.extend(row["head_size"] for row in rows)

    receiver.send = send
    await ship_once(tmp_path, receiver, "a.log")
    assert kept == [4]


async def test_a_late_acknowledgement_forgets_no_first_bytes(tmp_path, receiver):
    """Else content that begins as the file did then would get its identity after a kill.

    Its second line would have the key of "two", which was sent.
    """
    file = tmp_path / "a.log"
    append(file, "one")
    sent = []

    async def send(events):
        acknowledge = trio.Event()
        sent.append(acknowledge)
        await acknowledge.wait()

    receiver.send = send
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda _: len(sent) == 1)
        append(file, "two")
        await receiver.until(lambda _: len(sent) == 2)
        sent[0].set()
        await receiver.until(lambda _: rows_of(tmp_path)[0]["offset"] == 4)
        assert rows_of(tmp_path)[0]["head_size"] == 8
        sent[1].set()
        await receiver.until(lambda _: not shipment.counts.waiting)


async def test_a_truncation_that_was_seen_is_remembered(tmp_path, receiver):
    """Also if nothing new has come until the run ends: else the same beginning would be skipped."""
    file = tmp_path / "a.log"
    append(file, "1", "2")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["1", "2"])
        before = rows_of(tmp_path)[0]["id"]
        os.truncate(file, 0)
        await receiver.until(lambda _: shipment.counts.truncations == 1)
    (position,) = positions(tmp_path)
    assert (position.offset, position.fingerprint.size) == (0, 0)
    assert position.id != before
    append(file, "1", "2", "3")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2", "1", "2", "3"]


def rows_of(directory):
    """What the registry has, while it is in use."""
    return json.loads((directory / "registry.json").read_text())["files"]


async def test_a_late_acknowledgement_of_content_that_was_truncated(tmp_path, receiver):
    """It moves nothing, also when the new content is not there yet."""
    file = tmp_path / "a.log"
    append(file, *"123456789")
    receiver.hold = True
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: len(r.seen) == 9)
        os.truncate(file, 0)
        await receiver.until(lambda _: shipment.counts.truncations == 1)
        receiver.hold = False
        await receiver.until(lambda r: len(r.events) == 9)
    (position,) = positions(tmp_path)
    assert position.offset == 0


async def test_a_registry_that_cannot_be_written_is_said_before_anything_is_sent(
    tmp_path, receiver, monkeypatch
):
    append(tmp_path / "a.log", "1")
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match=r"Input/output error: '.*registry.json'"):
        await ship_once(tmp_path, receiver, "a.log")
    assert receiver.seen == []


async def test_identity_and_offset_name_a_line(tmp_path, receiver):
    """Over rotations, truncations and restarts, although path and offset are the same again."""
    file = tmp_path / "a.log"
    append(file, "1")
    receiver.hold = True
    async with following(tmp_path, receiver, "a.log", grace=0):
        await receiver.until(lambda r: len(r.seen) == 1)
    receiver.hold = False
    async with following(tmp_path, receiver, "a.log"):
        await receiver.until(lambda r: r.messages == ["1"])
        file.rename(tmp_path / "a.log.1")
        append(file, "2")
        await receiver.until(lambda r: r.messages == ["1", "2"])
        file.write_bytes(b"3\n")
        await receiver.until(lambda r: r.messages == ["1", "2", "3"])
    assert len({event["log"]["offset"] for event in receiver.seen}) == 1
    keys = [event["log"]["file"]["id"] for event in receiver.seen]
    assert keys[0] == keys[1], "the same line, sent again"
    assert len(set(keys)) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", key) for key in keys)


async def test_a_truncated_file_whose_writer_does_not_append(tmp_path, receiver):
    """Its front has NUL bytes, more than one read and one line may have: they are no line."""
    file = tmp_path / "a.log"
    size = 1_200_000
    with file.open("wb", buffering=0) as writer:
        writer.write(b"x" * (size - 1) + b"\n")
        async with following(tmp_path, receiver, "a.log", max_line=2**20) as shipment:
            await receiver.until(lambda r: len(r.messages) == 1)
            os.truncate(file, 0)
            writer.write(b"1\n\0002\n")
            await receiver.until(lambda r: r.messages[1:] == ["1", "2"])
            assert shipment.counts.skipped_bytes == size + 1
    assert [event["log"]["offset"] for event in receiver.events] == [0, size, size + 3]
    (position,) = positions(tmp_path)
    assert position.offset == size + 5


async def test_a_file_of_nul_bytes(tmp_path, receiver):
    (tmp_path / "a.log").write_bytes(bytes(3_000_000))
    done, counts = await ship_once(tmp_path, receiver, "a.log")
    assert (done, counts.skipped_bytes, receiver.events) == (True, 3_000_000, [])


async def test_a_link_that_is_switched_between_two_runs(tmp_path, receiver):
    """The rest of the old file is in the directory where the link led before."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "one")
    append(tmp_path / "one" / "a.log", "1")
    await ship_once(tmp_path, receiver, "current/a.log")
    append(tmp_path / "one" / "a.log", "2")
    append(tmp_path / "two" / "a.log", "3")
    link.unlink()
    link.symlink_to(tmp_path / "two")
    await ship_once(tmp_path, receiver, "current/a.log")
    assert receiver.messages == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("*.log", ["1", "2", "3"]),
        ("**/*.log", ["1", "2", "3"]),
        ("b*", ["1", "other"]),
        ("*/a.log", ["1", "deep"]),
    ],
)
async def test_a_pattern_instead_of_a_path(tmp_path, receiver, source, expected):
    """It finds the rest of a renamed file, if it would have found the file at its old path."""
    append(tmp_path / "a.log", "1")
    await ship_once(tmp_path, receiver, "a.log")
    append(tmp_path / "a.log", "2")
    (tmp_path / "a.log").rename(tmp_path / "a.old")
    if source.endswith("*.log"):
        append(tmp_path / "a.log", "3")
    append(tmp_path / "b", "other")
    (tmp_path / "deep").mkdir()
    if source.startswith("*/"):
        append(tmp_path / "deep" / "a.log", "deep")
    await ship_once(tmp_path, receiver, source)
    assert receiver.messages == expected


@pytest.mark.skipif(not os.path.exists("/proc/version"), reason="this system has no /proc")
async def test_a_file_without_a_size(tmp_path, receiver):
    """It has no end that one can see, so it is refused."""
    append(tmp_path / "a.log", "1")
    with pytest.raises(FilesMissing, match="/proc/version: it has bytes, but no size"):
        await ship_once(tmp_path, receiver, "a.log", "/proc/version")
    assert receiver.messages == ["1"]


async def test_wide_text_is_refused(tmp_path, receiver, caplog):
    """Nothing of it is shipped, also if the file was empty first. In UTF-8 it is shipped."""
    file = tmp_path / "a.log"
    file.write_text("one\n", "utf-16")
    with pytest.raises(FilesMissing, match="UTF-16, which is not supported: write it, or convert"):
        await ship_once(tmp_path, receiver, "a.log", refuse_wide=True)
    os.truncate(file, 0)
    async with following(tmp_path, receiver, "a.log", refuse_wide=True) as shipment:
        await receiver.until(lambda _: shipment.counts.files == 1)
        file.write_text("one\n", "utf-16")
        await receiver.until(lambda _: "UTF-16" in caplog.text)
        file.write_text("two\n")
        await receiver.until(lambda r: r.messages == ["two"])
    assert [event["message"] for event in receiver.seen] == ["two"]


@pytest.mark.parametrize("seen", ["before the truncation", "after it", "in the next run"])
async def test_a_copy_is_named(tmp_path, receiver, caplog, seen):
    """Who names copies by a pattern gets their lines twice, and is told so once."""
    file, copy = tmp_path / "a.log", tmp_path / "a.log.1"
    old = [f"{number} of many lines" for number in range(100)]
    append(file, *old)
    async with following(tmp_path, receiver, "a.log*") as shipment:
        await receiver.until(lambda r: len(r.messages) == 100)
        if seen == "before the truncation":
            shutil.copy(file, copy)
            await receiver.until(lambda r: len(r.messages) == 200)
        content = file.read_bytes()
        os.truncate(file, 0)
        append(file, "new")
        await receiver.until(lambda r: "new" in r.messages)
        if seen == "after it":
            copy.write_bytes(content)
            await receiver.until(lambda r: len(r.messages) == 201)
        await looked(shipment)
    if seen == "in the next run":
        append(file, *(f"{number} of other lines" for number in range(100)))
        await ship_once(tmp_path, receiver, "a.log*")
        shutil.copy(file, copy)
        await ship_once(tmp_path, receiver, "a.log*")
        assert len(receiver.messages) == 302
    assert caplog.text.count(f"{copy} begins as {file}: if it is a copy (copytruncate)") == 1


async def test_a_rotated_file_is_no_copy(tmp_path, receiver, caplog):
    file = tmp_path / "a.log"
    append(file, *(f"{number} of many lines" for number in range(100)))
    async with following(tmp_path, receiver, "a.log*"):
        await receiver.until(lambda r: len(r.messages) == 100)
        file.rename(tmp_path / "a.log.1")
        append(file, *(f"{number} of other lines" for number in range(100)))
        await receiver.until(lambda r: len(r.messages) == 200)
    assert "copy" not in caplog.text
