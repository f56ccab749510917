"""Starts the programs, one process for each end, and measures the stacks in turns."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from .model import ROOT, Case, Stack
from .stacks import RAW_CLIENT

_LIBC = ctypes.CDLL(None)
PATIENCE = 60.0
"""Seconds without an outcome after which a program counts as hung."""
LONGEST_WARM_UP = 60.0
"""Seconds after which a warm-up ends, even if it has had little processor time."""


class ProgramFailed(Exception):
    """A program ended, hung, or sent an error instead of an outcome."""


class Program:
    """One end of a connection: a process that reads and prints lines.

    Attributes:
        command: Its command.
        process: Its process.
        patience: Seconds without an outcome after which it counts as hung.
    """

    def __init__(self, command: Sequence[str], stderr: Any, directory: Path = ROOT) -> None:
        self.command = command
        self.stderr = stderr
        self.patience = PATIENCE
        self._printed = bytearray()
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ
            | {
                "PYTHONUNBUFFERED": "1",
                # Processes that it starts elsewhere import the package from here, too.
                "PYTHONPATH": os.pathsep.join(
                    filter(None, [str(directory), os.environ.get("PYTHONPATH")])
                ),
            },
        )

    def read_line(self, seconds: float | None = None) -> str:
        """Return the next line that the program prints."""
        assert self.process.stdout is not None
        seconds = self.patience if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while b"\n" not in self._printed:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            # Not with `readline`: it may keep a further line, which `select` does not see.
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if data:
                self._printed += data
                continue
            self.stderr.seek(0)
            said = self.stderr.read().decode(errors="replace")[-2000:]
            state = "ended" if ready else f"printed nothing for {seconds:.0f} s"
            raise ProgramFailed(f"{' '.join(self.command[1:])} {state}\n{said}")
        line, _, rest = self._printed.partition(b"\n")
        self._printed = bytearray(rest)
        return line.decode()

    def ask(self, operation: str, **parameters: object) -> dict[str, Any]:
        """Send a command and wait for its outcome."""
        assert self.process.stdin is not None
        command = json.dumps({"operation": operation, **parameters}) + "\n"
        with suppress(BrokenPipeError):  # it has ended: `read_line` says why
            self.process.stdin.write(command.encode())
            self.process.stdin.flush()
        outcome: dict[str, Any] = json.loads(self.read_line())
        if "error" in outcome:
            raise ProgramFailed(f"{' '.join(self.command[1:])}: {outcome['error']}")
        return outcome

    def resident_size(self) -> int:
        """Return the resident size of the program, in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def processor_time(self) -> float:
        """Return the processor time of all its threads so far, user and system, in seconds."""
        clock = ctypes.c_int()
        failure = _LIBC.clock_getcpuclockid(self.process.pid, ctypes.byref(clock))
        if failure:
            raise ProgramFailed(f"{' '.join(self.command[1:])}: {os.strerror(failure)}")
        return time.clock_gettime(clock.value)


@contextmanager
def program(command: Sequence[str], directory: Path = ROOT) -> Iterator[Program]:
    """Run a program during the block. The end of its input ends the program."""
    with tempfile.TemporaryFile() as stderr:
        running = Program(command, stderr, directory)
        process = running.process
        try:
            yield running
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):  # it has ended already
                process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


@contextmanager
def server_of(
    stack: Stack, scheme: str, args: Sequence[str] = (), command: Sequence[str] | None = None
) -> Iterator[tuple[Program, str]]:
    """Run a server of the stack, or another one, during the block; yield it and its URI."""
    with program([*(command or stack.server), scheme, *args], stack.directory) as server:
        yield server, server.read_line().split()[1]


@contextmanager
def pair(case: Case, stack: Stack) -> Iterator[tuple[Program, Program]]:
    """Run the server and the client of a case during the block."""
    client = RAW_CLIENT if case.group == "server" else case.client or stack.client
    server_args = case.server_args.get(stack.family, [])
    with (
        server_of(stack, case.scheme, server_args, case.server) as (server, uri),
        program(
            [*client, uri, *case.client_args.get(stack.family, [])], stack.directory
        ) as running,
    ):
        yield server, running


