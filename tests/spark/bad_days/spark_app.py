"""The test's side of ``application.py``: a Spark application that can be killed in parts."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from . import process_table
from .programs import PATIENCE, NotHappened, Program, until

AVAILABLE_NOW = {"availableNow": True}
AT_ONCE = {"processingTime": "0 seconds"}

LOCAL = "local[2,4]"
"""Two tasks at a time, each with four attempts; ``local[2]`` has one attempt."""


class Query:
    """A streaming query of an application."""

    def __init__(self, app: SparkApplication, name: str) -> None:
        self._app = app
        self.name = name

    def state(self) -> dict[str, Any]:
        """See `application.Application.state`."""
        state: dict[str, Any] = self._app.ask("state", name=self.name)
        return state

    def position(self) -> int:
        """How many events have been read and written, of all spools of all sources together."""
        progress = self.state()["progress"] or {"sources": []}
        ends = [source["endOffset"] for source in progress["sources"]]
        parsed = [json.loads(end) if isinstance(end, str) else end for end in ends]
        return sum(sum(end["s"].values()) for end in parsed if end)

    def ended(self) -> dict[str, Any]:
        """Wait until it has ended, and return its state."""
        over = self._app.ask("wait", name=self.name, seconds=PATIENCE)
        state = self.state()
        assert over, f"the query {self.name} does not end: {state}"
        return state

    def done(self) -> None:
        """Wait until it has ended without an error."""
        state = self.ended()
        assert state["error"] is None, state["error"]

    def failed(self) -> str:
        """Wait until it has ended with an error, and return the error."""
        error = self.ended()["error"]
        assert error is not None, f"the query {self.name} has ended without an error"
        return str(error)

    @property
    def errors(self) -> str:
        """What the application has written to its standard error, with all of its processes."""
        return self._app.program.errors

    def stop(self) -> None:
        """Stop it."""
        self._app.ask("stop", name=self.name)


class SparkApplication:
    """An application in a process, with a JVM, and with workers.

    Args:
        scene: What ends it.
        directory: For its files.
        master: The master of Spark.
    """

    def __init__(self, scene: Any, directory: Path, master: str = LOCAL, **environ: str) -> None:
        script = Path(__file__).with_name("application.py")
        command = [sys.executable, str(script), master, str(directory)]
        self.program: Program = scene.program("application", command, listens=True, environ=environ)
        self._answers: dict[int, dict[str, Any]] = {}
        self._news = threading.Condition()
        self._numbers = itertools.count(1)
        self._names = itertools.count(1)
        threading.Thread(target=self._listen, daemon=True).start()
        self.answer(0, seconds=1.4 * PATIENCE)

    def _listen(self) -> None:
        while True:
            try:
                line = self.program.line("an answer", seconds=3600)
            except NotHappened:
                break
            if line.startswith('{"id"'):
                answer = json.loads(line)
                with self._news:
                    self._answers[answer["id"]] = answer
                    self._news.notify_all()
        with self._news:
            self._answers[-1] = {"id": -1}
            self._news.notify_all()

    def begin(self, command: str, **arguments: Any) -> int:
        """Give a command, and return the number that `answer` needs."""
        number = next(self._numbers)
        self.program.tell(json.dumps({"id": number, "do": command, **arguments}))
        return number

    def answer(self, number: int, *, seconds: float = PATIENCE + 20) -> Any:
        """Return the answer to a command."""
        with self._news:
            there = self._news.wait_for(
                lambda: number in self._answers or -1 in self._answers, seconds
            )
            if number not in self._answers:
                what = "has ended without an answer" if there else f"has no answer in {seconds:g} s"
                raise NotHappened(f"the application {what}:\n{self.program.errors[-6000:]}")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise ApplicationError(answer["error"])
        return answer["result"]

    def ask(self, command: str, **arguments: Any) -> Any:
        """Give a command, and return its answer."""
        return self.answer(self.begin(command, **arguments))

    def start(
        self, sources: list[dict[str, Any]], sink: dict[str, Any], checkpoint: Path, **more: Any
    ) -> Query:
        """Start a query."""
        name = f"query-{next(self._names)}"
        more.setdefault("trigger", AVAILABLE_NOW)
        self.ask("start", name=name, sources=sources, sink=sink, checkpoint=str(checkpoint), **more)
        return Query(self, name)

    # -- its processes

    def kill_python(self) -> None:
        """Kill the Python application; the JVM must end by itself."""
        self.program.kill()
        self._gone()

    def kill_jvm(self) -> None:
        """Kill the JVM of the driver; all others must end by themselves."""
        self._kill_one(process_table.jvms)
        self.program.kill()  # The Python application has no session any more.
        self._gone()

    def kill_runner(self) -> None:
        """Kill the process in which the only source of the only query runs."""
        self._kill_one(process_table.runners)

    def kill_workers(self, *pids: int) -> None:
        """Kill Python processes that run tasks: those, or all."""
        found = process_table.workers(self.program.session)
        assert found, "no worker runs"
        assert set(pids) <= set(found)
        for pid in pids or found:
            os.kill(pid, signal.SIGKILL)

    def kill_one_worker(self, rng: random.Random) -> None:
        """Kill any Python process that runs tasks, as soon as there is one."""

        def killed() -> bool:
            found = process_table.workers(self.program.session)
            if not found:
                return False
            try:
                os.kill(rng.choice(found), signal.SIGKILL)
            except ProcessLookupError:
                return False  # It has ended by itself.
            return True

        until(killed, "a worker runs", details=lambda: self.program.errors[-4000:])

    def kill_executor(self) -> None:
        """Kill the JVM of one executor, with ``local-cluster`` as the master."""
        os.kill(process_table.executors(self.program.session)[0], signal.SIGKILL)

    def _kill_one(self, find: Any) -> None:
        # Parts of a query that was stopped may still be ending.
        found: list[int] = until(
            lambda: len(found := find(self.program.session)) == 1 and found,
            f"there is one of {find.__name__}",
            details=lambda: process_table.members(self.program.session),
        )
        os.kill(found[0], signal.SIGKILL)

    def _gone(self) -> None:
        """Wait until no process of the application is left: they end without the test's help."""
        until(
            lambda: not self.program.alive(),
            "all processes of the application end",
            details=lambda: process_table.members(self.program.session),
        )


class ApplicationError(Exception):
    """A command has failed in the application."""
