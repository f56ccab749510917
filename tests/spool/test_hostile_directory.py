"""A directory that somebody has prepared is told from a spool, at once and before it is used."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import struct
from contextlib import closing

import attrs
import pytest

from rsocket_trio.spool import (
    NotASpool,
    SpoolError,
    SpoolFailed,
    describe_spool,
    find_since,
    open_spool,
    read_range,
)
from tests.spool.helpers import lines

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i FROM n)"
VIEWS = [
    f"CREATE VIEW batches AS {ENDLESS} SELECT i AS first, 1 AS count FROM n",
    f"CREATE VIEW spool AS {ENDLESS} SELECT 'x' AS spool_id, 0 AS oldest FROM n WHERE i > 0",
    "CREATE VIEW instances AS SELECT 'x' AS consumer, 0 AS \"offset\" FROM batches",
]


@pytest.fixture
async def prepared(directory):
    """The directory of a spool with a few events, which is closed."""
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
        await spool.commit("me", 0)
    return directory


def changed(directory, *statements):
    """Change the database, as somebody may who has prepared it."""
    with closing(sqlite3.connect(directory / "spool.sqlite3", isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for each in statements:
            connection.execute(each)


async def refused(directory, error, text):
    """Each way to use the directory ends with this error."""
    with pytest.raises(error, match=text):
        describe_spool(directory)
    with pytest.raises(error, match=text):
        list(read_range(directory, 0, 10))
    with pytest.raises(SpoolError, match=text):
        async with open_spool(directory):
            pass


@pytest.mark.parametrize("view", VIEWS)
async def test_views(prepared, view):
    """A view in place of a table: `spool info` did not end."""
    changed(prepared, f"DROP TABLE {view.split()[2]}", view)
    await refused(prepared, NotASpool, "has a view named .* use another directory")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON batches BEGIN DELETE FROM instances; END", "trigger"),
        ("CREATE INDEX i ON batches (length(zeroblob(count)))", "index"),
        ("CREATE VIRTUAL TABLE v USING fts5(x)", "table"),
        ("ALTER TABLE batches ADD COLUMN c BLOB AS (zeroblob(count))", "computed column"),
    ],
)
async def test_other_code(prepared, statement, what):
    """A writer would run it."""
    changed(prepared, statement)
    await refused(prepared, NotASpool, f"has a {what} named")


async def test_a_trigger_that_is_called_a_table(prepared):
    """What SQLite makes of a row is decided by its SQL."""
    trigger = "CREATE TRIGGER t AFTER INSERT ON batches BEGIN DELETE FROM instances; END"
    changed(
        prepared,
        trigger,
        "UPDATE sqlite_schema SET type = 'table', rootpage = 2 WHERE type = 'trigger'",
    )
    await refused(prepared, SpoolError, "has a table named|failed|damaged")


async def test_tables_without_end(prepared):
    """A tree whose pages have themselves below them, here the one of the tables."""
    rows = ", ".join(["(?, '', 0, 0.0, NULL, 0.0)"] * 1000)
    with closing(sqlite3.connect(prepared / "spool.sqlite3")) as connection:
        connection.execute(
            "INSERT INTO instances VALUES " + rows, [f"{n:0200}" for n in range(1000)]
        )
        connection.commit()
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'instances'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with open(prepared / "spool.sqlite3", "r+b") as file:
        file.seek((page - 1) * size)
        head = file.read(12)
        assert head[0] == 2  # an inner page of an index
        (cells,) = struct.unpack(">H", head[3:5])
        file.seek((page - 1) * size + 8)
        file.write(struct.pack(">I", page))
        for number in range(cells):
            file.seek((page - 1) * size + 12 + 2 * number)
            (at,) = struct.unpack(">H", file.read(2))
            file.seek((page - 1) * size + at)
            file.write(struct.pack(">I", page))
    with pytest.raises(SpoolFailed, match=r"no end|malformed"):
        describe_spool(prepared)


async def test_a_name_without_end(prepared):
    """It is refused before it is read; events of any size are no names."""
    async with open_spool(prepared) as spool:
        await spool.append(attrs.evolve(lines(1), data=b"x" * 3 * 2**20))
    assert describe_spool(prepared).head > 0
    changed(
        prepared,
        "INSERT INTO instances VALUES (CAST(zeroblob(2000000) AS TEXT), '', 0, 0, NULL, 0)",
    )
    with pytest.raises(SpoolFailed, match="too big"):
        describe_spool(prepared)


async def test_more_consumers_than_a_moment(prepared, monkeypatch):
    """Work has a bound, and the error says what to do."""
    monkeypatch.setattr("rsocket_trio.private_files._INSTRUCTIONS", 10_000)
    rows = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
    changed(prepared, f"INSERT INTO instances {rows} SELECT i, '', 0, 0, NULL, 0 FROM n")
    with pytest.raises(SpoolFailed, match="have no end; use another directory, or an older copy"):
        describe_spool(prepared)


@pytest.mark.parametrize(
    "name", ["spool.sqlite3", "spool.sqlite3-wal", "spool.sqlite3-shm", "spool.sqlite3-journal"]
)
@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
async def test_no_files(prepared, name, kind, tmp_path):
    """Opening a pipe would wait for ever, and a link may lead to a device."""
    path = prepared / name
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    await refused(prepared, SpoolError, "is a link|is no file")


async def test_files_that_cannot_be_looked_at(prepared, monkeypatch):
    """The error says why, as one of this package."""

    def closed(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("rsocket_trio.spool.schema.check_files", closed)
    with pytest.raises(SpoolFailed, match=r"cannot be read: Permission denied$"):
        describe_spool(prepared)


@pytest.mark.parametrize("name", ["spool.lock", "spool.reserve"])
async def test_no_files_for_a_writer(prepared, name):
    (prepared / name).unlink(missing_ok=True)
    os.mkfifo(prepared / name)
    with pytest.raises(SpoolError, match="is no file"):
        async with open_spool(prepared):
            pass


@pytest.mark.parametrize("version", [0, -1])
async def test_versions_that_never_were(prepared, version):
    changed(prepared, f"PRAGMA user_version = {version}")
    await refused(prepared, NotASpool, "the database of another program")


_NOT_STRICT = "UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT, ', ''), 'STRICT', '')"


async def described(where):
    json.dumps(attrs.asdict(describe_spool(where)), allow_nan=False)


async def read_all(where):
    found = describe_spool(where)
    assert 0 <= found.oldest <= found.head < 2**63
    list(read_range(where, found.oldest, found.head))


async def searched(where):
    for time in (0, 1e9, 1e12):
        find_since(where, time)


async def opened(where):
    async with open_spool(where):
        pass


async def test_values_of_other_types(prepared):
    """Whatever stands in a column: an error of this package, or numbers that have a meaning."""
    source = prepared / "spool.sqlite3"
    changed(prepared, "INSERT INTO runs VALUES (9)")
    shutil.copy(source, prepared.parent / "copy")
    columns = {
        "spool": ("id", "spool_id", "created_at", "oldest"),
        "batches": ("count", "number", "before", "cost", "stored_at", "encoding", "facts", "data"),
        "instances": ("name", "offset", "seen_at", "lease", "absent"),
        "epochs": ("first", "epoch"),
        "runs": ("first",),
    }
    for table, names in columns.items():
        for name in names:
            for value in ("'x'", "NULL", "x'ff'", "-1", "9e999", "9223372036854775807", "'[1]'"):
                shutil.copy(prepared.parent / "copy", source)
                changed(prepared, _NOT_STRICT)
                with closing(sqlite3.connect(source, isolation_level=None)) as connection:
                    connection.execute("PRAGMA ignore_check_constraints = ON")
                    try:
                        connection.execute(f'UPDATE {table} SET "{name}" = {value}')
                    except sqlite3.Error:
                        continue
                for use in (described, read_all, opened, searched):
                    try:
                        await use(prepared)
                    except SpoolError:
                        pass
                    except Exception as error:  # which value it was
                        raise AssertionError((table, name, value)) from error
