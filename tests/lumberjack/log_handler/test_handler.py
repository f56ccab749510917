"""The handler beside a real server, in one process."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import logging.config
import logging.handlers
import queue
import random
import socket
import sys
import threading
import time

import attrs
import pytest
import trio

from rsocket_trio.lumberjack import LumberjackHandler, ShipperConfig
from rsocket_trio.lumberjack.log_handler import worker as worker_module
from rsocket_trio.lumberjack.log_handler.worker import MARK, Worker
from rsocket_trio.protocol.retry import Retry
from tests.lumberjack.log_handler.receiving_thread import receiving
from tests.ports import held_port
from tests.waiting import PATIENCE, wait_until

QUICK = ShipperConfig(retry=Retry(initial_delay=0.01, max_delay=0.05))
DOWN = "lumberjack://127.0.0.1:9"


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one


@pytest.fixture
def log():
    """A logger of its own, whose handlers are closed at the end.

    A thread that is late after `close_timeout` has its sockets for a moment more.
    """
    before = set(threading.enumerate())
    made = logging.Logger("app")
    yield made
    for handler in made.handlers:
        handler.close()
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith("Trio thread"):  # such a one waits for more work
            thread.join(PATIENCE)
            assert not thread.is_alive()


def add(log, uri, **settings):
    handler = LumberjackHandler(uri, **{"config": QUICK, "linger": 0.01, **settings})
    log.addHandler(handler)
    return handler


def adds_up(handler):
    found = handler.statistics()
    assert found.records == found.acknowledged + found.dropped + found.queued
    assert found.dropped == sum(found.dropped_by.values())
    return found


def test_records_arrive_in_order(receiver, log):
    handler = add(log, receiver.uri)
    for number in range(500):
        log.info("line %d", number)
    assert handler.drain(10)
    assert receiver.messages == [f"line {number}" for number in range(500)]
    found = adds_up(handler)
    assert found.acknowledged == 500
    assert found.acknowledged_size == sum(map(len, receiver.raw))
    assert (found.queued, found.queued_size, found.sending) == (0, 0, 0)


def test_the_thread_starts_with_the_first_record(receiver, log):
    before = threading.active_count()
    handler = add(log, receiver.uri)
    assert threading.active_count() == before
    log.info("one")
    assert threading.active_count() == before + 1
    handler.close()
    assert threading.active_count() == before


def test_a_handler_without_records_closes_at_once(log):
    handler = add(log, DOWN, close_timeout=600)
    handler.flush()
    handler.close()
    handler.close()


def test_lingering_records_share_a_batch(receiver, log):
    handler = add(log, receiver.uri, linger=0.3)
    for number in range(20):
        log.info("line %d", number)
    wait_until(lambda: len(receiver.raw) == 20)
    assert receiver.batches == 1
    adds_up(handler)


def test_drain_does_not_linger(receiver, log):
    handler = add(log, receiver.uri, linger=60)
    log.info("one")
    assert handler.drain(10)
    log.info("two")
    handler.flush()
    assert receiver.messages == ["one", "two"]


def test_close_does_not_linger(receiver, log):
    handler = add(log, receiver.uri, linger=60)
    log.info("one")
    handler.close()
    assert receiver.messages == ["one"]
    log.info("two")
    assert adds_up(handler).dropped_by == {"closed": 1}


@pytest.mark.parametrize("on_full", ["drop_newest", "drop_oldest", "block"])
def test_a_flood_from_many_threads_adds_up(receiver, log, on_full):
    """Nothing blocks for long, each record is counted once, and each thread's order is kept."""
    handler = add(log, receiver.uri, max_records=300, on_full=on_full, block_timeout=10)

    def flood(name):
        for number in range(500):
            log.info("%s %d", name, number)

    threads = [threading.Thread(target=flood, args=(name,)) for name in "abcdefgh"]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        found = adds_up(handler)
        assert found.queued <= 300
        time.sleep(0.002)
    assert handler.drain(20)
    found = adds_up(handler)
    assert found.records == 4000
    assert found.queued == 0
    lines = [message for message in receiver.messages if "dropped" not in message]
    assert found.acknowledged == len(lines)
    for name in "abcdefgh":
        own = [int(line[2:]) for line in lines if line[0] == name]
        assert own == sorted(set(own))
    if on_full == "block":
        assert found.acknowledged == 4000
    else:
        assert set(found.dropped_by) <= {"full" if on_full == "drop_newest" else "oldest", "full"}


