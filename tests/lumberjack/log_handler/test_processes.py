"""The handler in programs of their own: their end, and forks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time

import pytest

from rsocket_trio.lumberjack.log_handler import workers_end
from tests.lumberjack.log_handler.receiving_thread import receiving
from tests.programs import environment

HEAD = """
import atexit, logging, os, sys, threading, time
from rsocket_trio.lumberjack import LumberjackHandler

log = logging.getLogger("app")
log.setLevel(logging.INFO)

def ship(**settings):
    handler = LumberjackHandler(sys.argv[1], **settings)
    log.addHandler(handler)
    return handler
"""


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one


def run(program, uri, *options, status=0):
    """Run a program to its end; return what it wrote to standard error, and the seconds."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, *options, "-c", HEAD + program, uri],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == status, done.stderr
    return done.stderr, time.monotonic() - begin


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [(os, "pipe", OSError), (threading.Thread, "start", RuntimeError)],
)
def test_a_worker_without_descriptors_or_threads(monkeypatch, place, name, error):
    """SIGTERM ends it at once, as ever. Nothing stays open."""

    def refuse(*_args):
        raise error

    before = set(os.listdir("/dev/fd"))
    monkeypatch.setattr(place, name, refuse)
    termination = workers_end._Termination()
    termination.settle_first(print)
    assert not termination.has_begun
    assert set(os.listdir("/dev/fd")) == before


def test_records_right_before_the_end_arrive(receiver):
    """Also those of other `atexit` functions and of threads that go on until then."""
    said, _ = run(
        """
# Functions are called in reverse order: this one before logging.shutdown.
atexit.register(log.info, "atexit")
ship()
threading.Thread(target=lambda: (time.sleep(0.2), log.info("thread"))).start()
for number in range(3000):
    log.info("line %d", number)
log.info("last")
""",
        receiver.uri,
        "-X",
        "dev",
        "-W",
        "error",
    )
    assert said == ""
    lines = receiver.messages
    own = [line for line in lines if line != "thread"]
    assert own == [*(f"line {number}" for number in range(3000)), "last", "atexit"]
    assert lines.count("thread") == 1


def test_the_first_record_of_all_comes_at_exit(receiver):
    """From Python 3.12 on no thread can start then: the record is lost, and that is told."""
    said, _ = run('atexit.register(log.info, "one"); ship()', receiver.uri)
    if sys.version_info < (3, 12) or receiver.messages:
        assert receiver.messages == ["one"]
    else:
        assert "1 log records were dropped (unsent 1)" in said
    assert "Traceback" not in said


def test_an_exception_ends_the_program(receiver):
    said, _ = run('ship(); log.info("one"); raise SystemExit(3)', receiver.uri, status=3)
    assert receiver.messages == ["one"]
    assert said == ""


@pytest.mark.parametrize("stalled", [True, False])
def test_a_program_ends_without_a_receiver(receiver, stalled):
    """It waits for close_timeout, tells the loss, and shows no traceback."""
    if stalled:
        receiver.stall()
    uri = receiver.uri if stalled else "lumberjack://127.0.0.1:9"
    said, seconds = run(
        """
handler = ship(close_timeout=1)
log.info("one")
""",
        uri,
    )
    assert "1 log records were dropped (unsent 1)" in said
    assert "Traceback" not in said
    assert seconds > 1


def test_signal_handlers_log_in_the_middle_of_everything(receiver):
    """No deadlock, and each record is counted.

    A signal may interrupt the handler of the one before it. Python bounds how deep that goes by the
    size of its stack only, so no signal is sent while ten handlers have begun. And their number is
    bounded: on a slow machine they would leave no time for anything else.
    """
    said, _ = run(
        """
import signal
begun, rung = [], []

def ring(number, frame):
    begun.append(number)
    rung.append(number)
    log.info("signal")
    begun.pop()

signal.signal(signal.SIGUSR1, ring)
stop = threading.Event()

def bother():
    while len(rung) < 3000 and not stop.wait(0.0002):
        if len(begun) < 10:
            os.kill(os.getpid(), signal.SIGUSR1)

handler = ship()
thread = threading.Thread(target=bother)
thread.start()
for number in range(5000):
    log.info("line %d", number)
stop.set()
thread.join()
assert handler.drain(20)
found = handler.statistics()
assert rung
assert found.records == found.acknowledged + found.dropped == 5000 + len(rung)
assert set(found.dropped_by) <= {"nested"}, found
""",
        receiver.uri,
    )
    assert "Traceback" not in said


