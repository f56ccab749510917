"""The file that remembers each log file, and how much of it is acknowledged: `Registry`.

It is replaced as a whole: a new file is written, synced, and renamed over the old one. So after a
crash there is the old one or the new one, and never a part. The rename itself is not synced: after
a power failure the old file may be back, and some lines are sent twice.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from time import time as now
from typing import Any, Final

import attrs

from ..private_files import NotOurs, check_ours, make_directory, open_private
from ..process_lock import LockHeld, NoFileLocks, ProcessLock
from .identity import HEAD_SIZE, FileKey, Fingerprint

__all__ = ["KEPT", "Position", "Registry", "RegistryError", "RegistryLocked", "new_id"]

_FORMAT: Final = "rsocket-trio ship registry"
_VERSION: Final = 1
KEPT: Final = 7 * 24 * 3600.0
"""How long the position of a file is kept that is not found any more, in seconds. The file may be
on a file system that is not mounted."""
_BUSY: Final = "it cannot be replaced, because it is a mount of its own: mount its directory"


def new_id() -> str:
    """Return the identity of a content that was never seen before.

    It is random. Device, inode and first bytes do not suffice: files that were empty when they were
    seen first differ in nothing when an inode is used again.
    """
    return secrets.token_hex(8)


class RegistryError(Exception):
    """The registry cannot be used. The text says what to do."""


class RegistryLocked(RegistryError):
    """Another process uses the registry."""


@attrs.frozen(kw_only=True)
class Position:
    """How much of a file is acknowledged.

    Attributes:
        path: Where the file was when it was opened.
        real: The same without links: a link may lead somewhere else when the file is looked for.
        source: The path or pattern that it was found by.
        key: Its device and inode.
        id: The identity of its content: another one after each truncation. See `new_id`.
        fingerprint: Its first bytes.
        offset: Everything before this offset is acknowledged.
        updated: The time of the last acknowledgement, or when it was opened first, in seconds since
            1970.
    """

    path: str
    real: str
    source: str
    key: FileKey
    id: str
    fingerprint: Fingerprint
    offset: int
    updated: float = attrs.field(factory=now)


class Registry:
    """The positions of all files. Only one process can use a registry file at a time.

    Args:
        path: The file, which need not exist. ``None``: the positions are kept in memory only.

    Raises:
        RegistryLocked: Another process uses it.
        RegistryError: It cannot be read, or it is damaged.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._positions: dict[FileKey, Position] = {}
        # By their first bytes, all `HEAD_SIZE` of them: files, and what they had before they were
        # truncated.
        self._beginnings: dict[Fingerprint, FileKey] = {}
        self._truncated: dict[FileKey, Fingerprint] = {}
        self._lock: ProcessLock | None = None
        if path is None:
            return
        # Else another name of the same file would have another lock, and a write would replace a
        # symbolic link.
        path = self._path = Path(os.path.realpath(path))
        try:
            make_directory(path.parent)
            check_ours(path.parent, [path.name])
            self._lock = ProcessLock(path.with_name(f"{path.name}.lock"))
        except NotOurs as error:
            raise RegistryError(f"cannot use the registry: {error}") from None
        except LockHeld as held:
            raise RegistryLocked(
                f"process {held.holder} uses the registry {path}: stop that process, or give each"
                " its own with --registry PATH"
            ) from None
        except NoFileLocks:
            raise RegistryError(
                "this system has no file locks (flock), which a registry needs: use --no-registry"
            ) from None
        except OSError as error:
            raise RegistryError(f"cannot use the registry {path}: {error.strerror}") from error
        try:
            for each in _load(path):
                self.put(each)
        except BaseException:  # unlocked before the error goes on
            self.close()
            raise

    def close(self) -> None:
        """Let other processes use the file."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def owns(self, path: str) -> bool:
        """Return whether a path is one of the files of this registry.

        To ship them would change them, and so on without end.
        """
        own = self._path
        if own is None:
            return False
        directory, name = os.path.split(path)
        mine = {own.name, f"{own.name}.new", f"{own.name}.lock"}
        return name in mine and os.path.realpath(directory) == str(own.parent)

    def positions(self) -> list[Position]:
        """Return the positions of all files."""
        return list(self._positions.values())

    def known(self, key: FileKey, head: bytes, size: int) -> Position | None:
        """Return the position of a file; ``None`` if it, or its content, is not known."""
        position = self._positions.get(key)
        if position is None or not position.fingerprint.matches(head) or size < position.offset:
            return None
        return position

    def has(self, key: FileKey) -> bool:
        """Return whether there is a position with this key, whatever the content of the file is."""
        return key in self._positions

    def put(self, position: Position) -> None:
        """Set the position of a file."""
        key = position.key
        before = self._positions.get(key, position)
        if before.id != position.id:
            self._forget_beginning(key, self._truncated.get(key))
            self._truncated[key] = before.fingerprint
        self._positions[key] = position
        if position.fingerprint.size == HEAD_SIZE:  # Short ones may be alike by chance.
            self._beginnings.setdefault(position.fingerprint, key)

    def original(self, key: FileKey, fingerprint: Fingerprint) -> Position | None:
        """Return another file that begins, or began, as this one, so that this is its copy."""
        other = self._beginnings.get(fingerprint, key)
        return None if other == key else self._positions.get(other)

    def forget(self, key: FileKey) -> None:
        """Remove the position of a file that does not exist any more."""
        position = self._positions.pop(key, None)
        if position is not None:
            self._forget_beginning(key, position.fingerprint)
        self._forget_beginning(key, self._truncated.pop(key, None))

    def _forget_beginning(self, key: FileKey, fingerprint: Fingerprint | None) -> None:
        if fingerprint is not None and self._beginnings.get(fingerprint) == key:
            del self._beginnings[fingerprint]

    def store(self, positions: Iterable[Position]) -> None:
        """Write positions to the disk. This blocks.

        Raises:
            OSError: They cannot be written. The file is as before.
        """
        if self._path is None:
            return
        # A line for each file. With `indent`, Python would take much longer.
        head = json.dumps({"format": _FORMAT, "version": _VERSION, "files": []})
        rows = ",\n".join([json.dumps(_row(each)) for each in positions])
        text = f"{head.removesuffix(']}')}\n{rows}\n]}}"
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            # What is there is a part of a write that a crash has ended, or a link to a file that
            # must not be written.
            new.unlink(missing_ok=True)
            descriptor = open_private(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(descriptor)
            os.replace(new, self._path)
        except OSError as error:
            with suppress(OSError):  # A part of it would take room on a full disk.
                new.unlink(missing_ok=True)
            reason = _BUSY if error.errno == errno.EBUSY else error.strerror
            # A failed write does not name a file, and a failed rename names two.
            raise OSError(error.errno, reason, str(self._path)) from error


def _row(position: Position) -> dict[str, Any]:
    return {
        "path": position.path,
        "real": position.real,
        "source": position.source,
        "device": position.key.device,
        "inode": position.key.inode,
        "id": position.id,
        "head_size": position.fingerprint.size,
        "head_sha256": position.fingerprint.digest,
        "offset": position.offset,
        "updated": position.updated,
    }


def _load(path: Path) -> list[Position]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RegistryError(f"cannot read the registry {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _damaged(path, "it is not text") from error
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise _damaged(path, "it is another file")
        if content["version"] != _VERSION:
            raise RegistryError(
                f"the registry {path} was made by a newer version of this program, with a format"
                " that is not known here: use that version, or another registry"
            )
        return [_position(row) for row in content["files"]]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def _damaged(path: Path, reason: str) -> RegistryError:
    return RegistryError(
        f"{path} is no registry ({reason}): give another path, or move the file away; then all"
        " files are sent from their beginning"
    )


def _position(row: dict[str, Any]) -> Position:
    numbers = [row["device"], row["inode"], row["head_size"], row["offset"]]
    texts = [row["path"], row["real"], row["source"], row["head_sha256"], row["id"]]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("a number is not a whole number")
    if not all(type(text) is str for text in texts):
        raise ValueError("a text is missing")
    if b"\0" in b"".join(map(os.fsencode, texts)):  # half a surrogate pair is a ValueError
        raise ValueError("a text contains a NUL")
    updated = float(row["updated"])
    if not isfinite(updated):
        raise ValueError("a time is not a number")
    return Position(
        path=row["path"],
        real=row["real"],
        source=row["source"],
        key=FileKey(row["device"], row["inode"]),
        id=row["id"],
        fingerprint=Fingerprint(row["head_size"], row["head_sha256"]),
        offset=row["offset"],
        updated=updated,
    )
