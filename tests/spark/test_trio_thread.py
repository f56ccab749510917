"""`TrioThread`: trio for code without trio, in a thread."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.spark.items import Items
from rsocket_trio.spark.trio_thread import ServiceFailed, ThreadClosed, TrioThread
from tests.waiting import wait_until


@pytest.fixture
def thread():
    thread = TrioThread("test thread")
    yield thread
    assert thread.close(5), "the thread does not end"


class Gate:
    """Counts who is inside, for functions that run in the thread."""

    def __init__(self):
        self.inside = threading.Event()
        self.left = threading.Event()

    async def wait(self, cleanup=0.0):
        self.inside.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(cleanup)
            self.left.set()


async def value(result):
    await trio.lowlevel.checkpoint()
    return result


async def failure(error):
    await trio.lowlevel.checkpoint()
    raise error


class TestRun:
    def test_the_result_comes_back_and_the_thread_stays(self, thread):
        assert not thread.is_running
        assert thread.run(value, 7) == 7
        assert thread.run(partial(value, None)) is None
        assert thread.is_running

    def test_all_calls_run_in_one_daemon_thread(self, thread):
        async def where():
            return threading.current_thread()

        one, two = thread.run(where), thread.run(where)
        assert one is two is not threading.current_thread()
        assert one.daemon
        assert one.name == "test thread"

    @pytest.mark.parametrize(
        "error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), TimeoutError("mine")]
    )
    def test_an_error_is_raised_as_it_is(self, thread, error):
        with pytest.raises(type(error)) as caught:
            thread.run(failure, error)
        assert caught.value is error
        assert thread.run(value, 1) == 1, "the thread goes on"

    def test_a_group_of_one_error_is_this_error(self, thread):
        async def nursery():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(failure, LookupError("only"))
                await trio.sleep_forever()

        with pytest.raises(LookupError, match="only"):
            thread.run(nursery)

    def test_a_timeout_cancels_and_waits_for_the_end(self, thread):
        gate = Gate()
        with pytest.raises(TimeoutError, match=r"Gate\.wait was not finished within 0\.05 s"):
            thread.run(gate.wait, 0.05, timeout=0.05)
        assert gate.left.is_set()

    def test_a_result_that_comes_in_the_cleanup_of_a_timeout_counts(self, thread):
        async def late():
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)
            return "late"

        assert thread.run(late, timeout=0.01) == "late"

    @pytest.mark.parametrize("timeout", [0, -1])
    def test_a_timeout_is_above_zero(self, thread, timeout):
        with pytest.raises(ValueError, match="timeout must be above 0"):
            thread.run(value, 1, timeout=timeout)
        assert not thread.is_running

    def test_many_threads_may_call(self, thread):
        results = []

        def call(number):
            results.extend(thread.run(value, number) for _ in range(50))

        callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert sorted(results) == sorted(list(range(8)) * 50)

    def test_a_function_in_the_thread_cannot_call(self, thread):
        async def inside():
            thread.run(value, 1)

        with pytest.raises(RuntimeError, match="cannot wait for it"):
            thread.run(inside)

    def test_an_interrupted_caller_cancels_and_waits(self, thread):
        """A signal handler raises in the main thread, e.g. for SIGTERM in Spark's runner."""
        gate = Gate()

        def stop(number, frame):
            raise SystemExit(5)

        before = signal.signal(signal.SIGUSR1, stop)
        try:
            threading.Thread(
                target=lambda: (gate.inside.wait(), os.kill(os.getpid(), signal.SIGUSR1))
            ).start()
            with pytest.raises(SystemExit):
                thread.run(gate.wait, 0.05)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert gate.left.is_set()
        assert thread.run(value, 1) == 1


