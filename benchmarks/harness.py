"""Starts the programs, a process for each end, and lets the stacks take turns."""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from .cases import Case
from .stacks import RAW_CLIENT, Stack

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0
"""Seconds beyond the measured time after which a program is taken to hang."""


class ProgramFailed(Exception):
    """A program ended, hung, or gave an error instead of an outcome."""


class Program:
    """One end: a process that is talked to in lines."""

    def __init__(self, command: Sequence[str], stderr: Any) -> None:
        self.command = command
        self.stderr = stderr
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )

    def read_line(self, seconds: float = PATIENCE) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline().decode() if ready else ""
        if not line:
            self.stderr.seek(0)
            said = self.stderr.read().decode(errors="replace")[-2000:]
            state = "ended" if ready else f"said nothing for {seconds:.0f} s"
            raise ProgramFailed(f"{' '.join(self.command[1:])} {state}\n{said}")
        return line

    def ask(self, operation: str, **parameters: object) -> dict[str, Any]:
        """Send a command and wait for its outcome."""
        assert self.process.stdin is not None
        command = json.dumps({"operation": operation, **parameters}) + "\n"
        with suppress(BrokenPipeError):  # it has ended: reading says why
            self.process.stdin.write(command.encode())
            self.process.stdin.flush()
        outcome: dict[str, Any] = json.loads(self.read_line())
        if "error" in outcome:
            raise ProgramFailed(f"{' '.join(self.command[1:])}: {outcome['error']}")
        return outcome

    def resident_size(self) -> int:
        """The memory it occupies, in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()


@contextmanager
def program(command: Sequence[str]) -> Iterator[Program]:
    """Run a program for the time of the block; it ends because its input does."""
    with tempfile.TemporaryFile() as stderr:
        running = Program(command, stderr)
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
def server_of(stack: Stack, scheme: str, args: Sequence[str] = ()) -> Iterator[tuple[Program, str]]:
    """A server of that stack, and its URI."""
    with program([*stack.server, scheme, *args]) as server:
        yield server, server.read_line().split()[1]


@contextmanager
def pair(case: Case, stack: Stack) -> Iterator[Program]:
    """Server and client for a case; gives the client."""
    scheme = "ws" if case.group == "ws" else "tcp"
    client = RAW_CLIENT if case.group == "server" else stack.client
    with (
        server_of(stack, scheme, case.server_args.get(stack.name, [])) as (_, uri),
        program([*client, uri, *case.client_args.get(stack.name, [])]) as running,
    ):
        yield running


@attrs.define
class Result:
    """What one stack reached in one case.

    Attributes:
        rates: A rate per round, in the unit of the case.
        latencies: Per round [p50, p99] in seconds, where measured.
        failure: Why there are no rates.
    """

    rates: list[float] = attrs.field(factory=list)
    latencies: list[list[float]] = attrs.field(factory=list)
    failure: str | None = None


def takes_part(case: Case, stack: Stack) -> bool:
    """Whether the stack is for this case at all."""
    return case.group in stack.groups and (not case.only or stack.name in case.only)


def run_case(
    case: Case, stacks: Sequence[Stack], rounds: int, seconds: float, say: Callable[[str], None]
) -> dict[str, Result]:
    """Measure one case: fresh programs, a warm-up each, then the rounds, in which all take turns.

    Args:
        case: What to measure.
        stacks: Who is measured.
        rounds: How often.
        seconds: How long at a time.
        say: Told of progress.

    Returns:
        By the name of the stack.
    """
    results: dict[str, Result] = {}
    with ExitStack() as running:
        clients: list[tuple[Stack, Program]] = []

        def measure(stack: Stack, client: Program) -> dict[str, Any] | None:
            try:
                return client.ask(case.operation, seconds=seconds, **case.parameters)
            except ProgramFailed as failure:
                results[stack.name].failure = str(failure)
                say(f"  {stack.title} FAILED: {failure}")
                return None

        for stack in stacks:
            if not takes_part(case, stack):
                continue
            results[stack.name] = Result(failure=stack.cannot.get(case.name))
            if results[stack.name].failure is None:
                try:
                    client = running.enter_context(pair(case, stack))
                except ProgramFailed as failure:
                    results[stack.name].failure = str(failure)
                    say(f"  {stack.title} FAILED: {failure}")
                    continue
                if measure(stack, client) is not None:
                    clients.append((stack, client))
        for round_number in range(rounds):
            # Whoever comes first differs from round to round.
            first = round_number % len(clients) if clients else 0
            for stack, client in clients[first:] + clients[:first]:
                result = results[stack.name]
                outcome = None if result.failure else measure(stack, client)
                if outcome is not None:
                    result.rates.append(outcome["count"] * case.scale / outcome["elapsed"])
                    if "latencies" in outcome:
                        result.latencies.append(outcome["latencies"])
    return results


def raise_file_limit() -> None:
    """Let this process and those it starts hold as many sockets as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