def test_a_forked_child_ships_its_own_records_only(receiver):
    """The parent's queue is sent once, by the parent."""
    said, _ = run(
        """
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork beside threads.
handler = ship(linger=60)
for number in range(100):
    log.info("parent %d", number)
children = []
for name in "ab":
    pid = os.fork()
    if not pid:
        found = handler.statistics()
        assert (found.records, found.queued) == (0, 0), found
        log.info("child %s", name)
        log.info("child %s", name)
        assert handler.drain(20)
        found = handler.statistics()
        assert found.acknowledged == found.records == 2, found
        sys.exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
log.info("parent last")
assert handler.statistics().records == 101
""",
        receiver.uri,
    )
    assert said == ""
    lines = receiver.messages
    assert sorted(lines) == sorted(
        [*(f"parent {number}" for number in range(100)), "parent last", *["child a", "child b"] * 2]
    )
    pids = {each["message"]: each["process"]["pid"] for each in receiver.events}
    assert pids["child a"] != pids["child b"] != pids["parent last"]


def test_forks_while_other_threads_log(receiver):
    """No lock of another thread is held in the child."""
    said, _ = run(
        """
handler = ship(linger=0)
stop = threading.Event()
def flood():
    while not stop.is_set():
        log.info("flood")
for _ in range(3):
    threading.Thread(target=flood).start()
children = []
for number in range(20):
    pid = os.fork()
    if not pid:
        log.info("child %d", number)
        handler.close()
        os._exit(0)
    children.append(pid)
    time.sleep(0.01)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
""",
        receiver.uri,
    )
    assert "Traceback" not in said
    lines = [line for line in receiver.messages if line.startswith("child")]
    assert sorted(lines) == sorted(f"child {number}" for number in range(20))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_thread_imports_nothing(receiver, host):
    """A fork in the middle of an import would leave a lock held in the child."""
    said, _ = run(
        """
handler = ship(close_timeout=10)
before = set(sys.modules)
log.info("one")
handler.close()
assert set(sys.modules) <= before, set(sys.modules) - before
""",
        receiver.uri.replace("127.0.0.1", host),
    )
    assert receiver.messages == ["one"]
    assert said == ""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing(receiver, method, tmp_path):
    """Such a process ends without `atexit`. Its last records arrive all the same."""
    program = tmp_path / "program.py"
    program.write_text(
        HEAD
        + """
import multiprocessing

def work(number):
    if not log.handlers:
        ship(linger=60)
    log.info("worker %d", number)

if __name__ == "__main__":
    ship(linger=60)
    log.info("parent")
    context = multiprocessing.get_context(sys.argv[2])
    workers = [context.Process(target=work, args=(number,)) for number in range(2)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
        assert each.exitcode == 0
"""
    )
    subprocess.run(
        [sys.executable, str(program), receiver.uri, method],
        env=environment(),
        check=True,
        timeout=60,
    )
    assert sorted(receiver.messages) == ["parent", "worker 0", "worker 1"]


POOL = """
import multiprocessing

def work(number):
    if not log.handlers:
        ship(linger=60, close_timeout=float(sys.argv[3]))
    log.info("task %d", number)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    with context.Pool(2) as pool:
        pool.map(work, range(20), chunksize=1)
        if sys.argv[4] == "join":
            pool.close()
            pool.join()
"""

ENDS = pytest.mark.parametrize("end", ["join", "terminate"])
"""Without a join, the end of the block sends SIGTERM to the workers."""


