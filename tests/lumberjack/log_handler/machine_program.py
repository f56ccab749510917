"""A program that logs in random ways, with threads and processes that begin and end.

It writes each record into a ledger: before it logs it, and again behind that. It takes the address
of the receiver, the ledger, a number, and the seconds for the end of each process.
"""

from __future__ import annotations

import logging
import logging.handlers
import multiprocessing
import os
import queue
import random
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

from rsocket_trio.lumberjack import LumberjackHandler

URI, LEDGER, SEED, CLOSE_TIMEOUT = sys.argv[1:5]
RNG = random.Random(int(SEED))
LOG = logging.getLogger("app")
QUEUED = logging.getLogger("queued")
PATIENCE = 120.0
"""Seconds for the start and the end of a process, of which a busy machine needs most."""

# Python 3.12 warns of each fork beside threads.
warnings.simplefilter("ignore", DeprecationWarning)


def note(word: str, text: object) -> None:
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, f"{word} {text}\n".encode())
    os.close(ledger)


def log_some(name: str, count: int, logger: logging.Logger = LOG) -> None:
    for number in range(count):
        text = f"{os.getpid()} {threading.get_native_id()} {name} {number} {time.monotonic_ns()}"
        note("begun", text)
        logger.info(text)
        note("logged", text)


def set_up() -> LumberjackHandler:
    """Attach a handler, unless a fork has it already."""
    if not LOG.handlers:
        LOG.setLevel(logging.INFO)
        LOG.addHandler(
            LumberjackHandler(
                URI, close_timeout=float(CLOSE_TIMEOUT), linger=random.choice([0, 0.05, 60])
            )
        )
    (handler,) = LOG.handlers
    assert isinstance(handler, LumberjackHandler)
    return handler


# What a worker does.


def task(number: int) -> None:
    set_up()
    log_some(f"task{number}", 3)


def worker(ready, end: str) -> None:
    set_up()
    log_some("worker", 20)
    if end == "flood":
        note("unsure", os.getpid())
    ready.set()
    while end == "flood":
        log_some("flood", 10)
    if end != "itself":
        time.sleep(60)


# What the program does.


def burst() -> None:
    log_some("burst", RNG.randrange(1, 200))


def threads() -> None:
    for number in range(RNG.randrange(1, 5)):
        threading.Thread(target=log_some, args=(f"thread{number}", 50)).start()


def threads_that_end() -> None:
    """Their idents are used again, also the ones of workers that have ended."""
    for number in range(20):
        thread = threading.Thread(target=log_some, args=(f"short{number}", 1))
        thread.start()
        thread.join()


def behind_a_queue() -> None:
    records: queue.Queue = queue.Queue()
    QUEUED.setLevel(logging.INFO)
    QUEUED.propagate = False
    QUEUED.handlers = [logging.handlers.QueueHandler(records)]
    listener = logging.handlers.QueueListener(records, set_up())
    listener.start()
    log_some("queued", 50, QUEUED)
    listener.stop()


def fork_that_exits() -> None:
    if not (pid := os.fork()):
        log_some("child", 20)
        sys.exit(0)
    os.waitpid(pid, 0)


def fork_that_flushes() -> None:
    if not (pid := os.fork()):
        log_some("child", 20)
        if not set_up().drain(float(CLOSE_TIMEOUT)):
            note("unsure", os.getpid())
        os._exit(0)
    os.waitpid(pid, 0)


def forks_beside_threads() -> None:
    threads()
    for _ in range(3):
        fork_that_exits()


def process() -> None:
    context = multiprocessing.get_context(RNG.choice(["fork", "fork", "fork", "spawn"]))
    end = RNG.choice(["itself", "terminate", "terminate", "flood", "kill"])
    ready = context.Event()
    child = context.Process(target=worker, args=(ready, end))
    child.start()
    assert ready.wait(PATIENCE), "the worker does not start"
    if end == "kill":
        note("unsure", child.pid)
        child.kill()
    elif end != "itself":
        child.terminate()
    child.join(PATIENCE)
    assert child.exitcode is not None, "the worker does not end"


def pool() -> None:
    methods = ["fork", "fork", "fork", "forkserver"]
    context = multiprocessing.get_context(RNG.choice(methods))
    with context.Pool(2) as pool:
        pool.map(task, range(8), chunksize=1)
        if RNG.random() < 0.3:
            pool.close()
            pool.join()


def executor() -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        list(pool.map(task, range(8)))


ACTIONS = [
    burst,
    threads,
    threads_that_end,
    behind_a_queue,
    fork_that_exits,
    fork_that_flushes,
    forks_beside_threads,
    process,
    pool,
    executor,
]


def main() -> None:
    set_up()
    for action in RNG.choices(ACTIONS, k=4):
        note("action", action.__name__)
        action()
    end = RNG.choice(["return", "exit", "error", "shutdown"])
    note("action", end)
    if end == "shutdown":
        for thread in threading.enumerate():
            if thread.name.startswith("Thread-"):
                thread.join()
        logging.shutdown()
        LOG.info("too late")
        assert set_up().statistics().dropped_by["closed"] == 1
    elif end == "exit":
        sys.exit(3)
    elif end == "error":
        raise ValueError("the end")


if __name__ == "__main__":
    main()