def test_a_receiver_that_comes_later(log):
    with held_port() as port:
        handler = add(log, f"lumberjack://127.0.0.1:{port}")
        for number in range(50):
            log.info("line %d", number)
        assert not handler.drain(0.2)
        assert adds_up(handler).queued == 50
        with receiving(f"lumberjack://127.0.0.1:{port}") as receiver:
            assert handler.drain(10)
            assert receiver.messages == [f"line {number}" for number in range(50)]
            handler.close()


@pytest.mark.parametrize(
    ("on_full", "reason"), [("drop_newest", "full"), ("drop_oldest", "oldest")]
)
def test_a_receiver_that_stalls(receiver, log, on_full, reason):
    """The program goes on; the buffer fills to its edge, and then exactly the rest is dropped."""
    receiver.stall()
    handler = add(log, receiver.uri, max_records=40, on_full=on_full, linger=0)
    log.info("first")
    wait_until(lambda: handler.statistics().sending == 1)
    for number in range(39):
        log.info("line %d", number)
    wait_until(lambda: handler.statistics().sending > 1)
    assert adds_up(handler).dropped == 0
    assert handler.statistics().queued == 40
    sending = handler.statistics().sending
    for number in range(100):
        log.info("more %d", number)
    found = adds_up(handler)
    assert found.queued == 40
    assert found.dropped_by == {reason: 100}
    receiver.proceed()
    assert handler.drain(10)
    lines = [message for message in receiver.messages if "dropped" not in message]
    assert len(lines) == 40
    if on_full == "drop_oldest":
        kept = 40 - sending
        assert lines[sending:] == [f"more {number}" for number in range(100 - kept, 100)]
    else:
        assert lines == ["first"] + [f"line {number}" for number in range(39)]


def test_a_small_buffer_is_not_sent_at_once(receiver, log):
    """Half of it waits, also if there are more calls than records: newer ones take that place."""
    receiver.stall()
    settings = {"max_records": 4, "on_full": "drop_oldest", "linger": 0, "close_timeout": 0.1}
    handler = add(log, receiver.uri, config=attrs.evolve(QUICK, pipelining=8), **settings)
    for number in range(4):
        log.info("line %d", number)
    assert not handler.drain(0.2)
    for number in range(10):
        log.info("more %d", number)
    assert adds_up(handler).dropped_by == {"oldest": 10}


def test_block_waits_for_room_and_then_drops(receiver, log):
    receiver.stall()
    handler = add(
        log, receiver.uri, max_records=2, on_full="block", block_timeout=0.2, close_timeout=0.1
    )
    log.info("one")
    log.info("two")
    begin = time.monotonic()
    log.info("three")
    assert time.monotonic() - begin > 0.15
    assert adds_up(handler).dropped_by == {"full": 1}


def test_block_goes_on_when_there_is_room(receiver, log):
    receiver.stall()
    handler = add(log, receiver.uri, max_records=2, on_full="block", block_timeout=20)
    timer = threading.Timer(0.05, receiver.proceed)
    timer.start()
    for number in range(20):
        log.info("line %d", number)
    assert handler.drain(10)
    assert receiver.messages == [f"line {number}" for number in range(20)]


def test_closing_frees_a_thread_that_waits_for_room(receiver, log):
    receiver.stall()
    handler = add(
        log, receiver.uri, max_records=1, on_full="block", block_timeout=60, close_timeout=0.3
    )
    log.info("one")
    waiting = threading.Thread(target=log.info, args=("two",))
    waiting.start()
    time.sleep(0.05)
    assert waiting.is_alive()
    handler.close()
    waiting.join(5)
    assert not waiting.is_alive()
    assert adds_up(handler).dropped_by == {"unsent": 1, "closed": 1}


