"""Random days of a shipper of log files, and a model that knows which lines must arrive.

The model excuses a line only where the page says that it can be lost:

- It was not acknowledged when its file was truncated.
- It was not acknowledged when its file was deleted, and the shipper had not opened the file, or was
  stopped afterwards.
- Its file has a name that the source does not name, and the shipper had not seen it before, or has
  not found it in its directory when it was started.

Everything else arrives, at least once. No line is torn or invented, and the key of a line, its
identity and offset, names it alone, however often it comes.
"""

from __future__ import annotations

import glob
import os
import random
from fnmatch import fnmatchcase

import trio

from tests.logfiles.machine.contents import HEADER, Arrived, LogFile, Registered
from tests.waiting import PATIENCE

SOURCES = {
    "flat": ["app.log", "app.log*"],
    "link": ["current/app.log", "current/app.log*", "releases/*/app.log*"],
}
DOWN = ["write", "begin", "rename", "truncate", "delete", "switch", "late", "decoy"]
RUNNING = [*DOWN, "flood", "pause", "seen", "settle", "away", "back", "short"]
SOON = 0.05
NEVER = 60.0


class World:
    """A directory of logs, and the shipper that reads it.

    Args:
        directory: An empty directory.
        seed: What happens.
        runner: Starts and ends the shipper.

    Attributes:
        history: What has happened.
    """

    def __init__(self, directory, seed, runner):
        self.history = []
        self.rng = random.Random(seed)
        self.runner = runner
        self.directory = directory
        self.layout = self.rng.choice(list(SOURCES))
        # A few kinds of events for each world: so they come together in more ways.
        self.kinds = {"write", "pause", *self.rng.sample(RUNNING, 6)}
        self.has_header = self.rng.random() < 0.3
        self.appends = self.rng.random() < 0.7
        self.close_after = self.rng.choice([SOON, NEVER])
        self.registry = directory / "registry" / "ship.json"
        self.source = ""
        self.files = []
        self.lines = {}
        self.begun = {}
        self.excused = set()
        self.arrived = Arrived(self.lines, self.begun)
        self.number = self.releases = self.runs = 0
        self.is_running = self.is_limited = self.is_away = False
        runner.take_part(self)
        if self.layout == "link":
            self._make_release()

    async def run(self):
        """Live some days, and then check that everything has arrived."""
        for _ in range(self.rng.randrange(1, 5)):
            await self._start(final=False)
            for _ in range(self.rng.randrange(1, 9)):
                await self._step(self._any(RUNNING))
            await self._stop(self.rng.choice(["term", "kill", "kill"]))
            for _ in range(self.rng.randrange(4)):
                await self._step(self._any(DOWN))
        await self._start(final=True)
        for _ in range(self.rng.randrange(4)):
            await self._step(self._any(RUNNING))
        await self._step("settle")
        await self._stop("term")

    def close(self):
        """Close the files of the writers."""
        for file in self.files:
            file.close()

    def described(self):
        """What there is, for somebody who looks for a fault."""
        yield f"{self.layout=} {self.has_header=} {self.appends=} {self.close_after=}"
        for file in self.files:
            yield f"{file.path} {file.key} {file.held=} {file.size=} {file.unfinished=}"
            for text, content in self.lines.items():
                if content is file.content:
                    state = "missing" if text in self.missing() else ""
                    yield f"    {content.lines[text]} {text[:30]} {state}"

    def _any(self, steps):
        return self.rng.choice([step for step in steps if step in self.kinds])

    async def _step(self, name):
        self.history.append(name)
        await getattr(self, f"_{name}")()

    # The shipper.

    async def _start(self, *, final):
        self.source = self.rng.choice(SOURCES[self.layout])
        self.is_limited = not final and self.rng.random() < 0.2
        jump = self.rng.choice([-1, 0, 0, 0, 0, 0, 0, 0, 0, 1]) * 10 * 24 * 3600
        self.runs += 1
        if self.close_after == SOON:
            for file in self.files:
                if file.path:
                    self._finish(file)
        registered = Registered(self.registry)
        self.arrived.begin(self.runs, registered)
        for file in self.files:
            file.held = file.path is not None and self._is_found_again(file, registered)
        self.history.append(f"start {self.runs} {self.source} {self.is_limited=} {jump=}")
        self.is_running = True
        await self.runner.start(
            os.path.join(self.directory, self.source),
            run=self.runs,
            most=self.rng.randrange(1, 3) if self.is_limited else None,
            jump=jump,
        )

    async def _stop(self, how):
        self.history.append(how)
        await self.runner.stop(how)
        self.is_running = False
        if self.is_away:
            await self._back()
        self.arrived.check_registry(Registered(self.registry), self.excused)
        for file in self.files:
            file.held = False
            if file.path is None:
                self._excuse(file)

    def _is_found_again(self, file, registered):
        """Whether a start finds a file that was known, by its directory."""
        entry = registered.entries.get(file.key)
        if entry is None or not file.has_head(entry):
            return False
        here = os.path.dirname(os.path.realpath(file.path))
        near = {os.path.realpath(os.path.dirname(entry["path"])), os.path.dirname(entry["real"])}
        source = os.path.join(self.directory, self.source)
        ours = entry["source"] == source or _matches(entry["path"], source)
        return here in near and ours and (file.size > entry["offset"] or self.close_after == NEVER)

    def _is_named(self, file):
        """Whether the source names a file."""
        if file.path is None:
            return False
        paths = glob.glob(os.path.join(self.directory, self.source))
        return any(os.path.samefile(path, file.path) for path in paths)

    def _hold(self, file):
        """Note that the shipper has a file, before it loses its name."""
        if self.is_running and self.runner.has_open(file.key):
            entered = Registered(self.registry).entry_of(file) is not None
            file.held = file.held or entered

    def _excuse(self, file):
        lines = [text for text in file.content.lines if text not in self.arrived.acknowledged]
        self.excused.update(lines)

    def missing(self):
        """The lines that must arrive and have not."""
        there = {id(file.content) for file in self.files if file.held or self._is_named(file)}
        wanted = {text for text, content in self.lines.items() if id(content) in there}
        return wanted - self.excused - self.arrived.acknowledged

    # What happens.

    @property
    def _path(self):
        return os.path.join(self.directory, "current" * (self.layout == "link"), "app.log")

    def _current(self):
        """The file that has the path, made if need be."""
        for file in self.files:
            if file.path is not None and os.path.realpath(self._path) == file.path:
                return file
        file = LogFile(
            os.path.realpath(self._path),
            lambda key: Registered(self.registry).entries.get(key, {}).get("id"),
            appends=self.appends,
        )
        self.files.append(file)
        self._head(file)
        return file

    def _head(self, file):
        if self.has_header and self.rng.random() < 0.9:
            file.write(f"{HEADER}\n".encode())

    def _write_to(self, file, count, *, begin=False):
        for _ in range(count):
            self.number += 1
            new = f"{self.number} " + "x" * self.rng.choice([0, 10, 40, 300])
            text = file.unfinished + new
            self.lines[text] = file.content
            offset = file.write(f"{new}\n".encode()) - len(file.unfinished)
            file.content.lines[text] = offset
            file.unfinished = ""
        if begin and not file.unfinished:
            self.number += 1
            file.unfinished = f"{self.number} begins "
            offset = file.write(file.unfinished.encode())
            file.content.begun[file.unfinished] = offset
            self.begun[file.unfinished] = file.content

    def _finish(self, file):
        if file.unfinished:
            self._write_to(file, 1)

    async def _write(self):
        self._write_to(self._current(), self.rng.randrange(1, 6))

    async def _flood(self):
        self._write_to(self._current(), 400)

    async def _begin(self):
        self._write_to(self._current(), 0, begin=True)

    async def _late(self):
        """A writer that has not noticed the rotation."""
        named = [file for file in self.files if self._is_named(file)]
        late = [file for file in self.files if file.path and self.close_after == NEVER]
        if named + late:
            self._write_to(self.rng.choice(named + late), self.rng.randrange(3), begin=True)

    async def _decoy(self):
        """A file that nobody named, with an inode that was used before."""
        path = os.path.join(os.path.dirname(self._path), "other.log")
        with open(path, "w") as out:
            out.write("decoy\n" * 20)
        if self.rng.random() < 0.5:
            os.unlink(path)

    async def _rename(self):
        self._unname()
        directory = os.path.dirname(os.path.realpath(self._path))
        here = {file.path: file for file in self.files if file.path}
        number = 1
        while os.path.join(directory, f"app.log.{number}") in here:
            number += 1
        for each in range(number, 0, -1):
            old = os.path.join(directory, f"app.log.{each - 1}" if each > 1 else "app.log")
            if old in here:
                here[old].path = os.path.join(directory, f"app.log.{each}")
                os.rename(old, here[old].path)
        if self.rng.random() < 0.7:
            await self._write()

    def _unname(self):
        """Note which files the shipper has, before the names of all may change."""
        for file in self.files:
            self._hold(file)
            if self.close_after == SOON and file.path:
                self._finish(file)

    async def _switch(self):
        if self.layout == "link":
            self._unname()
            self._make_release()
            if self.rng.random() < 0.7:
                await self._write()

    def _make_release(self):
        self.releases += 1
        release = os.path.join(self.directory, "releases", str(self.releases))
        os.makedirs(release)
        link = os.path.join(self.directory, "link")
        os.symlink(release, link)
        os.replace(link, os.path.join(self.directory, "current"))

    async def _truncate(self):
        file = self._current()
        if self.is_running and self.rng.random() < 0.5:
            await self._settle()
        if not self.appends:  # Otherwise the writer would go on in the middle of a line.
            self._finish(file)
        self._excuse(file)
        if not self.runner.has_open(file.key):
            file.held = False  # A command that starts now knows it by its name only.
        file.truncate()
        if self.appends:
            self._head(file)
        self._write_to(file, self.rng.randrange(4), begin=self.rng.random() < 0.3)

    async def _delete(self):
        there = [file for file in self.files if file.path]
        if there:
            file = self.rng.choice(there)
            if self.is_running and self.rng.random() < 0.5:
                await self._settle()
            self._hold(file)
            self.history.append(f"held={file.held}")
            if not (file.held and self.runner.has_open(file.key)):
                file.held = False
                self._excuse(file)
            file.unlink()

    async def _pause(self):
        await trio.sleep(self.rng.random() * self.runner.pace)

    async def _seen(self):
        """A file is written down whether or not a receiver is there."""
        file = self._current()
        if self.is_running and not self.is_limited and self._is_named(file):
            registered = lambda: Registered(self.registry).entry_of(file) is not None  # noqa: E731
            await self._until(registered, lambda: f"{file.path} is not known")

    async def _settle(self):
        if not self.is_limited:
            await self._back()
            while missing := self.missing():
                await self._until(
                    lambda before=missing: self.missing() != before,
                    lambda before=missing: f"missing: {before}",
                )

    async def _until(self, condition, problem):
        with trio.move_on_after(PATIENCE / 3):
            while not condition():
                self.runner.check()
                await trio.sleep(self.runner.pace / 10)
            return
        raise AssertionError(problem())

    async def _away(self):
        self.is_away = True
        await self.runner.away()

    async def _back(self):
        self.is_away = False
        await self.runner.back()

    async def _short(self):
        """There are no descriptors for a moment."""
        with self.runner.short(self.rng.randrange(3)):
            await self._step(self._any(["write", "rename", "pause", "switch"]))
            await trio.sleep(self.rng.choice([0.01, 0.1]))


def _matches(path, pattern):
    parts, wanted = path.split(os.sep), pattern.split(os.sep)
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
