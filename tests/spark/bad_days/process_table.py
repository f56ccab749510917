"""Which processes run, from /proc: those of a session, and the parts of a Spark application.

A test starts each program in a session of its own. The children of a program stay in its session,
also when their parent has gone and when they make a process group, as Spark's daemons do.
"""

from __future__ import annotations

from pathlib import Path

import attrs

PROC = Path("/proc")


@attrs.frozen
class Process:
    """A process, as it was when the table was read."""

    pid: int
    parent: int
    session: int
    arguments: tuple[str, ...]

    def has(self, text: str) -> bool:
        """Whether a text is in one of its arguments."""
        return any(text in argument for argument in self.arguments)


def members(session: int) -> list[Process]:
    """Return the processes of a session that have not ended, in the order of their numbers."""
    found = [_read(int(path.name)) for path in PROC.iterdir() if path.name.isdigit()]
    return sorted(
        (each for each in found if each is not None and each.session == session),
        key=lambda each: each.pid,
    )


def _read(pid: int) -> Process | None:
    try:
        status = (PROC / str(pid) / "stat").read_text()
        arguments = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None  # It has ended since the directory was listed.
    # The name of the program is in parentheses, and can have any characters.
    state, parent, _group, session = status[status.rindex(")") + 2 :].split()[:4]
    if state in "ZX":
        return None
    return Process(
        pid, int(parent), int(session), tuple(arguments.decode(errors="replace").split("\0"))
    )


def jvms(session: int) -> list[int]:
    """The JVM of the driver."""
    return [each.pid for each in members(session) if each.has("deploy.SparkSubmit")]


def executors(session: int) -> list[int]:
    """The JVMs of the executors; there are none in ``local`` mode."""
    return [each.pid for each in members(session) if each.has("CoarseGrainedExecutorBackend")]


def runners(session: int) -> list[int]:
    """The processes that ask a Python source for its offsets, one for each source of a query."""
    return [each.pid for each in members(session) if each.has("python_streaming_source_runner")]


def workers(session: int) -> list[int]:
    """The Python processes that run tasks.

    A daemon forks them, with its own command line. Other daemons, on the driver, plan reads.
    """
    daemons = [
        each
        for each in members(session)
        if each.has("pyspark.daemon") and each.has("pyspark.worker")
    ]
    numbers = {each.pid for each in daemons}
    return [each.pid for each in daemons if each.parent in numbers]