def test_close_takes_its_time_at_most(receiver, log, capsys):
    """A receiver that is silent holds up the program for close_timeout, and the loss is told."""
    receiver.stall()
    handler = add(log, receiver.uri, close_timeout=0.5)
    for _ in range(7):
        log.info("lost")
    begin = time.monotonic()
    handler.close()
    assert time.monotonic() - begin > 0.4
    assert adds_up(handler).dropped_by == {"unsent": 7}
    assert "7 log records were dropped (unsent 7)" in capsys.readouterr().err


def test_flush_and_close_share_the_time(receiver, log):
    """`logging.shutdown` calls both."""
    receiver.stall()
    add(log, receiver.uri, close_timeout=2)
    log.info("lost")
    begin = time.monotonic()
    logging.shutdown([lambda: log.handlers[0]])
    assert 1.9 < time.monotonic() - begin < 3.9


def test_a_record_that_is_refused_is_not_encoded(log):
    """A flood costs little when no more is kept, and after the end."""
    made = []

    def to_event(record, event):
        made.append(event)
        return event

    handler = add(log, DOWN, to_event=to_event, max_records=3, close_timeout=0.1)
    for number in range(20):
        log.info("line %d", number)
    handler.close()
    log.info("late")
    assert len(made) == 3
    assert adds_up(handler).dropped == 21


def test_a_second_close_waits_for_nothing(receiver, log, monkeypatch):
    """A program may close it, and `logging.shutdown` closes it again: one wait is promised."""
    handler = add(log, receiver.uri)
    log.info("one")
    handler.close()
    monkeypatch.setattr(Worker, "join", lambda *_: pytest.fail("it waits again"))
    handler.close()
    assert receiver.messages == ["one"]


def test_close_takes_its_time_after_a_short_drain(receiver, log):
    receiver.stall()
    handler = add(log, receiver.uri)
    log.info("one")
    assert not handler.drain(0.01)
    timer = threading.Timer(0.8, receiver.proceed)
    timer.start()
    handler.close()
    assert receiver.messages == ["one"]


def test_a_receiver_that_is_down_shows_on_standard_error(log, capsys):
    """The warnings of the shipper reach no other handler here."""
    logging.getLogger("rsocket_trio").propagate = False
    try:
        handler = add(log, DOWN, close_timeout=0.1)
        logging.getLogger("rsocket_trio").addHandler(handler)
        log.info("one")
        shown = ""
        while "127.0.0.1:9" not in shown:
            time.sleep(0.01)
            shown += capsys.readouterr().err
        assert adds_up(handler).records == 1  # its own lines are not queued
    finally:
        logging.getLogger("rsocket_trio").propagate = True
        logging.getLogger("rsocket_trio").removeHandler(handler)
        handler.close()