class TestClose:
    def test_close_cancels_calls(self, thread):
        gate = Gate()
        caught = []

        def call():
            try:
                thread.run(gate.wait)
            except ThreadClosed as error:
                caught.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        gate.inside.wait()
        assert thread.close()
        caller.join()
        assert gate.left.is_set()
        assert "test thread has been closed" in str(caught[0])
        with pytest.raises(ThreadClosed):
            thread.run(value, 1)

    def test_an_unused_thread_can_be_closed_twice(self, thread):
        assert thread.close()
        assert thread.close()
        with pytest.raises(ThreadClosed):
            thread.serve(value, 1)
        with pytest.raises(ThreadClosed):
            next(thread.iterate(partial(opened, Count(1)), buffer=1))

    def test_a_thread_that_does_not_end_is_left_behind(self, thread):
        async def stubborn(*, task_status):
            task_status.started()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)

        thread.serve(stubborn)
        assert not thread.close(0.01)
        assert thread.close(5)

    def test_a_function_in_the_thread_may_close_it(self, thread):
        async def inside():
            thread.close()
            await trio.sleep_forever()

        with pytest.raises(ThreadClosed):
            thread.run(inside)

    def test_a_run_that_breaks_ends_all_calls_and_the_next_call_starts_again(self, thread):
        async def break_trio():
            trio.lowlevel.current_trio_token().run_sync_soon(int, "no number")
            await trio.sleep_forever()

        with pytest.raises(trio.TrioInternalError):
            thread.run(break_trio)
        assert thread.run(value, 2) == 2


class TestServe:
    def test_a_service_starts_with_a_value_and_runs_until_the_end(self, thread):
        gate = Gate()

        async def service(answer, *, task_status):
            task_status.started(answer)
            await gate.wait()

        assert thread.serve(service, "address") == "address"
        assert thread.run(value, 1) == 1
        assert not gate.left.is_set()
        thread.close()
        assert gate.left.is_set()

    def test_a_service_may_return(self, thread):
        async def service(*, task_status):
            task_status.started("soon over")

        assert thread.serve(service) == "soon over"
        assert thread.run(value, 1) == 1

    def test_a_service_that_cannot_start_harms_no_others(self, thread):
        async def service(*, task_status):
            raise OSError("the address is in use")

        with pytest.raises(OSError, match="in use"):
            thread.serve(service)
        assert thread.run(value, 1) == 1

    def test_a_service_must_say_that_it_has_started(self, thread):
        async def service(*, task_status):
            await trio.lowlevel.checkpoint()

        with pytest.raises(RuntimeError, match="started"):
            thread.serve(service)

    def test_a_service_that_fails_ends_all(self, thread, caplog):
        fail = None
        gate = Gate()

        async def service(*, task_status):
            nonlocal fail
            fail = trio.Event()
            task_status.started()
            await fail.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(failure, OSError("disk"))

        async def trigger():
            fail.set()
            await gate.wait()

        thread.serve(service)
        for _ in range(2):
            with pytest.raises(ServiceFailed, match="service has failed: OSError") as caught:
                thread.run(trigger)
            assert isinstance(caught.value.__cause__, OSError)
        assert gate.left.is_set()
        with pytest.raises(ServiceFailed):
            thread.serve(service)
        assert "the service" in caplog.text
        assert thread.close()


def opened(items, *, on_exit=lambda: None):
    """An async context manager that gives async items."""

    @asynccontextmanager
    async def manager():
        try:
            yield items
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            on_exit()

    return manager()


class Count:
    """Async items: numbers, and then the end or an error."""

    def __init__(self, stop, *, error=None):
        self.stop = stop
        self.error = error
        self.made = 0

    def __aiter__(self):
        return self

    async def __anext__(self):
        await trio.lowlevel.checkpoint()
        if self.made == self.stop:
            raise self.error or StopAsyncIteration
        self.made += 1
        return self.made - 1


class Silent(Count):
    """One item, and then nothing happens."""

    def __init__(self, then=lambda: None):
        super().__init__(1)
        self.then = then

    async def __anext__(self):
        if self.made:
            self.then()
            await trio.sleep_forever()
        return await super().__anext__()


