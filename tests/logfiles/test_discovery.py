"""Files that change their names at the wrong moment, or cannot be opened."""

from __future__ import annotations

import errno
import logging
import os
import resource
from math import inf

import pytest

from rsocket_trio import os_support
from rsocket_trio.logfiles import FilesMissing, Source, max_open_files
from rsocket_trio.logfiles import shipment as shipment_module
from rsocket_trio.logfiles.discovery import Listings, find_moved, scan
from rsocket_trio.logfiles.identity import Fingerprint
from rsocket_trio.logfiles.open_files import RESERVE
from rsocket_trio.logfiles.registry import Position
from tests.logfiles.shipping import Receiver, following, looked, ship_once


def found_in(directory, *names):
    look = scan([Source.of(str(directory / name)) for name in names])
    assert look.problems == []
    return look.found


def test_a_file_is_found_after_it_was_renamed(tmp_path):
    (tmp_path / "a.log").write_text("1\n")
    (found,) = found_in(tmp_path, "a.log")
    assert Listings().path_now(found) == str(tmp_path / "a.log")
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    (tmp_path / "a.log").write_text("2\n")
    assert Listings().path_now(found) == str(tmp_path / "a.log.1")
    (tmp_path / "a.log.1").unlink()
    assert Listings().path_now(found) is None


def test_many_files_that_were_renamed(tmp_path, monkeypatch):
    """Their directory is listed once for all of them; again only for one that is renamed again."""
    for number in range(20):
        (tmp_path / f"{number}.log").touch()
    files = found_in(tmp_path, "*.log")
    for number in range(10):
        (tmp_path / f"{number}.log").rename(tmp_path / f"{number}.log.1")
        (tmp_path / f"1{number}.log").unlink()
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or real(path))
    listings = Listings()
    assert sum(listings.path_now(each) is not None for each in files) == 10
    (tmp_path / "0.log.1").rename(tmp_path / "0.log.2")
    assert str(tmp_path / "0.log.2") in map(listings.path_now, files)
    assert listed == [str(tmp_path)] * 2


async def test_a_rename_between_the_look_and_the_opening(tmp_path, monkeypatch):
    """Both files are shipped, and the old one first."""
    file = tmp_path / "a.log"
    file.write_text("1\n")
    rename = [True]

    def scan_and_rename(sources):
        result = scan(sources)
        if rename.pop() if rename else False:
            file.rename(tmp_path / "a.log.1")
            file.write_text("2\n")
        return result

    monkeypatch.setattr(shipment_module, "scan", scan_and_rename)
    receiver = Receiver()
    async with following(tmp_path, receiver, "a.log"):
        await receiver.until(lambda r: r.messages == ["1", "2"])
    assert {event["log"]["file"]["path"] for event in receiver.events} == {str(file)}


async def test_a_deletion_between_the_look_and_the_opening(tmp_path, monkeypatch):
    """It is no error under --follow. Without, the file should have been there."""
    file = tmp_path / "a.log"
    file.write_text("1\n")

    def scan_and_delete(sources):
        result = scan(sources)
        file.unlink(missing_ok=True)
        return result

    monkeypatch.setattr(shipment_module, "scan", scan_and_delete)
    receiver = Receiver()
    async with following(tmp_path, receiver, "a.log") as shipment:
        await looked(shipment, 3)
        assert shipment.counts.opened == 0
    file.write_text("1\n")
    with pytest.raises(FilesMissing, match="No such file"):
        await ship_once(tmp_path, receiver, "a.log")


