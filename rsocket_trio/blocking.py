"""Requests from code that does not run trio: `blocking_connect`, `blocking`.

The connection lives in a thread of its own, which runs trio. Any thread may call, and waits for the
answer. `Ctrl-C` ends the call, and not the connection.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial, wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import trio

from .client import connect
from .field_checks import SECONDS, argument, optional
from .portal import Call, Held, Portal
from .routing.caller import Caller, ItemStream
from .routing.declared_calls import NOTHING

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .connection.dialling import Dial
    from .metadata.builder import Metadata
    from .requester import Requester
    from .uri import Uri

__all__ = ["Blocking", "BlockingClient", "BlockingStream", "blocking", "blocking_connect"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Blocking(Generic[T]):
    """An async block that is open in a thread of its own.

    Any number of threads may use it at the same time, and no forked child. Do not use it in a
    thread that runs asyncio: everything there would wait for the answer. A task of trio gets a
    `RuntimeError`.

    Attributes:
        value: What the block gave, e.g. a `rsocket_trio.ttrpc.Client`. Only functions that `run`
            runs may use it.
    """

    def __init__(self, portal: Portal[T], value: T) -> None:
        self._portal = portal
        self.value = value

    def run(self, function: Callable[[], Awaitable[R]], *, timeout: float | None = None) -> R:
        """Run an async function in the thread, and wait for its result.

        ``client.run(partial(client.value.unary, METHOD, request), timeout=5)``

        Args:
            function: The function. Its context variables are a copy of those of the caller.
            timeout: It is cancelled after so many seconds. As it is the deadline of its scope, it
                leaves with calls that send one.

        Raises:
            Exception: That of the function.
            TimeoutError: The time is over.
            trio.ClosedResourceError: The block has ended, before or meanwhile.
            KeyboardInterrupt: The function is cancelled, and the connection goes on.
            RuntimeError: The caller is in a task of trio, or in a forked child.
        """
        argument("timeout", timeout, optional(SECONDS))
        _check_may_wait()
        self._portal.check()
        call = Call(function, self._portal, timeout)
        return _waited_for(call.done, call.cancel, call.start)

    @contextmanager
    def open(
        self, open_: Callable[[], AbstractAsyncContextManager[R]]
    ) -> Iterator[BlockingStream[Any]]:
        """Open a stream in the thread: anything with `receive`, in an async context manager.

        Args:
            open_: Makes it, e.g. ``partial(client.value.server_stream, METHOD, request)``.

        Raises:
            Exception: The error of entering, or of leaving.
            RuntimeError: As `run`.
        """
        _check_may_wait()
        held = Held(open_, self._portal)
        with _ending(held):  # first: an interrupt may come at any time
            held.start()
            value: Any = _waited_for(held.entered, held.abandon)
            yield BlockingStream(held, value.receive)


class BlockingStream(Generic[R]):
    """The items of a stream: iterate over it. Each read takes one item, which is the demand.

    Other items may be on the way, as many as ``prefetch`` says. One thread reads at a time.
    """

    def __init__(self, held: Held[Any], receive: Callable[[], Awaitable[R]]) -> None:
        self._held = held
        self._receive = receive
        self._pending: Call[R] | None = None
        self._reading = Lock()

    def __iter__(self) -> BlockingStream[R]:
        return self

    def __next__(self) -> R:
        try:
            return self.receive()
        except trio.EndOfChannel:
            raise StopIteration from None

    def receive(self, *, timeout: float | None = None) -> R:
        """Receive the next item.

        Args:
            timeout: How long to wait, in seconds. The stream goes on: read again.

        Raises:
            trio.EndOfChannel: The stream is complete.
            TimeoutError: No item has come in time, and none is lost.
            trio.ClosedResourceError: The block has ended.
            trio.BusyResourceError: Another thread is reading.
            KeyboardInterrupt: No item is lost.
            Exception: The error of the stream.
        """
        argument("timeout", timeout, optional(SECONDS))
        _check_may_wait()
        self._held.check()
        if not self._reading.acquire(blocking=False):
            raise trio.BusyResourceError("another thread is reading this stream")
        try:
            if self._pending is None:
                self._pending = self._held.begin(self._receive)
            pending = self._pending
            try:
                pending.done.exception(timeout)  # a read that is left goes on, for the next one
            except TimeoutError:
                raise TimeoutError(f"no item within {timeout:g} s") from None
            self._pending = None
            return pending.done.result()
        finally:
            self._reading.release()


class _Opened:
    """Make a method of a `Caller`, all its overloads included, one that waits in its thread."""

    def __init__(self, text: str) -> None:
        self.text = text  # its docstring

    def __call__(
        self, method: Callable[Concatenate[Caller, P], AbstractAsyncContextManager[ItemStream[R]]]
    ) -> Callable[Concatenate[BlockingClient, P], AbstractContextManager[BlockingStream[R]]]:
        @wraps(method)
        def open_(
            client: BlockingClient, /, *args: P.args, **options: P.kwargs
        ) -> AbstractContextManager[BlockingStream[R]]:
            return client.open(partial(method, client.caller, *args, **options))

        open_.__doc__ = self.text
        return open_


class BlockingClient(Blocking["Requester"]):
    """The requests of a `rsocket_trio.Caller`, for code that waits in its thread.

    Attributes:
        caller: For functions that `run` runs: metadata pushes, `Caller.of` and more.
    """

    def __init__(self, portal: Portal[Requester], requester: Requester) -> None:
        super().__init__(portal, requester)
        self.caller = Caller(requester)

    @overload
    def request_response(
        self,
        route: str,
        value: object = ...,
        *,
        returns: TypeForm[R],
        metadata: Metadata | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
    ) -> R: ...
    @overload
    def request_response(
        self,
        route: str,
        value: object = ...,
        *,
        metadata: Metadata | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
    ) -> object: ...
    def request_response(
        self,
        route: str,
        value: object = NOTHING,
        *,
        returns: Any = Any,
        metadata: Metadata | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Send a value to a route and wait for the answer: `Caller.request_response`.

        Args:
            route: The route.
            value: The data; empty without it.
            returns: The type of the answer.
            metadata: Metadata besides the route.
            idempotent: It may be handled twice.
            timeout: The request is cancelled after so many seconds.

        Raises:
            Exception: Those of `Caller.request_response`, and of `Blocking.run`.
        """
        send: Any = self.caller.request_response
        options = {"returns": returns, "metadata": metadata, "idempotent": idempotent}
        answer: Any = self.run(partial(send, route, value, **options), timeout=timeout)
        return answer

    def fire_and_forget(
        self,
        route: str,
        value: object = NOTHING,
        *,
        metadata: Metadata | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send a value to a route that does not answer: `Caller.fire_and_forget`.

        Args:
            route: The route.
            value: The data; empty without it.
            metadata: Metadata besides the route.
            timeout: It is given up after so many seconds, if there is no room for it.

        Raises:
            Exception: Those of `Caller.fire_and_forget`, and of `Blocking.run`.
        """
        send = partial(self.caller.fire_and_forget, route, value, metadata=metadata)
        self.run(send, timeout=timeout)

    request_stream = _Opened(
        """Open a stream of objects: ``with client.request_stream(...) as items``.

        The arguments are those of `Caller.request_stream`.

        Raises:
            Exception: Those of `Caller.request_stream`, and of `Blocking.open`.
        """
    )(Caller.request_stream)
    request_channel = _Opened(
        """Exchange streams of objects: ``with client.request_channel(...) as items``.

        The arguments are those of `Caller.request_channel`. The items to send are iterated in the
        thread of the connection, so their source must not wait.

        Raises:
            Exception: Those of `Caller.request_channel`, and of `Blocking.open`.
        """
    )(Caller.request_channel)


@contextmanager
def blocking(open_: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[Blocking[T]]:
    """Open an async block in a thread of its own, which runs trio.

    ``with blocking(partial(ttrpc.connect, "unix:///run/x.sock")) as client: ...``

    Leaving it ends calls that still wait in other threads, and then the async block.

    Args:
        open_: Makes the block.

    Raises:
        Exception: The error of entering, or of leaving.
        KeyboardInterrupt: The block is cancelled.
    """
    with _portal(open_) as (portal, value):
        yield Blocking(portal, value)


@contextmanager
def blocking_connect(target: str | Uri | Dial, **options: Any) -> Iterator[BlockingClient]:
    """Connect to a server, from code that does not run trio.

    ``with blocking_connect("tcp://localhost:7878") as client: ...``

    Args:
        target: As for `rsocket_trio.connect`.
        options: Those of `rsocket_trio.connect`. Functions among them, and the ``responder``, run
            in the thread of the connection, under trio.

    Raises:
        Exception: Those of `rsocket_trio.connect`.
    """
    with _portal(partial(connect, target, **options)) as (portal, requester):
        yield BlockingClient(portal, requester)


@contextmanager
def _portal(
    open_: Callable[[], AbstractAsyncContextManager[T]],
) -> Iterator[tuple[Portal[T], T]]:
    _check_may_wait()
    portal = Portal(open_, "rsocket-trio client")
    portal.start()
    with _ending(portal):
        yield portal, _waited_for(portal.entered, portal.abandon)


@contextmanager
def _ending(block: Portal[Any] | Held[Any]) -> Iterator[None]:
    """Leave a block at the end, and wait for that."""
    forgotten = False
    try:
        yield
    except GeneratorExit:
        # The block was never left. If the program ends, no other thread runs any more: one may have
        # been stopped with a lock that leaving needs.
        forgotten = True
        raise
    finally:
        if not (block.forked or (forgotten and sys.is_finalizing())):
            try:
                block.leave()
                if not forgotten:
                    _waited_for(block.ended, block.abandon)
            except BaseException:  # an interrupt, perhaps before it was left
                block.abandon()
                raise


def _check_may_wait() -> None:
    """Refuse a task of trio: everything in its thread would wait, for ever if a server is there.

    Raises:
        RuntimeError: As said.
    """
    if trio.lowlevel.in_trio_task():
        raise RuntimeError(
            "this would stop all tasks of trio in this thread: use `connect` there, or call it in "
            "`trio.to_thread.run_sync`"
        )


def _waited_for(
    future: Future[R], cancel: Callable[[], None], begin: Callable[[], None] | None = None
) -> R:
    """Wait for an outcome; an exception in this thread, such as `KeyboardInterrupt`, cancels it.

    Args:
        future: Its future.
        cancel: Cancels it.
        begin: Begins it, if it has not begun: an interrupt may come in the middle of that.
    """
    try:
        if begin is not None:
            begin()
        future.exception()
    except BaseException:  # raised again
        cancel()
        future.exception()  # it ends soon; who interrupts again does not wait
        raise
    return future.result()