class TestIterate:
    @pytest.mark.parametrize("buffer", [1, 2, 3, 64])
    def test_all_items_come_in_order(self, thread, buffer):
        items = thread.iterate(lambda: opened(Count(50)), buffer=buffer)
        assert [*items] == [*range(50)]
        assert [*items] == []

    def test_nothing_is_opened_before_the_first_item(self, thread):
        thread.iterate(lambda: opened(Count(50)), buffer=1)
        assert not thread.is_running

    @pytest.mark.parametrize("buffer", [1, 5, 8])
    def test_the_producer_waits_for_room(self, thread, buffer):
        source = Count(10**6)
        with thread.iterate(lambda: opened(source), buffer=buffer) as items:
            for number in range(40):
                assert next(items) == number
                assert source.made <= number + 1 + buffer
            wait_until(lambda: source.made >= 40 + buffer // 2)
            time.sleep(0.02)
            assert source.made <= 40 + buffer

    @pytest.mark.parametrize("buffer", [1, 2, 7])
    def test_the_end_is_not_lost_when_the_buffer_is_full(self, thread, buffer):
        """The producer ends when the consumer has taken nothing of a full buffer."""
        source = Count(buffer)
        items = thread.iterate(lambda: opened(source), buffer=buffer)
        assert next(items) == 0
        wait_until(lambda: source.made == buffer)
        time.sleep(0.03)
        assert [*items] == [*range(1, buffer)]

    def test_a_producer_that_fails_gives_its_items_first(self, thread):
        items = thread.iterate(lambda: opened(Count(5, error=LookupError("gone"))), buffer=9)
        got = []
        with pytest.raises(LookupError, match="gone"):
            for item in items:
                got.append(item)
        assert got == [0, 1, 2, 3, 4]
        assert [*items] == []

    def test_an_error_of_opening_is_raised(self, thread):
        def fail():
            raise OSError("refused")

        with pytest.raises(OSError, match="refused"):
            next(thread.iterate(fail, buffer=1))

    def test_a_consumer_that_leaves_early_closes(self, thread):
        exits = []
        source = Count(10**6)
        items = thread.iterate(lambda: opened(source, on_exit=lambda: exits.append(1)), buffer=4)
        assert next(items) == 0
        items.close()
        assert exits == [1], "close waits for the exit of the context manager"
        made = source.made
        assert [*items] == []
        items.close()
        assert source.made == made

    def test_a_generator_that_delegates_closes_too(self, thread):
        """So Spark closes a ``read`` that is a generator."""
        exits = []

        def read():
            yield from thread.iterate(
                lambda: opened(Count(10**6), on_exit=lambda: exits.append(1)), buffer=4
            )

        reading = read()
        assert next(reading) == 0
        reading.close()
        assert exits == [1]

    def test_an_iterator_that_is_dropped_cancels_its_task(self, thread):
        exits = []
        items = thread.iterate(
            lambda: opened(Count(10**6), on_exit=lambda: exits.append(1)), buffer=4
        )
        next(items)
        del items
        gc.collect()
        wait_until(lambda: exits == [1])

    def test_a_thread_that_is_closed_ends_the_items(self, thread):
        items = thread.iterate(lambda: opened(Silent()), buffer=1)
        assert next(items) == 0
        threading.Timer(0.02, thread.close).start()
        with pytest.raises(ThreadClosed):
            next(items)

    def test_a_thread_that_is_closed_does_not_take_items_away(self, thread):
        source = Count(3)
        items = thread.iterate(lambda: opened(source), buffer=8)
        assert next(items) == 0
        wait_until(lambda: source.made == 3)
        time.sleep(0.03)
        thread.close()
        assert [*items] == [1, 2]

    def test_an_interrupted_wait_ends_the_items(self, thread):
        """An interrupt between two waits is the matter of the program, which drops the items."""
        exits = []

        def place():
            frame = sys._current_frames()[threading.main_thread().ident]
            return frame.f_code, frame.f_lasti

        def interrupt():
            before = None
            while (now := place()) != before or now[0] is not Items.__next__.__code__:
                before = now
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGUSR1)

        source = Silent(interrupt)

        def stop(number, frame):
            raise SystemExit(5)

        before = signal.signal(signal.SIGUSR1, stop)
        try:
            with pytest.raises(SystemExit):
                for _ in thread.iterate(
                    lambda: opened(source, on_exit=lambda: exits.append(1)), buffer=1
                ):
                    pass
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert exits == [1]

    def test_the_items_cannot_be_taken_in_the_thread(self, thread):
        items = thread.iterate(lambda: opened(Count(10**6)), buffer=1)
        next(items)

        async def inside():
            return next(items)

        with pytest.raises(RuntimeError, match="in the thread that fetches them"):
            thread.run(inside)
        items.close()

    @pytest.mark.parametrize("buffer", [0, -1])
    def test_the_buffer_has_room(self, thread, buffer):
        with pytest.raises(ValueError, match="at least 1"):
            thread.iterate(lambda: opened(Count(10**6)), buffer=buffer)

    @given(
        buffer=st.integers(1, 6),
        made=st.integers(0, 20),
        taken=st.integers(0, 25),
        error=st.booleans(),
    )
    def test_any_number_made_and_taken(self, buffer, made, taken, error):
        """The items are the first ones, and then the end or the error comes, or the close."""
        exits = []
        problem = LookupError() if error else None
        source = Count(made, error=problem)
        with SHARED.iterate(
            lambda: opened(source, on_exit=lambda: exits.append(1)), buffer=buffer
        ) as items:
            got = []
            ended = None
            try:
                while len(got) < taken:
                    got.append(next(items))
            except (StopIteration, LookupError) as end:
                ended = type(end)
        assert got == [*range(min(made, taken))]
        if taken > made:
            assert ended is (LookupError if error else StopIteration)
        assert exits == ([1] if taken else [])