async def test_too_many_open_files(tmp_path, monkeypatch, caplog):
    """The file is named once, and opened as soon as it is possible."""
    (tmp_path / "a.log").write_text("1\n")
    real = os.open

    def full(path, *arguments, **options):
        if str(path).endswith("a.log"):
            raise OSError(errno.EMFILE, "Too many open files", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", full)
    receiver = Receiver()
    async with following(tmp_path, receiver, "a.log") as shipment:
        await looked(shipment, 5)
        assert receiver.seen == []
        monkeypatch.setattr(os, "open", real)
        await receiver.until(lambda r: r.messages == ["1"])
    assert caplog.text.count("Too many open files") == 1


async def test_more_files_than_may_be_open(tmp_path, caplog):
    """The others are named, and read as soon as one is closed."""
    for name in "abc":
        (tmp_path / f"{name}.log").write_text(f"{name}\n")
    receiver = Receiver()
    async with following(tmp_path, receiver, "*.log", max_open=2) as shipment:
        await receiver.until(lambda r: len(r.seen) == 2)
        await looked(shipment, 5)
        assert len(receiver.seen) == 2
        assert caplog.text.count("2 files are open") == 1
        (tmp_path / f"{receiver.messages[0]}.log").unlink()
        await receiver.until(lambda r: sorted(r.messages) == ["a", "b", "c"])


@pytest.mark.parametrize("again", [False, True])
async def test_a_file_that_is_deleted_while_too_many_are_open(tmp_path, caplog, again):
    """It is waited for no more, also if the next registry has got its inode."""
    for name in "ab":
        (tmp_path / f"{name}.log").write_text(f"{name}\n")
    receiver = Receiver()
    async with following(tmp_path, receiver, "*.log", max_open=1) as shipment:
        await receiver.until(lambda r: r.messages and shipment.problems)
        (waiting,) = shipment.problems
        if again:
            await looked(shipment, 5)  # Until then a registry may be written once more.
            os.replace(waiting.path, tmp_path / "registry.json")
        else:
            os.unlink(waiting.path)
        await receiver.until(lambda _: not shipment.problems)
    assert f"{waiting.path} is gone, and was not read: 1 files are open" in caplog.text
    assert len(receiver.messages) == 1


async def test_files_that_are_renamed_while_too_many_are_open(tmp_path):
    """They are found at their new names, also after a restart."""
    for name in "abc":
        (tmp_path / f"{name}.log").write_text(f"{name}\n")
    receiver = Receiver()
    names = ["a.log", "b.log", "c.log"]
    async with following(tmp_path, receiver, *names, max_open=1) as shipment:
        await receiver.until(lambda r: r.messages == ["a"])
        (tmp_path / "b.log").rename(tmp_path / "b.log.1")
        await looked(shipment, 3)
        (tmp_path / "a.log").unlink()
        await receiver.until(lambda r: r.messages == ["a", "b"])
        (tmp_path / "c.log").rename(tmp_path / "c.log.1")
    async with following(tmp_path, receiver, *names):
        await receiver.until(lambda r: r.messages == ["a", "b", "c"])


def test_descriptors_are_left_for_connections(monkeypatch):
    """One file is always open; a system without a limit, or that does not tell it, has none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert max_open_files() == soft - RESERVE
    limits = {RESERVE + 2: 2, RESERVE + 1: 1, RESERVE: 1, 3: 1, resource.RLIM_INFINITY: inf}
    for soft, most in limits.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert max_open_files() == most
    monkeypatch.setattr(os_support, "RESOURCE_LIMITS", False)
    assert max_open_files() == inf


def test_renamed_files_that_cannot_be_looked_for(tmp_path, monkeypatch):
    """They are as those that are not found; without descriptors nothing is said about any."""
    (tmp_path / "a.log").write_text("1\n")
    (found,) = found_in(tmp_path, "a.log")
    fingerprint = Fingerprint.of(b"1\n")
    path = found.path
    old = Position(
        path=path, real=path, source=path, key=found.key, id="1", fingerprint=fingerprint, offset=2
    )
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    assert [new.path for _, new in find_moved([old])] == [str(tmp_path / "a.log.1")]
    for name, number, expected in (
        ("scandir", errno.EACCES, 0),
        ("stat", errno.ENOENT, 0),
        ("open", errno.ENOENT, 0),
        ("open", errno.EACCES, 1),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing(getattr(os, name), tmp_path, number))
            assert len(find_moved([old])) == expected
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", failing(os.scandir, tmp_path, number))
            with pytest.raises(OSError, match=os.strerror(number)):
                find_moved([old])
    (tmp_path / "a.log.1").write_text("other\n")
    assert find_moved([old]) == [], "the inode has another content now"


def failing(real, directory, number):
    """A call of the system that fails for what is in a directory."""

    def call(path, *arguments, **options):
        if str(path).startswith(str(directory)):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **options)

    return call


def test_a_path_names_one_file(tmp_path):
    """Also a file that a pattern has found before, in another run."""
    source = Source.of(str(tmp_path / "a.log"))
    assert source.names(str(tmp_path / "a.log"))
    assert not source.names(str(tmp_path / "b.log"))


def test_a_directory_that_is_gone_has_no_files(tmp_path):
    """A renamed file is looked for in it: that is no failure of the look."""
    assert Listings().paths(str(tmp_path / "gone"), 1) == []


async def test_a_rename_before_the_opening_and_no_new_file(tmp_path, monkeypatch):
    """The old file is shipped, although its path does not exist for a moment."""
    file = tmp_path / "a.log"
    file.write_text("1\n")
    real = shipment_module.Tail

    def rename_and_open(*arguments, **options):
        if file.exists():
            file.rename(tmp_path / "a.log.1")
        return real(*arguments, **options)

    monkeypatch.setattr(shipment_module, "Tail", rename_and_open)
    receiver = Receiver()
    async with following(tmp_path, receiver, "a.log"):
        await receiver.until(lambda r: r.messages == ["1"])


async def test_a_file_that_is_renamed_again_and_again(tmp_path, monkeypatch):
    """It is not gone: the next run has to look for it, and this one says so."""
    file = tmp_path / "a.log"
    file.write_text("1\n")

    def renamed_before(*_arguments, **_options):
        raise FileNotFoundError

    monkeypatch.setattr(shipment_module, "Tail", renamed_before)
    with pytest.raises(FilesMissing, match="renamed again and again"):
        await ship_once(tmp_path, Receiver(), "a.log")


async def test_a_link_whose_target_was_renamed_while_no_process_read_it(tmp_path):
    real = tmp_path / "real" / "a.log"
    real.parent.mkdir()
    real.write_text("1\n")
    (tmp_path / "a.log").symlink_to(real)
    receiver = Receiver()
    await ship_once(tmp_path, receiver, "a.log")
    with real.open("a") as file:
        file.write("2\n")
    real.rename(tmp_path / "real" / "a.log.1")
    real.write_text("3\n")
    await ship_once(tmp_path, receiver, "a.log")
    assert receiver.messages == ["1", "2", "3"]


async def test_the_registry_is_no_log_file(tmp_path):
    """A pattern leaves it out: to ship it would change it, without end. Another one it takes."""
    (tmp_path / "a.log").write_text("1\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "registry.json").write_text("2\n")
    receiver = Receiver()
    await ship_once(tmp_path, receiver, "other/*")
    assert receiver.messages == ["2"]
    receiver = Receiver()
    async with following(tmp_path, receiver, "*") as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        assert (tmp_path / "registry.json.lock").exists()
        await looked(shipment, 20)
        assert len(receiver.seen) == shipment.counts.opened == 1
    with pytest.raises(FilesMissing, match="it is the registry"):
        await ship_once(tmp_path, receiver, "registry.json")


async def test_a_newer_file_does_not_wait_for_a_closed_one(tmp_path):
    """Also if the acknowledgements of the older one are still on the way."""
    file = tmp_path / "a.log"
    file.write_text("1\n")
    receiver = Receiver()
    receiver.hold = True
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: len(r.seen) == 1)
        file.rename(tmp_path / "a.log.1")
        # Longer than `close_after`: only its acknowledgement is missing now.
        await looked(shipment, 40)
        assert shipment.counts.files == 1
        file.write_text("2\n")
        await receiver.until(lambda r: len(r.seen) == 2)
        receiver.hold = False
        await receiver.until(lambda r: sorted(r.messages) == ["1", "2"])
        await receiver.until(lambda _: shipment.counts.files == 1)


async def test_a_renamed_file_is_read_on_after_a_restart(tmp_path):
    """Its writer may have it open, also if it is complete, and however old it seems to be."""
    file = tmp_path / "a.log"
    file.write_text("1\n")
    receiver = Receiver()
    await ship_once(tmp_path, receiver, "a.log")
    renamed = file.rename(tmp_path / "a.log.1")
    os.utime(renamed, (1000, 1000))
    async with following(tmp_path, receiver, "a.log") as shipment:
        await looked(shipment, 2)
        with renamed.open("a") as out:
            out.write("2\n")
        await receiver.until(lambda r: r.messages == ["1", "2"])
        # Once it is closed, no look takes it up again.
        await receiver.until(lambda _: not shipment.counts.files)
        await looked(shipment, 10)
        assert (shipment.counts.files, shipment.counts.opened) == (0, 1)


class Unreadable:
    """Makes files with an inode unreadable, as without permission, also to root."""

    def __init__(self, monkeypatch, number=errno.EACCES):
        self.inodes = set()
        self.number = number
        self._real = os.open
        monkeypatch.setattr(os, "open", self._open)

    def add(self, path):
        self.inodes.add(os.stat(path).st_ino)

    def _open(self, path, *arguments, **options):
        descriptor = self._real(path, *arguments, **options)
        if os.fstat(descriptor).st_ino in self.inodes:
            os.close(descriptor)
            raise OSError(self.number, os.strerror(self.number), path)
        return descriptor


@pytest.fixture
def unreadable(monkeypatch):
    return Unreadable(monkeypatch)


async def test_a_file_that_is_renamed_before_it_can_be_opened(tmp_path, unreadable, caplog):
    """It is not forgotten, although its path names another file now."""
    caplog.set_level(logging.INFO)
    file = tmp_path / "a.log"
    file.write_text("1\n")
    unreadable.add(file)
    receiver = Receiver()
    async with following(tmp_path, receiver, "a.log") as shipment:
        await looked(shipment, 3)
        assert [each.reason for each in shipment.problems] == ["Permission denied"]
        file.rename(tmp_path / "a.log.1")
        file.write_text("2\n")
        await receiver.until(lambda r: r.messages == ["2"])
        unreadable.inodes.clear()
        await receiver.until(lambda r: r.messages == ["2", "1"])
        await receiver.until(lambda _: not shipment.problems)
    assert caplog.text.count("cannot read") == 1
    assert caplog.text.count("is read now: it was: Permission denied") == 1


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
async def test_a_file_that_could_not_be_opened_and_is_renamed_between_two_runs(
    tmp_path, unreadable, number
):
    """It is in the registry; the next run waits for it, too."""
    unreadable.number = number
    file = tmp_path / "a.log"
    file.write_text("1\n")
    unreadable.add(file)
    receiver = Receiver()
    async with following(tmp_path, receiver, "a.log") as shipment:
        await looked(shipment, 3)
    file.rename(tmp_path / "a.log.1")
    file.write_text("2\n")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["2"])
        unreadable.inodes.clear()
        await receiver.until(lambda r: r.messages == ["2", "1"])


async def test_an_inode_that_is_used_again_by_a_file_that_nobody_named(tmp_path, unreadable):
    """It is not taken for the file that was renamed, when it can be opened at last."""
    file, other = tmp_path / "a.log", tmp_path / "a.secret"
    file.write_text("1\n")
    receiver = Receiver()
    await ship_once(tmp_path, receiver, "a.log")
    file.rename(other)
    other.write_text("confidential\n")
    unreadable.add(other)
    file.write_text("2\n")
    async with following(tmp_path, receiver, "a.log") as shipment:
        await receiver.until(lambda r: r.messages == ["1", "2"])
        assert [each.path for each in shipment.problems] == [str(other)]
        unreadable.inodes.clear()
        await receiver.until(lambda _: not shipment.problems)
        await looked(shipment, 3)
    assert receiver.messages == ["1", "2"]


async def test_a_file_that_is_deleted_before_it_can_be_opened(tmp_path, unreadable, caplog):
    """Its lines are lost, and that is said."""
    file = tmp_path / "a.log"
    file.write_text("1\n")
    unreadable.add(file)
    async with following(tmp_path, Receiver(), "*.log") as shipment:
        await looked(shipment, 3)
        file.unlink()
        await looked(shipment, 3)
    assert "a.log is gone, and was not read: Permission denied" in caplog.text


async def test_another_reason(tmp_path, unreadable, caplog):
    """It is logged, too: somebody who has mended the first one must know."""
    (tmp_path / "a.log").write_text("1\n")
    unreadable.add(tmp_path / "a.log")
    async with following(tmp_path, Receiver(), "a.log") as shipment:
        await looked(shipment, 3)
        unreadable.number = errno.EIO
        await looked(shipment, 3)
    assert caplog.text.count("Permission denied") == caplog.text.count("Input/output error") == 1


async def test_renamed_files_when_descriptors_are_short_at_the_start(tmp_path, monkeypatch):
    """The directory is looked at again."""
    file = tmp_path / "a.log"
    file.write_text("1\n")
    receiver = Receiver()
    await ship_once(tmp_path, receiver, "a.log")
    with file.open("a") as out:
        out.write("2\n")
    file.rename(tmp_path / "a.log.1")
    real = os.scandir

    def short(path):
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr(os, "scandir", short)
    async with following(tmp_path, receiver, "a.log") as shipment:
        await looked(shipment, 3)
        monkeypatch.setattr(os, "scandir", real)
        await receiver.until(lambda r: r.messages == ["1", "2"])


@pytest.mark.parametrize("name", [errno.EMFILE, errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
@pytest.mark.parametrize(("source", "call"), [("*.log", "listdir"), ("a.log", "stat")])
async def test_files_that_cannot_be_looked_at_for_a_moment(
    tmp_path, monkeypatch, name, source, call
):
    """They are not taken for deleted: a line that has begun would be torn."""
    file = tmp_path / "a.log"
    file.write_text("1\n2 beg")
    receiver = Receiver()
    async with following(tmp_path, receiver, source) as shipment:
        await receiver.until(lambda r: r.messages == ["1"])
        real = getattr(os, call)

        def failing(path, **options):
            if call == "stat" and path != str(file):
                return real(path, **options)
            raise OSError(name, os.strerror(name), path)

        monkeypatch.setattr(os, call, failing)
        # Longer than `close_after`.
        await looked(shipment, 40)
        monkeypatch.setattr(os, call, real)
        with file.open("a") as out:
            out.write("ins\n")
        await receiver.until(lambda r: r.messages == ["1", "2 begins"])


async def test_a_waiting_file_in_a_directory_that_cannot_be_listed(tmp_path, monkeypatch, caplog):
    """It was renamed, and is not taken for deleted."""
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text(f"{name}\n")
    receiver = Receiver()
    real = os.scandir

    def failing(path):
        raise OSError(errno.EIO, "Input/output error", path)

    async with following(tmp_path, receiver, "a.log", "b.log", max_open=1) as shipment:
        await receiver.until(lambda r: r.messages == ["a.log"])
        monkeypatch.setattr(os, "scandir", failing)
        (tmp_path / "b.log").rename(tmp_path / "b.log.1")
        await looked(shipment, 3)
        monkeypatch.setattr(os, "scandir", real)
        (tmp_path / "a.log").unlink()
        await receiver.until(lambda r: r.messages == ["a.log", "b.log"])
