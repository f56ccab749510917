"""Requests from asyncio programs: `asyncio_connect`, `asyncio_open`.

The connection lives in a thread of its own, which runs trio, so it answers its peer also while a
task of asyncio does not give up the loop. Cancelling a task of asyncio cancels its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import trio

from .client import connect
from .portal import Held, Portal
from .routing.caller import Caller, ItemStream

if TYPE_CHECKING:
    from .connection.dialling import Dial
    from .requester import Requester
    from .uri import Uri

__all__ = [
    "AsyncioBlock",
    "AsyncioClient",
    "AsyncioStream",
    "asyncio_connect",
    "asyncio_open",
    "in_asyncio",
]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class AsyncioBlock(Generic[T]):
    """A block of trio that is open in a thread of its own, for tasks of asyncio.

    Any number of tasks may use it at the same time, of any loop, and no forked child.

    Attributes:
        value: What the block gave, e.g. a `rsocket_trio.ttrpc.Client`. Only functions that `run`
            runs may use it.
    """

    def __init__(self, portal: Portal[T], value: T) -> None:
        self._portal = portal
        self.value = value

    async def run(self, function: Callable[[], Awaitable[R]]) -> R:
        """Run an async function of trio in the thread, and wait for its result.

        ``await client.run(partial(client.value.unary, METHOD, request))``

        Args:
            function: The function. Its context variables are a copy of those of the caller.

        Raises:
            Exception: That of the function.
            trio.ClosedResourceError: The block has ended, before or meanwhile.
            asyncio.CancelledError: The function is cancelled; the connection goes on.
            RuntimeError: The caller is in the thread itself, or in a forked child.

        Checkpoint: of asyncio: always.
        If cancelled: the function is cancelled; nobody waits for its end.
        """
        call = self._portal.begin(function)
        return await _waited_for(call.done, call.cancel)

    @asynccontextmanager
    async def open(
        self, open_: Callable[[], AbstractAsyncContextManager[R]]
    ) -> AsyncIterator[AsyncioStream[Any]]:
        """Open a stream in the thread: anything with `receive`, in an async context manager.

        Args:
            open_: Makes it, e.g. ``partial(client.value.server_stream, METHOD, request)``.

        Raises:
            Exception: The error of entering, or of leaving.
        """
        held = Held(open_, self._portal)
        held.start()
        value: Any = await _waited_for(held.entered, held.abandon)
        try:
            yield AsyncioStream(held, value.receive)
        finally:
            held.leave()
            await _waited_for(held.ended, held.abandon)


class AsyncioStream(AsyncIterator[R], Generic[R]):
    """The items of a stream: iterate over it. Each read takes one item, which is the demand.

    Other items may be on the way, as many as ``prefetch`` says. One task reads at a time.
    """

    def __init__(self, held: Held[Any], receive: Callable[[], Awaitable[R]]) -> None:
        self._held = held
        self._receive = receive
        self._pending: _Waited[R] | None = None
        self._reading = False

    async def __anext__(self) -> R:
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> R:
        """Receive the next item.

        Raises:
            trio.EndOfChannel: The stream is complete.
            trio.ClosedResourceError: The block has ended.
            trio.BusyResourceError: Another task is reading.
            Exception: The error of the stream.

        Checkpoint: of asyncio: always.
        If cancelled: no item is lost.
        """
        if self._reading:
            raise trio.BusyResourceError("another task is reading this stream")
        self._reading = True
        try:
            if self._pending is None:
                self._pending = _Waited(self._held.begin(self._receive).done)
            # A read whose task is cancelled goes on, for the next one.
            pending = self._pending
            await pending.told()
            self._pending = None
            return pending.future.result()
        finally:
            self._reading = False


class _Asked:
    """Make a method of a `Caller`, all its overloads included, one for asyncio."""

    def __init__(self, text: str) -> None:
        self.text = text  # its docstring

    def __call__(
        self, method: Callable[Concatenate[Caller, P], Awaitable[R]]
    ) -> Callable[Concatenate[AsyncioClient, P], Coroutine[Any, Any, R]]:
        @wraps(method)
        async def ask(client: AsyncioClient, /, *args: P.args, **options: P.kwargs) -> R:
            return await client.run(partial(method, client.caller, *args, **options))

        ask.__doc__ = self.text
        return ask


class _Opened:
    """Do so for a stream; its source, if it is an async one, is iterated by asyncio."""

    def __init__(self, text: str) -> None:
        self.text = text  # its docstring

    def __call__(
        self, method: Callable[Concatenate[Caller, P], AbstractAsyncContextManager[ItemStream[R]]]
    ) -> Callable[Concatenate[AsyncioClient, P], AbstractAsyncContextManager[AsyncioStream[R]]]:
        @wraps(method)
        def open_(
            client: AsyncioClient, /, *args: P.args, **options: P.kwargs
        ) -> AbstractAsyncContextManager[AsyncioStream[R]]:
            sent: Any = map(_given_by_asyncio, args)
            named: Any = {name: _given_by_asyncio(each) for name, each in options.items()}
            return client.open(partial(method, client.caller, *sent, **named))

        open_.__doc__ = self.text
        return open_


def _given_by_asyncio(value: Any) -> Any:
    if isinstance(value, AsyncIterable):
        return _iterated_by(asyncio.get_running_loop(), value)
    return value


class AsyncioClient(AsyncioBlock["Requester"]):
    """The requests of a `rsocket_trio.Caller`, for tasks of asyncio.

    A request has no timeout of its own: ``async with asyncio.timeout(5)`` cancels it.

    Attributes:
        caller: For functions that `run` runs: metadata pushes, `Caller.of` and more.
    """

    def __init__(self, portal: Portal[Requester], requester: Requester) -> None:
        super().__init__(portal, requester)
        self.caller = Caller(requester)

    request_response = _Asked(
        """Send a value to a route and wait for the answer: `Caller.request_response`.

        Raises:
            Exception: Those of `Caller.request_response`, and of `AsyncioBlock.run`.

        Checkpoint: of asyncio: always.
        If cancelled: a CANCEL is sent.
        """
    )(Caller.request_response)
    fire_and_forget = _Asked(
        """Send a value to a route that does not answer: `Caller.fire_and_forget`.

        Raises:
            Exception: Those of `Caller.fire_and_forget`, and of `AsyncioBlock.run`.

        Checkpoint: of asyncio: always.
        If cancelled: it may be sent or not.
        """
    )(Caller.fire_and_forget)
    request_stream = _Opened(
        """Open a stream of objects: ``async with client.request_stream(...) as items``.

        The arguments are those of `Caller.request_stream`.

        Raises:
            Exception: Those of `Caller.request_stream`, and of `AsyncioBlock.open`.
        """
    )(Caller.request_stream)
    request_channel = _Opened(
        """Exchange streams of objects: ``async with client.request_channel(...) as items``.

        The arguments are those of `Caller.request_channel`. An async iterable of items to send is
        iterated by asyncio, in the loop of the caller, and a plain one in the thread of the
        connection.

        Raises:
            Exception: Those of `Caller.request_channel`, and of `AsyncioBlock.open`.
        """
    )(Caller.request_channel)


@asynccontextmanager
async def asyncio_open(
    open_: Callable[[], AbstractAsyncContextManager[T]],
) -> AsyncIterator[AsyncioBlock[T]]:
    """Open a block of trio in a thread of its own, from asyncio.

    ``async with asyncio_open(partial(ttrpc.connect, "unix:///run/x.sock")) as client: ...``

    Leaving it ends calls that still wait, and then the block.

    Args:
        open_: Makes the block.

    Raises:
        Exception: The error of entering, or of leaving.

    Checkpoint: of asyncio: always.
    If cancelled: the block is cancelled.
    """
    async with _portal(open_) as (portal, value):
        yield AsyncioBlock(portal, value)


@asynccontextmanager
async def asyncio_connect(target: str | Uri | Dial, **options: Any) -> AsyncIterator[AsyncioClient]:
    """Connect to a server, from asyncio.

    ``async with asyncio_connect("tcp://localhost:7878") as client: ...``

    Args:
        target: As for `rsocket_trio.connect`.
        options: Those of `rsocket_trio.connect`. Functions among them, and the ``responder``, run
            in the thread of the connection, under trio: see `in_asyncio`.

    Raises:
        Exception: Those of `rsocket_trio.connect`.

    Checkpoint: of asyncio: always.
    If cancelled: the connection is closed.
    """
    async with _portal(partial(connect, target, **options)) as (portal, requester):
        yield AsyncioClient(portal, requester)


@asynccontextmanager
async def _portal(
    open_: Callable[[], AbstractAsyncContextManager[T]],
) -> AsyncIterator[tuple[Portal[T], T]]:
    portal = Portal(open_, "rsocket-trio in asyncio")
    portal.start()
    try:
        yield portal, await _waited_for(portal.entered, portal.abandon)
    finally:
        portal.leave()
        await _waited_for(portal.ended, portal.abandon)


async def in_asyncio(
    loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, R]]
) -> R:
    """From trio, e.g. from a handler: run a coroutine function in a loop of asyncio.

    Args:
        loop: The loop; it runs in another thread.
        function: The function.

    Returns:
        Its result.

    Raises:
        Exception: That of the function.
        RuntimeError: The loop is closed.

    Checkpoint: as waiting for an event.
    If cancelled: the task of asyncio is cancelled.
    """
    token = trio.lowlevel.current_trio_token()
    ended = trio.Event()
    await trio.lowlevel.checkpoint_if_cancelled()
    coroutine = function()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise

    def tell(_: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(ended.set)

    future.add_done_callback(tell)
    try:
        await ended.wait()
    except trio.Cancelled:
        future.cancel()
        raise
    return future.result()


async def _iterated_by(
    loop: asyncio.AbstractEventLoop, values: AsyncIterable[T]
) -> AsyncIterator[T]:
    """Give the items of an async iterable of asyncio to trio."""
    iterator = aiter(values)

    async def step() -> list[T]:
        # StopAsyncIteration must not leave a coroutine.
        try:
            return [await anext(iterator)]
        except StopAsyncIteration:
            return []

    async def close() -> None:
        aclose: Callable[[], Awaitable[object]] | None = getattr(iterator, "aclose", None)
        if aclose is not None:
            await aclose()

    try:
        while found := await in_asyncio(loop, step):
            yield found[0]
    finally:
        # The loop may be closed, or not run any more.
        with trio.move_on_after(5, shield=True), suppress(RuntimeError):
            await in_asyncio(loop, close)


async def _waited_for(future: Future[R], cancel: Callable[[], None]) -> R:
    """Wait for an outcome; a cancellation of this task of asyncio cancels it."""
    try:
        await _Waited(future).told()
    except BaseException:  # raised again
        cancel()
        raise
    return future.result()


class _Waited(Generic[R]):
    """A future of another thread, for which tasks of asyncio wait, one after the other.

    It has one callback, as callbacks cannot be taken back: a quiet stream may be read with a
    timeout, again and again, for a year.

    Args:
        future: The future.
    """

    def __init__(self, future: Future[R]) -> None:
        self.future = future
        self._tell: Callable[[], object] | None = None
        future.add_done_callback(self._done)

    async def told(self) -> None:
        """Wait until it has an outcome.

        Checkpoint: of asyncio: always.
        If cancelled: it may be waited for again.
        """
        loop = asyncio.get_running_loop()
        told = loop.create_future()

        def tell() -> None:
            if not told.done():
                told.set_result(None)

        self._tell = partial(loop.call_soon_threadsafe, tell)
        if self.future.done():  # it may have been, before there was anybody to tell
            loop.call_soon(tell)
        await told

    def _done(self, _: object) -> None:
        if self._tell is not None:
            with suppress(RuntimeError):  # the loop is closed, so nobody waits
                self._tell()