@attrs.define
class Result:
    """The results of one stack in one case.

    Attributes:
        rates: One rate per round, in the unit of the case.
        costs: One value per round: processor time of one end per unit, in seconds.
        latencies: One [p50, p99] per round, in seconds, if measured.
        failure: The reason why there are no rates.
    """

    rates: list[float] = attrs.field(factory=list)
    costs: list[float] = attrs.field(factory=list)
    latencies: list[list[float]] = attrs.field(factory=list)
    failure: str | None = None


def takes_part(case: Case, stack: Stack) -> bool:
    """Return whether the stack runs this case."""
    return case.group in stack.groups and (not case.only or stack.family in case.only)


def run_case(
    case: Case,
    stacks: Sequence[Stack],
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
    *,
    warm_up_scale: float = 1.0,
) -> dict[str, Result]:
    """Measure one case: start new programs, warm up each, then measure all stacks in each round.

    Args:
        case: The case.
        stacks: The stacks.
        rounds: The number of rounds.
        seconds: The length of each measurement.
        say: Called with texts that report progress.
        warm_up_scale: Factor for the warm-up of stacks that compile while they run.

    Returns:
        The results by the name of the stack.
    """
    results: dict[str, Result] = {}
    with ExitStack() as running:
        pairs: list[tuple[Stack, Program, Program]] = []

        def fail(stack: Stack, failure: ProgramFailed) -> None:
            results[stack.name].failure = str(failure)
            say(f"  {stack.title} FAILED: {failure}")

        for stack in stacks:
            if not takes_part(case, stack):
                continue
            result = results[stack.name] = Result(
                failure=case.missing() or stack.cannot.get(case.name)
            )
            if result.failure is None:
                try:
                    server, client = running.enter_context(pair(case, stack))
                    warm_up(case, server, client, seconds, stack.warm_up * warm_up_scale)
                    pairs.append((stack, server, client))
                except ProgramFailed as failure:
                    fail(stack, failure)
        for round_number in range(rounds):
            # A different stack comes first in each round.
            first = round_number % len(pairs) if pairs else 0
            for stack, server, client in pairs[first:] + pairs[:first]:
                result = results[stack.name]
                if result.failure is None:
                    try:
                        measure(case, server, client, seconds, result)
                    except ProgramFailed as failure:
                        fail(stack, failure)
    return results


def warm_up(case: Case, server: Program, client: Program, seconds: float, processor: float) -> None:
    """Run the case at least once without measuring it. Its connections stay open.

    Args:
        case: The case.
        server: Its server.
        client: Its client.
        seconds: The length of each run.
        processor: Processor time that the server must have used, in seconds.
    """
    begun = time.monotonic()
    before = server.processor_time()
    while True:
        client.ask(case.operation, seconds=seconds, **case.parameters)
        if (
            server.processor_time() - before >= processor
            or time.monotonic() - begun > LONGEST_WARM_UP
        ):
            return


def measure(case: Case, server: Program, client: Program, seconds: float, result: Result) -> None:
    """Measure one stack in one round and add the values to its result."""
    measured = client if case.end == "client" else server
    before = measured.processor_time()
    outcome = client.ask(case.operation, seconds=seconds, **case.parameters)
    spent = measured.processor_time() - before
    units = outcome["count"] * case.scale
    if not units:
        raise ProgramFailed(f"{' '.join(client.command[1:])}: nothing was completed")
    result.rates.append(units / outcome["elapsed"])
    result.costs.append(spent / (outcome.get("handled", outcome["count"]) * case.scale))
    if "latencies" in outcome:
        result.latencies.append(outcome["latencies"])


def raise_file_limit() -> None:
    """Let this process and its child processes open as many sockets as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