def test_a_program_that_has_closed_standard_error(log, monkeypatch):
    """The warnings go nowhere; `logging` would raise the error of the stream."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    failures = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        handler = add(log, DOWN, close_timeout=0.2)
        other = add(log, f"lumberjack://127.0.0.1:{silent.getsockname()[1]}", close_timeout=0.2)
        log.info("one")
        handler.close()
        other.close()
    assert adds_up(handler).dropped_by == adds_up(other).dropped_by == {"unsent": 1}
    assert not failures


def test_a_record_with_a_strange_thread(receiver, log):
    """Records that came from another program have anything in them."""
    handler = add(log, receiver.uri)
    log.handle(logging.makeLogRecord({"levelno": 20, "msg": "one", "thread": ["x"]}))
    assert handler.drain(10)
    assert receiver.messages == ["one"]


def test_another_handler_gets_the_warnings_instead(log, capsys, caplog):
    root = logging.getLogger()
    handler = add(log, DOWN, close_timeout=0.1)
    root.addHandler(handler)
    try:
        log.info("one")
        wait_until(lambda: "127.0.0.1:9" in caplog.text)
        handler.close()
        assert "Connection refused" not in capsys.readouterr().err
    finally:
        root.removeHandler(handler)


def test_its_own_records_are_known_without_thread_ids(log, capsys, monkeypatch):
    monkeypatch.setattr(logging, "logThreads", False)
    root = logging.getLogger("rsocket_trio")
    handler = add(log, DOWN, close_timeout=0.1)
    root.addHandler(handler)
    try:
        log.info("one")
        time.sleep(0.1)
        assert adds_up(handler).records == 1
    finally:
        root.removeHandler(handler)


def test_two_handlers_do_not_feed_each_other(receiver, log):
    root = logging.getLogger("rsocket_trio")
    one, other = add(log, DOWN, close_timeout=0.1), add(log, receiver.uri)
    root.addHandler(one)
    root.addHandler(other)
    try:
        log.info("one")
        assert other.drain(10)
        time.sleep(0.2)
        assert adds_up(one).records == adds_up(other).records == 1
    finally:
        root.removeHandler(one)
        root.removeHandler(other)


def test_arguments_that_log(receiver, log):
    class Talks:
        def __str__(self):
            log.info("nested")
            return "talks"

    handler = add(log, receiver.uri)
    log.info("outer %s", Talks())
    assert handler.drain(10)
    assert receiver.messages == ["nested", "outer talks"]


def test_endless_nesting_ends(receiver, log):
    def to_event(record, event):
        log.info("more")
        return event

    handler = add(log, receiver.uri, to_event=to_event)
    log.info("one")
    assert handler.drain(10)
    assert receiver.messages == ["more"] * 3 + ["one"]
    assert adds_up(handler).dropped_by == {"nested": 1}


def test_to_event_and_formatter(receiver, log):
    handler = add(log, receiver.uri, to_event=lambda record, event: event | {"n": record.lineno})
    handler.setFormatter(logging.Formatter("<%(levelname)s> %(message)s"))
    handler.addFilter(lambda record: record.msg != "filtered")
    assert [handler.handle(logging.makeLogRecord({"msg": text, "levelname": "WARNING"}))
            for text in ("filtered", "text")] == [False, True]  # fmt: skip
    assert handler.drain(10)
    assert receiver.events[0]["message"] == "<WARNING> text"
    assert isinstance(receiver.events[0]["n"], int)


@pytest.mark.parametrize("shown", [True, False])
def test_records_that_cannot_become_events(receiver, log, capsys, monkeypatch, shown):
    """They never raise into the program; `logging.raiseExceptions` says whether they are shown."""
    monkeypatch.setattr(logging, "raiseExceptions", shown)
    handler = add(log, receiver.uri)

    class Odd:
        def __str__(self):
            raise KeyError("odd")

    log.info("%s", Odd())
    log.info("%d", "text")
    log.info("good")
    handler._to_event = lambda record, event: "text"
    log.info("bad")
    assert handler.drain(10)
    assert receiver.messages == ["good"]
    assert adds_up(handler).dropped_by == {"invalid": 3}
    said = capsys.readouterr().err
    assert said.count("--- Logging error ---") == (3 if shown else 0)
    assert ("to_event must return a mapping, not str" in said) == shown


def test_unserialisable_extras_and_huge_messages(receiver, log):
    handler = add(log, receiver.uri, max_event_size=5000)
    log.info("x" * 3_000_000, extra={"thing": object(), "nan": float("nan")})
    log.info("next")
    handler._to_event = lambda record, event: {f"field {number}": 1 for number in range(900)}
    log.info("never")
    assert handler.drain(10)
    first, second = receiver.events
    assert first["log"]["flags"] == ["truncated"]
    assert first["nan"] == "nan"
    assert first["thing"].startswith("<object object")
    assert len(receiver.raw[0]) <= 5000
    assert second["message"] == "next"
    assert adds_up(handler).dropped_by == {"too_large": 1}


def test_version_1(receiver, log):
    handler = add(log, receiver.uri, config={"version": 1})
    log.info("text", extra={"order": 7})
    assert handler.drain(10)
    assert b"log.level" in receiver.raw[0]


def test_drops_are_reported_to_the_receiver(receiver, log, capsys):
    receiver.stall()
    handler = add(log, receiver.uri, max_records=4)
    for _ in range(10):
        log.info("line")
    receiver.proceed()
    handler.close()
    notice = receiver.events[-1]
    assert notice["message"] == "6 log records were dropped (full 6)"
    assert notice["log"]["dropped"] == {"full": 6}
    assert notice["log"]["level"] == "warning"
    assert "6 log records were dropped (full 6)" in capsys.readouterr().err
    assert adds_up(handler).acknowledged == 4


def test_attempts_that_are_used_up(log, capsys):
    config = {"retry": {"initial_delay": 0.01, "max_attempts": 2}}
    handler = add(log, DOWN, config=config)
    log.info("one")
    assert handler.drain(10)
    assert adds_up(handler).dropped_by == {"undeliverable": 1}
    handler.close()


def test_a_fault_of_the_shipper_loses_nothing(receiver, log, capsys):
    handler = add(log, receiver.uri)
    connect = handler._connect
    attempts = []

    def fails_once():
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("a fault")
        return connect()

    handler._connect = fails_once
    handler._pipeline = handler._new_pipeline()
    log.info("one")
    assert handler.drain(10)
    assert receiver.messages == ["one"]
    assert "RuntimeError('a fault')" in capsys.readouterr().err


def test_a_thread_that_cannot_start(receiver, log, monkeypatch):
    """The records wait in the buffer, and a later record starts the thread."""
    handler = add(log, receiver.uri)

    def no_more(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        log.info("one")
        log.info("two")
    assert adds_up(handler).queued == 2
    handler._pipeline.worker._not_before = 0
    log.info("three")
    assert handler.drain(10)
    assert receiver.messages == ["one", "two", "three"]


def test_a_thread_that_has_failed_is_replaced(receiver, log, capsys, monkeypatch):
    """The event of the first record waits in the buffer."""
    handler = add(log, receiver.uri)
    worker = handler._pipeline.worker
    with monkeypatch.context() as patch:

        def no_more(function):
            raise OSError("too many open files")

        patch.setattr(trio, "run", no_more)
        log.info("one")
        wait_until(lambda: not worker.running)
    assert "a later record starts it again\nTraceback" in capsys.readouterr().err
    worker._not_before = 0
    log.info("two")
    assert handler.drain(10)
    assert receiver.messages == ["one", "two"]


def test_a_worker_that_is_cancelled_ends():
    """While it runs; it is not waited for as long as its function would take."""
    running = threading.Event()

    async def main():
        running.set()
        await trio.sleep_forever()

    worker = Worker(main, on_wake=int, on_failure=print, name="test")
    assert worker.start()
    assert running.wait(10)
    worker.cancel()
    assert worker.join(10)


def test_a_worker_that_runs_is_not_started_again(monkeypatch):
    """Also when so much time has passed that one that has failed would be."""
    worker = Worker(trio.sleep_forever, on_wake=int, on_failure=print, name="the only one")
    assert worker.start()
    monkeypatch.setattr(worker_module, "monotonic", lambda: float("inf"))
    assert not worker.start()
    assert [each.name for each in threading.enumerate()].count("the only one") == 1
    worker.cancel()
    assert worker.join(10)


def test_a_worker_that_was_joined_does_not_start():
    """A record that is logged while the handler is closed comes too late for a thread."""
    worker = Worker(trio.sleep_forever, on_wake=int, on_failure=print, name="test")
    assert worker.join(0)
    assert not worker.start()
    assert not worker.running


def test_the_pause_before_a_worker_is_started_again(monkeypatch):
    """A second from the last start, however many records come meanwhile."""
    now, started = [7.0], []

    def no_more(_thread):
        started.append(now[0])
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker_module, "monotonic", lambda: now[0])
    monkeypatch.setattr(threading.Thread, "start", no_more)
    worker = Worker(trio.sleep_forever, on_wake=int, on_failure=print, name="test")
    for now[0] in (7.0, 7.5, 7.999, 8.0, 8.5, 9.5):
        assert not worker.start()
    assert started == [7.0, 8.0, 9.5]


def test_a_thread_that_logs_just_behind_the_end_of_trio(monkeypatch):
    """Nobody is there to be woken, and the program gets no error."""
    run = trio.run

    def run_and_wake(main):
        run(main)
        worker.wake()

    async def main():
        pass

    failures = []
    worker = Worker(main, int, lambda text, error: failures.append((text, error)), "test")
    monkeypatch.setattr(trio, "run", run_and_wake)
    assert worker.start()
    assert worker.join(10)
    assert failures == []


def test_no_thread_at_all(log, monkeypatch, capsys):
    handler = add(log, DOWN, close_timeout=0.2)
    monkeypatch.setattr(handler._pipeline.worker, "_not_before", float("inf"))
    log.info("one")
    handler.close()
    assert adds_up(handler).dropped_by == {"unsent": 1}


def test_from_trio_and_asyncio(receiver, log):
    handler = add(log, receiver.uri)

    async def with_trio():
        log.info("trio")
        assert await trio.to_thread.run_sync(handler.drain, 10)

    async def with_asyncio():
        log.info("asyncio")
        assert await asyncio.to_thread(handler.drain, 10)

    trio.run(with_trio)
    asyncio.run(with_asyncio())
    assert receiver.messages == ["trio", "asyncio"]


def test_a_formatting_lock_is_not_held_while_closing(receiver, log):
    """Other threads log while one closes the handler: their records are dropped at once."""
    receiver.stall()
    handler = add(log, receiver.uri, close_timeout=600)
    log.info("one")
    closing = threading.Thread(target=logging.shutdown, args=([lambda: handler],))
    closing.start()
    time.sleep(0.1)
    log.info("two")
    assert closing.is_alive()
    receiver.proceed()
    closing.join()


def test_dict_config(receiver):
    configuration = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"short": {"format": "%(name)s: %(message)s"}},
        "handlers": {
            "ship": {
                "class": "rsocket_trio.lumberjack.LumberjackHandler",
                "uris": [receiver.uri],
                "config": {"compression_level": 1, "retry": {"max_delay": 1.0}},
                "level": "INFO",
                "formatter": "short",
                "on_full": "drop_oldest",
                "max_records": 1000,
                "fields": {"service": {"name": "shop"}},
                "to_event": f"ext://{__name__}.added",
            }
        },
        "loggers": {"test.dict_config": {"level": "DEBUG", "handlers": ["ship"]}},
    }
    logging.config.dictConfig(configuration)
    log = logging.getLogger("test.dict_config")
    handler = log.handlers[0]
    try:
        log.debug("hidden")
        log.info("shown")
        assert handler._config.retry.max_delay == 1.0
        assert handler._config.compression_level == 1
        # Configuring again closes the handlers of before, with their records sent.
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    finally:
        handler.close()
        log.removeHandler(handler)
    (event,) = receiver.events
    assert event["message"] == "test.dict_config: shown"
    assert event["service"] == {"name": "shop"}
    assert event["added"] is True


def added(record, event):
    return event | {"added": True}


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"uris": "http://x"}, ValueError, "lumberjack"),
        ({"uris": []}, ValueError, "name an address"),
        ({"uris": 7}, TypeError, "int"),
        ({"on_full": "drop"}, ValueError, "^on_full must be 'drop_newest', 'drop_oldest' or"),
        ({"max_records": 0}, ValueError, "^max_records must be at least 1"),
        ({"max_records": True}, TypeError, "^max_records must be of type int"),
        ({"max_event_size": 1023}, ValueError, "^max_event_size must be at least 1024"),
        ({"linger": -1}, ValueError, "linger must be at least 0"),
        ({"fields": {1: "a"}}, TypeError, "fields must be a mapping with text as keys"),
        ({"linger": "1"}, TypeError, "linger must be a number"),
        ({"close_timeout": float("nan")}, ValueError, "close_timeout must be"),
        ({"fields": {"message": 1}}, ValueError, "fields must not have 'message'"),
        ({"fields": "x"}, TypeError, "fields must be a mapping"),
        ({"fields": {str(n): n for n in range(999)}, "max_event_size": 1024}, ValueError, "large"),
        ({"to_event": 1}, TypeError, "to_event must be a function"),
        ({"config": {"wrong": 1}}, TypeError, "wrong"),
        ({"config": 1}, TypeError, "ShipperConfig"),
        ({"level": "LOUD"}, ValueError, "LOUD"),
        ({"ssl_context": 1}, TypeError, "ssl"),
    ],
)
def test_wrong_arguments(arguments, error, text):
    before = set(map(id, logging._handlerList))
    with pytest.raises(error, match=text):
        LumberjackHandler(**{"uris": DOWN, **arguments})
    gc.collect()  # It also removes handlers of other tests.
    assert set(map(id, logging._handlerList)) <= before


def test_the_smallest_buffer(log):
    add(log, DOWN, max_size=2048, max_event_size=1024)
    with pytest.raises(ValueError, match="at least twice max_event_size"):
        add(log, DOWN, max_size=2047, max_event_size=1024)


def test_a_handler_in_use_is_not_collected(receiver):
    """Its thread keeps it, so that `logging.shutdown` finds it."""
    log = logging.Logger("short")
    log.addHandler(LumberjackHandler(receiver.uri, linger=60, close_timeout=5))
    log.info("one")
    del log
    gc.collect()
    found = [ref() for ref in logging._handlerList if isinstance(ref(), LumberjackHandler)]
    assert found
    found[-1].close()
    assert receiver.messages == ["one"]


def test_the_ident_of_a_thread_says_nothing(receiver, log):
    """Threads get the idents of others that have ended, and a buffer may hold their records."""
    handler = add(log, receiver.uri)
    log.info("first")
    assert handler.drain(10)
    ident = handler._pipeline.worker._thread.ident
    record = log.makeRecord("app", logging.INFO, __file__, 1, "same ident", (), None)
    record.thread = ident
    assert handler.handle(record)
    assert handler.drain(10)
    assert receiver.messages == ["first", "same ident"]


def test_own_records_are_known_behind_a_queue(receiver, caplog, capsys, monkeypatch):
    """The thread that delivers them is another one. Those of another process are shipped.

    They are shown by the handler whose thread has made them, and by no other.
    """
    lines = queue.SimpleQueue()
    sender = logging.handlers.QueueHandler(lines)
    ours = logging.getLogger("rsocket_trio")
    ours.addHandler(sender)
    failing = LumberjackHandler(DOWN, close_timeout=0)
    try:
        failing.handle(logging.makeLogRecord({"msg": "never sent"}))
        found = lines.get(timeout=10)
    finally:
        ours.removeHandler(sender)
        failing.close()
    handler = LumberjackHandler(receiver.uri)
    capsys.readouterr()
    monkeypatch.setattr(ours, "propagate", False)
    assert not handler.handle(found)
    assert handler.statistics().records == 0
    assert not capsys.readouterr().err
    elsewhere = logging.makeLogRecord({**vars(found), MARK: "another process"})
    assert handler.handle(elsewhere)
    handler.close()
    assert receiver.messages == [found.getMessage()]
    assert MARK not in receiver.events[0]


def test_random_closing_never_loses_count(receiver):
    """Threads log while the handler is closed, at a random moment."""
    chance = random.Random(7)
    for _ in range(10):
        log = logging.Logger("app")
        handler = add(log, receiver.uri, max_records=50, close_timeout=1)

        def flood(log=log):
            for number in range(200):
                log.info("line %d", number)

        threads = [threading.Thread(target=flood) for _ in range(4)]
        for each in threads:
            each.start()
        time.sleep(chance.random() / 50)
        handler.close()
        for each in threads:
            each.join()
        found = adds_up(handler)
        assert found.records == 800
        assert found.queued == 0
