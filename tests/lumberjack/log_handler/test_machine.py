"""Programs that log in random ways, and end: each record arrives, or is counted.

See `machine_program`. What the page says can be lost is not asked for: the records of a process
that SIGKILL or `os._exit` ends, and those that a worker logs after its SIGTERM.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lumberjack.log_handler.receiving_thread import ReceivingThread
from tests.ports import held_port
from tests.programs import environment

GIVEN = [int(seed) for seed in os.environ.get("LOGGING_SEEDS", "").split()]
FRESH = random.SystemRandom().randrange(10**9)
PROGRAM = Path(__file__).with_name("machine_program.py")


class Ledger:
    """What the program has logged.

    Attributes:
        begun: The records that may arrive.
        logged: Those that must arrive, or be counted.
        story: What the program did.
    """

    def __init__(self, path):
        notes = defaultdict(list)
        for line in path.read_text().splitlines():
            word, _, text = line.partition(" ")
            notes[word].append(text)
        unsure = {f"{pid} " for pid in notes["unsure"]}
        self.begun = set(notes["begun"])
        self.logged = {text for text in notes["logged"] if not any(map(text.startswith, unsure))}
        self.is_sure = not unsure
        self.story = notes["action"]


class Receiver(ReceivingThread):
    """Is there, comes late, or fails now and then, which closes the connection."""

    def __init__(self, kind, rng, port):
        super().__init__(f"lumberjack://127.0.0.1:{port}")
        self._fails = kind == "fails"
        self._rng = rng

    async def _store(self, batch):
        if self._fails and self._rng.random() < 0.2:
            raise OSError("a failure of the receiver")
        await super()._store(batch)


def one(directory, seed):
    """Run one program, and check what has arrived."""
    with held_port() as port:
        check_one(directory, seed, port)


def check_one(directory, seed, port):
    rng = random.Random(seed)
    kind = rng.choice(["there", "there", "late", "fails", "away"])
    receiver = Receiver(kind, rng, port)
    ledger = directory / str(seed)
    starting = threading.Timer(0.5 if kind == "late" else 0, receiver.start)
    if kind != "away":
        starting.start()
    close_timeout = "0.1" if kind == "away" else "30"
    done = subprocess.run(
        [sys.executable, PROGRAM, receiver.uri, ledger, str(seed), close_timeout],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=200,
    )
    if kind != "away":
        starting.join()
        receiver.stop()
    found = Ledger(ledger)
    hint = f"LOGGING_SEEDS={seed}: {kind}, {found.story}: {done.stderr[-3000:]}"
    end = {"exit": 3, "error": 1}.get(found.story[-1], 0)
    assert done.returncode == end, hint
    arrived = set(receiver.messages)
    assert arrived <= found.begun, f"{arrived - found.begun} were invented; {hint}"
    missing = found.logged - arrived
    dropped = sum(map(int, re.findall(r"(\d+) log records were dropped", done.stderr)))
    assert len(missing) <= dropped, f"{len(missing)} are missing, {dropped} are counted; {hint}"
    if kind == "away":
        assert not arrived, hint
    if found.is_sure:
        assert dropped == (len(missing) if kind == "away" else 0), hint


def test_some_programs(tmp_path):
    """Each record arrives or is counted, however processes and threads end."""
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda seed: one(tmp_path, seed), GIVEN or range(5)))


@pytest.mark.bad_days
def test_bad_days(tmp_path):
    """The same for longer, and another time each time."""
    print("repeat with LOGGING_SEEDS=...: the first one is", FRESH)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: one(tmp_path, seed), GIVEN or range(FRESH, FRESH + 60)))
