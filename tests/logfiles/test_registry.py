"""The registry file: what it keeps, and what happens to damaged ones."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import os_support
from rsocket_trio.logfiles import (
    FileKey,
    Fingerprint,
    Position,
    Registry,
    RegistryError,
    RegistryLocked,
)
from rsocket_trio.logfiles import recorder as recorder_module
from rsocket_trio.logfiles import shipment as shipment_module
from rsocket_trio.logfiles.identity import HEAD_SIZE
from rsocket_trio.logfiles.recorder import Recorder
from rsocket_trio.logfiles.registry import KEPT
from tests.logfiles.shipping import Receiver, following, looked, positions, ship_once
from tests.programs import environment


def position(inode=1, offset=10, head=b"0123456789", **more):
    return Position(
        path=f"/var/log/{inode}",
        real=f"/data/log/{inode}",
        source="/var/log/*",
        key=FileKey(5, inode),
        id=f"{inode:x}",
        fingerprint=Fingerprint.of(head),
        offset=offset,
        **more,
    )


def stored(path, *each):
    with closing(Registry(path)) as registry:
        for one in each:
            registry.put(one)
        registry.store(registry.positions())


def test_positions_come_back(tmp_path):
    path = tmp_path / "new" / "directory" / "registry.json"
    odd = position(2, updated=1.5)
    stored(path, position(updated=2.25), odd)
    registry = Registry(path)
    assert registry.positions() == [position(updated=2.25), odd]
    registry.close()
    assert sorted(os.listdir(path.parent)) == ["registry.json", "registry.json.lock"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_path_that_is_not_text(tmp_path):
    path = tmp_path / "registry.json"
    odd = Position(
        path="/tmp/\udcff\n",
        real="/\udcff",
        source="/tmp/\udcff*",
        key=FileKey(1, 2),
        id="1",
        fingerprint=Fingerprint.of(b""),
        offset=0,
        updated=1.0,
    )
    stored(path, odd)
    registry = Registry(path)
    assert registry.positions() == [odd]
    registry.close()


@given(
    head=st.binary(max_size=20),
    now=st.binary(max_size=20),
    offset=st.integers(0, 20),
    size=st.integers(0, 30),
)
def test_an_offset_is_used_only_for_the_same_file(head, now, offset, size):
    """The beginning must be the same, and the file must not be shorter than the offset."""
    registry = Registry(None)
    kept = position(offset=offset, head=head)
    registry.put(kept)
    known = registry.known(FileKey(5, 1), now, size)
    assert known == (kept if now.startswith(head) and size >= offset else None)
    assert registry.known(FileKey(5, 2), now, size) is None
    assert registry.known(FileKey(6, 1), now, size) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "JSONDecodeError"),
        (b"\xff", "it is not text"),
        (b"[]", "TypeError"),
        (b"{}", "KeyError"),
        (b'{"format": "other"}', "it is another file"),
        (b'{"format": "rsocket-trio ship registry", "version": 2}', "newer version"),
        (b'{"format": "rsocket-trio ship registry", "version": 1, "files": [{}]}', "KeyError"),
        (b"[" * 100_000, "RecursionError"),
    ],
)
def test_a_damaged_registry(tmp_path, content, reason):
    """It is refused with what to do, stays as it is, and is not locked afterwards."""
    path = tmp_path / "registry.json"
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(RegistryError, match=reason) as refused:
            Registry(path)
        assert not isinstance(refused.value, RegistryLocked)
        assert "another" in str(refused.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", None),
        ("offset", -1),
        ("inode", 1.5),
        ("path", 7),
        ("path", "/var/log/a\0"),
        ("real", "/var/log/a\0"),
        ("path", "/var/log/\ud800"),
        ("id", "\ud800"),
        ("updated", "nan"),
        ("updated", float("inf")),
        ("updated", 10**400),
    ],
)
def test_a_row_with_a_wrong_value(tmp_path, name, value):
    path = tmp_path / "registry.json"
    stored(path, position())
    content = json.loads(path.read_text())
    content["files"][0][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(RegistryError, match="is no registry"):
        Registry(path)


def test_one_process_at_a_time(tmp_path):
    """The second one is told which process has it; the lock of a dead process does not stay."""
    path = tmp_path / "registry.json"
    code = (
        "import sys, pathlib\n"
        "from rsocket_trio.logfiles import Registry\n"
        "registry = Registry(pathlib.Path(sys.argv[1]))\n"
        "print(flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    with holder:
        holder.stdout.readline()
        with pytest.raises(RegistryLocked, match=f"process {holder.pid} uses.*--registry"):
            Registry(path)
        holder.kill()
        holder.wait()
        Registry(path).close()


def test_a_registry_that_cannot_be_used(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RegistryError, match="cannot use the registry"):
        Registry(tmp_path / "file" / "registry.json")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "directory", tmp_path / "pipe", Path("/"), Path("/dev/full")):
        with pytest.raises(RegistryError, match="is no file"):
            Registry(path)
    assert sorted(os.listdir(tmp_path)) == ["directory", "file", "pipe"]


def test_a_registry_that_cannot_be_read(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(RegistryError, match=r"cannot read the registry .*: Input/output error$"):
        Registry(tmp_path / "registry.json")


def test_a_symbolic_link_to_a_registry(tmp_path):
    """It is another name of the same registry, with the same lock, and it remains."""
    (tmp_path / "state").mkdir()
    real, link = tmp_path / "state" / "registry.json", tmp_path / "link.json"
    link.symlink_to(real)
    stored(link, position(1))
    assert link.is_symlink()
    registry = Registry(real)
    assert [each.path for each in registry.positions()] == [position(1).path]
    with pytest.raises(RegistryLocked):
        Registry(link)
    registry.close()


def test_a_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(os_support, "FILE_LOCKS", False)
    with pytest.raises(RegistryError, match="use --no-registry"):
        Registry(tmp_path / "registry.json")


def test_a_registry_that_is_closed_twice(tmp_path):
    """The second call must not close a descriptor of that number, which is another lock now."""
    path = tmp_path / "registry.json"
    first = Registry(path)
    first.close()
    second = Registry(path)
    first.close()
    with pytest.raises(RegistryLocked):
        Registry(path)
    second.close()


def test_the_last_beginning_of_a_truncated_file_is_known():
    """A copy of what it had before that is not looked for: else each truncation takes memory."""
    heads = [bytes([n]) * HEAD_SIZE for n in range(3)]
    registry = Registry(None)
    for n, head in enumerate(heads):
        registry.put(attrs.evolve(position(head=head), id=str(n)))
    now = attrs.evolve(position(head=heads[2]), id="2", updated=registry.positions()[0].updated)
    originals = [registry.original(FileKey(5, 2), Fingerprint.of(head)) for head in heads]
    assert originals == [None, now, now]
    registry.forget(FileKey(5, 1))
    assert not any(registry.original(FileKey(5, 2), Fingerprint.of(head)) for head in heads)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "registry.json"
    stored(path, position(1))
    before = path.read_bytes()

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match=r"No space.*registry.json'$"):
        stored(path, position(2))
    assert path.read_bytes() == before
    assert not path.with_name("registry.json.new").exists()


async def test_old_positions_of_lost_files_are_forgotten(tmp_path):
    """Not those of files that are there, or that were there a short time ago."""
    (tmp_path / "a.log").write_text("1\n")
    (tmp_path / "b.log").write_text("2\n")
    receiver = Receiver()
    await ship_once(tmp_path, receiver, "*.log")
    old = time.time() - KEPT - 10
    registry = Registry(tmp_path / "registry.json")
    for each in registry.positions():
        registry.put(
            Position(
                path=each.path,
                real=each.real,
                source=each.source,
                key=each.key,
                id=each.id,
                fingerprint=each.fingerprint,
                offset=each.offset,
                updated=old,
            )
        )
    registry.put(position(inode=2**40, updated=old))
    registry.put(position(inode=2**40 + 1))
    registry.store(registry.positions())
    registry.close()
    (tmp_path / "c.log").write_text("3\n")
    await ship_once(tmp_path, receiver, "a.log", "c.log")
    kept = sorted(each.path.rpartition("/")[2] for each in positions(tmp_path))
    assert kept == [str(2**40 + 1), "a.log", "b.log", "c.log"]


async def test_positions_of_lost_files_are_forgotten_while_others_are_followed(
    tmp_path, monkeypatch
):
    """A process that runs for months does not collect the positions of all rotated files."""
    monkeypatch.setattr(shipment_module, "_TIDY", 0.0)
    monkeypatch.setattr(shipment_module, "KEPT", 0.0)
    (tmp_path / "a.log").write_text("1\n")
    (tmp_path / "b.log").write_text("2\n")
    receiver = Receiver()
    async with following(tmp_path, receiver, "a.log", "b.log") as shipment:
        await receiver.until(lambda r: len(r.messages) == 2)
        (tmp_path / "a.log").rename(tmp_path / "a.log.1")
        await receiver.until(lambda _: shipment.counts.files == 1)
        await looked(shipment, 5)
        (tmp_path / "a.log.1").unlink()
        await looked(shipment, 5)
        with (tmp_path / "b.log").open("a") as file:
            file.write("3\n")
        await receiver.until(lambda r: len(r.messages) == 3)
    assert [each.path for each in positions(tmp_path)] == [str(tmp_path / "b.log")]


async def test_the_recorder_writes_again_after_a_failure(tmp_path, monkeypatch, caplog):
    """And says so once for each failure."""
    path = tmp_path / "registry.json"
    registry = Registry(path)
    recorder = Recorder(registry)
    replace = os.replace

    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder_module, "_RETRY", 0.05)
    monkeypatch.setattr(os, "replace", fail)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        recorder.put(position())
        with trio.fail_after(10):
            while "No space" not in caplog.text:
                await trio.sleep(0.001)
        monkeypatch.setattr(os, "replace", replace)
        with trio.fail_after(10):
            while not path.exists():
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    registry.close()


async def test_a_file_that_is_written_down_is_read_while_the_registry_cannot_be_written(
    tmp_path, monkeypatch, caplog
):
    """Only its first bytes have to be there before it is read; they do not change any more."""
    receiver = Receiver()
    path = tmp_path / "a.log"
    path.write_text(f"{'x' * 900}\n{'y' * 900}\n")

    def fail(*_args):
        raise OSError(28, "No space left on device")

    async with following(tmp_path, receiver, "a.log"):
        await receiver.until(lambda r: len(r.messages) == 2)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail)
            for n in range(3, 6):
                with path.open("a") as file:
                    file.write("more\n")
                await receiver.until(lambda r, n=n: len(r.messages) == n)
            await receiver.until(lambda _: "No space" in caplog.text)


async def test_the_last_write_is_done_although_cancelled(tmp_path):
    registry = Registry(tmp_path / "registry.json")
    recorder = Recorder(registry)
    recorder.put(position())
    with trio.CancelScope() as scope:
        scope.cancel()
        await recorder.finish()
    registry.close()
    assert [each.key.inode for each in positions(tmp_path)] == [1]


@pytest.mark.parametrize("suffix", [".new", ".lock"])
def test_links_beside_a_registry_are_not_followed(tmp_path, suffix):
    """Else whoever may write into its directory lets us overwrite any of our files."""
    path, victim = tmp_path / "registry.json", tmp_path / "victim"
    victim.write_text("mine")
    path.with_name(path.name + suffix).symlink_to(victim)
    if suffix == ".new":
        stored(path, position())
        assert path.is_file()
    else:
        with pytest.raises(RegistryError, match="cannot use the registry"):
            Registry(path)
    assert victim.read_text() == "mine"


def test_a_directory_in_the_place_of_the_new_registry(tmp_path):
    """It cannot be removed either; the error names the registry all the same."""
    path = tmp_path / "registry.json"
    path.with_name("registry.json.new").mkdir()
    with pytest.raises(OSError, match=r"registry\.json'$"):
        stored(path, position())


def test_only_the_owner_reads_a_registry_and_its_lock(tmp_path):
    path = tmp_path / "registry.json"
    stored(path, position())
    modes = [each.stat().st_mode & 0o777 for each in tmp_path.iterdir()]
    assert modes == [0o600, 0o600]


_MOUNT = "mount --bind state/registry.json state/registry.json && exec {}"
_STORE = """
import pathlib, sys
from rsocket_trio.logfiles import Registry
registry = Registry(pathlib.Path("state/registry.json"))
try:
    registry.store([])
except OSError as error:
    print(error)
"""


def test_a_registry_that_is_a_mount_of_its_own(tmp_path):
    """As in a container with one file of the host. It cannot be replaced: the error says why."""
    stored(tmp_path / "state" / "registry.json")
    before = (tmp_path / "state" / "registry.json").read_bytes()
    command = _MOUNT.format(shlex.join([sys.executable, "-c", _STORE]))
    try:
        run = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if "unshare:" in run.stderr or "mount:" in run.stderr:
        pytest.skip(f"this user may not mount: {run.stderr.strip()}")
    assert (run.returncode, run.stderr) == (0, "")
    assert "registry.json" in run.stdout
    assert "it is a mount of its own: mount its directory" in run.stdout
    assert sorted(os.listdir(tmp_path / "state")) == ["registry.json", "registry.json.lock"]
    assert (tmp_path / "state" / "registry.json").read_bytes() == before


def test_a_registry_of_another_user(tmp_path, monkeypatch):
    """Who made it could have lines passed over, and replace it at any time."""
    stored(tmp_path / "registry.json", position(1))
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    with pytest.raises(RegistryError, match="belongs to the user"):
        Registry(tmp_path / "registry.json")
