"""Files that are closed to other users: their modes, links, and owners."""

from __future__ import annotations

import os
import stat

import pytest

from rsocket_trio import parse_uri, private_files
from rsocket_trio.logfiles import Registry
from rsocket_trio.private_files import NotOurs, check_ours, close_database, make_directory
from rsocket_trio.process_lock import ProcessLock
from rsocket_trio.sockets.file_lock import locked
from rsocket_trio.sockets.unix import listen_unix
from rsocket_trio.spark.sinks.receiving.sqlite_store import SinkDirectoryError, SqliteStore
from rsocket_trio.spool import SpoolConfig, SpoolError, open_spool, read_range
from rsocket_trio.spool.reserve import Reserve
from tests.spool.helpers import lines

SPOOL = ["spool.sqlite3", "spool.sqlite3-wal", "spool.sqlite3-shm", "spool.lock", "spool.reserve"]


@pytest.fixture(autouse=True)
def umask():
    """The usual one, which lets everybody read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_spool_is_closed_to_others(tmp_path):
    """Also one that an older version has made."""
    where = tmp_path / "spool"
    async with open_spool(where) as spool:
        await spool.append(lines(1))
        assert {name: mode(where / name) for name in SPOOL} == dict.fromkeys(SPOOL, 0o600)
        assert mode(where) == 0o700
    for path in where.iterdir():
        path.chmod(0o644)
    async with open_spool(where) as spool:
        await spool.append(lines(1))
        assert mode(where / "spool.sqlite3") == mode(where / "spool.sqlite3-shm") == 0o600


async def test_a_spool_for_a_group(tmp_path):
    """The files that readers need are the group's too; nobody else gets any."""
    where = tmp_path / "spool"
    async with open_spool(where, config=SpoolConfig(group_readers=True)) as spool:
        await spool.append(lines(1))
        assert {mode(where / name) for name in SPOOL[:3]} == {0o660}
        assert {mode(where / name) for name in SPOOL[3:]} == {0o600}
        assert mode(where) == 0o2770
        assert len(list(read_range(where, 0, 1))) == 1
    async with open_spool(where) as spool:
        await spool.append(lines(1))
        assert {mode(where / name) for name in SPOOL} == {0o600}


@pytest.mark.parametrize("name", SPOOL)
async def test_a_link_in_the_directory_of_a_spool(tmp_path, name):
    """Nothing behind it is changed."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    where = tmp_path / "spool"
    where.mkdir()
    (where / name).symlink_to(victim)
    with pytest.raises(SpoolError, match=f"{name} is a link, which somebody may have prepared"):
        async with open_spool(where):
            raise AssertionError("it was opened")
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["sink.sqlite3", "sink.lock", "sink.sqlite3-wal"])
def test_a_link_in_the_directory_of_a_sink(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    where = tmp_path / "sink"
    where.mkdir()
    (where / name).symlink_to(victim)
    with pytest.raises(SinkDirectoryError, match=f"{name} is a link"):
        SqliteStore(where)
    assert victim.read_text() == "mine"


def test_a_sink_is_closed_to_others(tmp_path):
    where = tmp_path / "sink"
    store = SqliteStore(where)
    try:
        assert mode(where) == 0o700
        assert {mode(path) for path in where.iterdir()} == {0o600}
    finally:
        store.close()


def test_a_link_that_comes_after_the_check(tmp_path):
    """The open does not follow it either, nor is the file behind it made."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name, target in (("spool.lock", victim), ("other.lock", tmp_path / "none")):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(OSError, match="symbolic links"):
            ProcessLock(tmp_path / name)
    (tmp_path / "spool.reserve").symlink_to(victim)
    reserve = Reserve(tmp_path)
    reserve.take(2**20)
    reserve.cut(0)
    assert reserve.size == 0
    assert victim.read_text() == "mine"
    assert not (tmp_path / "none").exists()


def owned_by(monkeypatch, owners):
    """Let files seem to belong to other users."""

    def seen(inner, path):
        found = list(inner(path))
        found[stat.ST_UID] = owners.get(os.path.basename(path), os.geteuid())
        return os.stat_result(found)

    stat_of, lstat_of = os.stat, os.lstat
    monkeypatch.setattr(private_files.os, "stat", lambda path: seen(stat_of, path))
    monkeypatch.setattr(private_files.os, "lstat", lambda path: seen(lstat_of, path))


@pytest.mark.parametrize("whose", ["spool", "spool.lock"])
def test_another_owner(tmp_path, monkeypatch, whose):
    """The text says who, and what to do. The system's directories are taken, e.g. a disk's own."""
    where = tmp_path / "spool"
    where.mkdir()
    (where / "spool.lock").touch()
    owners = {whose: os.geteuid() + 1}
    with monkeypatch.context() as patched:
        owned_by(patched, owners)
        with pytest.raises(
            NotOurs, match=f"{whose} belongs to the user {os.geteuid() + 1}, .*chown"
        ):
            check_ours(where, ["spool.lock", "spool.reserve"])
        owners[whose] = os.geteuid()
        owners["spool"] = 0
        check_ours(where, ["spool.lock", "spool.reserve"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
async def test_a_spool_of_another_user(tmp_path):
    where = tmp_path / "spool"
    async with open_spool(where):
        pass
    os.chown(where, 65534, -1)
    with pytest.raises(SpoolError, match="belongs to the user 65534"):
        async with open_spool(where):
            raise AssertionError("it was opened")


def test_what_is_made(tmp_path):
    """A directory above is made as usual; a file in the place of the directory is an error."""
    make_directory(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o755, 0o700)
    make_directory(tmp_path / "a", group=True)
    assert mode(tmp_path / "a") == 0o755, "an existing one stays as it is"
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "file")
    close_database(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o600
    close_database(tmp_path / "new", group=True)
    assert mode(tmp_path / "new") == 0o660


async def test_the_lock_of_a_unix_socket(tmp_path):
    """A stranger who can open it can hold it, and so keep a server from listening.

    Who may connect to the socket itself is for the umask and the directory: the pages say so.
    """
    where = str(tmp_path / "socket.lock")
    async with locked(where):
        assert mode(tmp_path / "socket.lock") == 0o600
    for mask, wanted in ((0o022, 0o755), (0o077, 0o700)):
        os.umask(mask)
        listener = await listen_unix(parse_uri(f"unix://{tmp_path}/socket"))
        assert mode(tmp_path / "socket") == wanted
        await listener.aclose()


def test_the_directory_of_a_registry(tmp_path):
    Registry(tmp_path / "new" / "registry.json").close()
    assert mode(tmp_path / "new") == 0o700


@pytest.mark.parametrize("kind", ["spool", "sink"])
async def test_a_directory_that_is_open_to_all(tmp_path, caplog, kind):
    """Everybody could put other files there: this is told once, and says what to do."""
    where = tmp_path / kind
    where.mkdir()
    for wanted, times in ((0o755, 0), (0o777, 1)):
        where.chmod(wanted)
        if kind == "spool":
            async with open_spool(where):
                pass
        else:
            SqliteStore(where).close()
        assert caplog.text.count("every user of this host can replace the files in") == times
    assert "whose mode is 0777: use a directory of your own (chmod 700)" in caplog.text