def run_with_workers(tmp_path, text, *arguments):
    """Run a program that `multiprocessing` can import; return what it wrote to standard error."""
    program = tmp_path / "program.py"
    program.write_text(HEAD + text)
    done = subprocess.run(
        [sys.executable, str(program), *map(str, arguments)],
        env=environment(),
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@ENDS
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_pool(receiver, method, end, tmp_path):
    """Each record arrives that was logged before the workers were told to end."""
    said = run_with_workers(tmp_path, POOL, receiver.uri, method, 20, end)
    assert sorted(receiver.messages) == sorted(f"task {number}" for number in range(20))
    assert said == ""


@ENDS
def test_what_a_worker_drops_at_its_end_is_told(tmp_path, end):
    """Its records would else vanish without a word. A worker that is told to end does not hang."""
    said = run_with_workers(tmp_path, POOL, "lumberjack://127.0.0.1:9", "fork", 0.1, end)
    dropped = re.findall(r"(\d+) log records were dropped \(unsent", said)
    assert sum(map(int, dropped)) == 20
    assert "Traceback" not in said


def test_a_worker_that_is_terminated(receiver, tmp_path):
    """Whatever its main thread does, it ends by SIGTERM. What it has started ends at once.

    A blocked signal would be inherited by the program, and a handler by the forked child.
    """
    said = run_with_workers(
        tmp_path,
        """
import multiprocessing, signal, subprocess

def work(number, ready):
    log.info("worker %d", number)
    if number == 0:
        pid = os.fork()
        if not pid:
            time.sleep(60)
            os._exit(1)
        program = subprocess.Popen(["sleep", "60"])
        for each in (pid, program.pid):
            os.kill(each, signal.SIGTERM)
        assert os.waitpid(pid, 0)[1] == signal.SIGTERM
        assert program.wait() == -signal.SIGTERM
    log.info("worker %d has begun", number)
    ready.set()
    while number == 1:
        pass
    time.sleep(60)

if __name__ == "__main__":
    ship(linger=60)
    context = multiprocessing.get_context("fork")
    for number in range(2):
        ready = context.Event()
        worker = context.Process(target=work, args=(number, ready))
        worker.start()
        assert ready.wait(30)
        worker.terminate()
        worker.join(30)
        assert worker.exitcode == -signal.SIGTERM, worker.exitcode
""",
        receiver.uri,
    )
    assert said == ""
    workers = [f"worker {number}" for number in range(2)]
    assert receiver.messages == [line for each in workers for line in (each, f"{each} has begun")]


def test_a_worker_that_is_terminated_again_and_again(tmp_path):
    """While it waits for its last records, no signal is too many: their texts fill a pipe."""
    run_with_workers(
        tmp_path,
        """
import multiprocessing, signal

def work(ready):
    log.info("line")
    deep(ready, 200)

def deep(ready, depth):
    if depth:
        deep(ready, depth - 1)
    ready.set()
    while True:
        pass

if __name__ == "__main__":
    ship(close_timeout=1)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    worker = context.Process(target=work, args=(ready,))
    worker.start()
    assert ready.wait(30)
    for _ in range(100):
        worker.terminate()
        time.sleep(0.002)
    worker.join(20)
    ended = worker.exitcode
    worker.kill()
    assert ended == -signal.SIGTERM, ended
""",
        "lumberjack://127.0.0.1:9",
    )


def test_a_worker_that_handles_sigterm_itself(receiver, tmp_path):
    """Its handler is not replaced."""
    said = run_with_workers(
        tmp_path,
        """
import multiprocessing, signal

def work(ready):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    log.info("worker")
    ready.set()
    time.sleep(60)

if __name__ == "__main__":
    ship(linger=60)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    worker = context.Process(target=work, args=(ready,))
    worker.start()
    assert ready.wait(30)
    worker.terminate()
    worker.join(30)
    assert worker.exitcode == 7, worker.exitcode
""",
        receiver.uri,
    )
    assert said == ""
    assert receiver.messages == ["worker"]


def test_a_program_within_trio(receiver):
    said, _ = run(
        """
import trio
async def main():
    ship()
    log.info("one")
    raise ValueError("the end")
trio.run(main)
""",
        receiver.uri,
        status=1,
    )
    assert receiver.messages == ["one"]
    assert "the end" in said