SHARED = TrioThread("shared by examples")


def program(text, *, timeout=60):
    """Run a program, and return its exit code and its lines."""
    head = """
    import os, sys, threading, time, signal
    import trio
    from contextlib import asynccontextmanager
    from rsocket_trio.spark.trio_thread import TrioThread

    thread = TrioThread("program")

    async def value(result):
        await trio.lowlevel.checkpoint()
        return result
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c",
         textwrap.dedent(head) + textwrap.dedent(text)],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


class TestProcesses:
    def test_pickling_gives_a_thread_that_has_not_started(self, thread):
        thread.run(value, 1)
        copy = pickle.loads(pickle.dumps(thread))
        assert copy.name == "test thread"
        assert not copy.is_running
        assert copy.run(value, 3) == 3
        assert copy.close()

    def test_a_forked_child_has_a_thread_of_its_own(self):
        code, lines = program(
            """
            @asynccontextmanager
            async def manager():
                async def items():
                    while True:
                        await trio.lowlevel.checkpoint()
                        yield 1
                yield items()

            items = thread.iterate(manager, buffer=2)
            next(items)
            child = os.fork()
            if child == 0:
                print(thread.is_running, thread.run(value, "child"), flush=True)
                try:
                    next(items)
                except RuntimeError as error:
                    print("another process" in str(error), flush=True)
                items.close()
                del items
                thread.close()
                os._exit(0)
            print(os.waitpid(child, 0)[1], thread.run(value, "parent"))
            """
        )
        assert code == 0
        assert lines == ["False child", "True", "0 parent"]

    def test_a_child_that_ends_normally_closes_its_own_thread(self):
        code, lines = program(
            """
            thread.run(value, 1)
            child = os.fork()
            if child:
                print("status", os.waitpid(child, 0)[1], thread.run(value, "parent"))
            else:
                async def service(*, task_status):
                    task_status.started()
                    try:
                        await trio.sleep_forever()
                    finally:
                        print("closed in the child", flush=True)
                thread.serve(service)
            """
        )
        assert code == 0
        assert lines == ["closed in the child", "status 0 parent"]

    def test_fork_while_another_thread_starts_calls(self):
        """The locks of the parent may be held at the moment of the fork."""
        code, lines = program(
            """
            stop = threading.Event()

            def call():
                while not stop.is_set():
                    other = TrioThread("other")
                    other.run(value, 1)
                    other.close()
                    thread.run(value, 1)

            callers = [threading.Thread(target=call) for _ in range(2)]
            for caller in callers:
                caller.start()
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    os._exit(thread.run(value, 3))
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            stop.set()
            print("done")
            """
        )
        assert (code, lines) == (0, ["done"])

    def test_the_end_of_the_program_closes_services(self):
        """They can still use threads, e.g. to write to a disk."""
        code, lines = program(
            """
            async def service(*, task_status):
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True):
                        print(await trio.to_thread.run_sync(lambda: "written"), flush=True)

            thread.serve(service)
            sys.exit(3)
            """
        )
        assert (code, lines) == (3, ["written"])

    def test_the_first_call_may_come_from_a_daemon(self):
        """The threads that it starts are daemons too, unless they say otherwise."""
        code, lines = program(
            """
            started = threading.Event()

            async def wait():
                started.set()
                try:
                    await trio.sleep_forever()
                finally:
                    print("closed", flush=True)

            threading.Thread(target=thread.run, args=(wait,), daemon=True).start()
            started.wait()
            threading.excepthook = lambda args: None
            """
        )
        assert (code, lines) == (0, ["closed"])

    def test_the_end_of_the_program_does_not_wait_for_long(self):
        code, lines = program(
            """
            from rsocket_trio.spark import trio_thread
            trio_thread.EXIT_TIMEOUT = 1
            began = time.monotonic()
            import atexit
            atexit.register(lambda: print(time.monotonic() < began + 25))

            async def service(*, task_status):
                task_status.started()
                with trio.CancelScope(shield=True):
                    await trio.sleep_forever()

            @asynccontextmanager
            async def manager():
                async def items():
                    while True:
                        await trio.lowlevel.checkpoint()
                        yield 1
                yield items()

            thread.serve(service)
            others = [TrioThread(f"other {number}") for number in range(50)]
            for each in others:
                each.serve(service)
            items = thread.iterate(manager, buffer=2)
            print(next(items))
            """
        )
        assert (code, lines) == (0, ["1", "True"])

    def test_threads_of_the_application_can_work_on(self):
        """The main thread has ended before them."""
        code, lines = program(
            """
            def work():
                threading.main_thread().join()
                time.sleep(0.2)
                print(thread.run(value, "works on"))

            thread.run(value, 1)
            threading.Thread(target=work).start()
            """
        )
        assert (code, lines) == (0, ["works on"])

    def test_the_program_ends_while_calls_wait(self):
        """A daemon thread of the application waits for a call, and one for items."""
        code, lines = program(
            """
            inside = threading.Semaphore(0)

            async def wait():
                inside.release()
                await trio.sleep_forever()

            @asynccontextmanager
            async def manager():
                async def items():
                    inside.release()
                    await trio.sleep_forever()
                    yield
                yield items()

            def call(function):
                try:
                    function()
                except Exception as error:
                    print(type(error).__name__ + "\\n", end="", flush=True)

            for each in (lambda: thread.run(wait), lambda: next(thread.iterate(manager, buffer=1))):
                threading.Thread(target=call, args=(each,), daemon=True).start()
                inside.acquire()
            """
        )
        assert code == 0
        assert set(lines) <= {"ThreadClosed"}
