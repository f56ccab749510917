"""Our ``async with`` blocks: `Block` lets errors of the body leave without a group.

`opened_by_block` makes a function whose result can only be used by ``async with``, and says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import wraps
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, Self, TypeVar

import trio

from ..errors import single_error
from .isolation import split

__all__ = ["Block", "OnlyByBlock", "Reopened", "opened_by_block", "ungrouped"]

P = ParamSpec("P")
T = TypeVar("T")


class Block:
    """Keeps an error of the body of a block out of the nurseries around it.

    A nursery would wrap the error in a group, and a cancellation while closing would replace it.
    So::

        block = Block()
        with block.around():
            async with trio.open_nursery():
                with block.body():
                    yield

    Attributes:
        error: The error that the body raised.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None

    @contextmanager
    def body(self) -> Iterator[None]:
        """Surround the ``yield``, and keep its error, unless it is a cancellation."""
        try:
            yield
        except Exception as error:  # `around` raises it
            self.error = error
        except BaseException as error:  # raised again, and kept if it is no cancellation
            if split(error, trio.Cancelled)[1] is None:
                raise  # also a group of cancellations, as nurseries make: it belongs to a scope
            # `KeyboardInterrupt`, for example, must go on; but it is not grouped either.
            self.error = error
            raise

    @contextmanager
    def around(self) -> Iterator[None]:
        """Surround all that is closed with the block, and raise the error of the body.

        Raises:
            BaseException: The error of the body; or an error of the closing.
        """
        try:
            yield
        except BaseException as problem:  # only what the error of the body makes up for stays here
            if self.error is None:
                raise
            # A cancellation of the closing, of one task or of several, is less than that error.
            failure = split(problem, trio.Cancelled)[1]
            if failure is not None and single_error(failure) is not single_error(self.error):
                raise
        error = self.error
        if error is not None:
            context = error.__context__
            try:
                raise error
            finally:
                error.__context__ = context  # without the cancellation or group of the nursery
                self.error = None
                del error


class OnlyByBlock(AbstractAsyncContextManager[T]):
    """An asynchronous context manager. Used in another way, it says how it is to be used.

    Args:
        manager: The context manager.
        call: The function that returned it, for the text of the error.
    """

    def __init__(self, manager: AbstractAsyncContextManager[T], call: str) -> None:
        self._manager = manager
        self._call = call

    # No coroutines of their own: a stream is opened as fast as without this class.

    def __aenter__(self) -> Any:
        return self._manager.__aenter__()

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Any:
        return self._manager.__aexit__(kind, error, traceback)

    def __await__(self) -> NoReturn:
        raise self._misuse("is not awaited")

    def __aiter__(self) -> NoReturn:
        raise self._misuse("cannot be iterated over")

    def __enter__(self) -> NoReturn:
        raise self._misuse("is asynchronous")

    def __exit__(self, *_: object) -> None:
        """Only here so that ``with`` calls `__enter__`."""

    def _misuse(self, what: str) -> TypeError:
        return TypeError(
            f"what {self._call} returns {what}: write `async with ...{self._call}(...) as name:`, "
            "and use what it gives inside of the block"
        )


def opened_by_block(
    function: Callable[P, AsyncIterator[T]],
) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Do as `contextlib.asynccontextmanager` does; every use but ``async with`` is an error."""
    make = asynccontextmanager(function)

    @wraps(function)
    def open_block(*args: P.args, **options: P.kwargs) -> AbstractAsyncContextManager[T]:
        return OnlyByBlock(make(*args, **options), function.__name__)

    return open_block


class Reopened:
    """The blocks of a stream that is opened again and again; any number of times needs no more.

    The block before the present one is open too, as the reader holds its stream until it has the
    next one.
    """

    def __init__(self) -> None:
        self._present, self._before = AsyncExitStack(), AsyncExitStack()

    async def enter(
        self, block: AbstractAsyncContextManager[T], left: Callable[[], object] | None = None
    ) -> T:
        """Enter a block, and leave the last but one.

        Args:
            block: The block.
            left: Called when it is left, or was not entered.

        Checkpoint: as the blocks do.
        If cancelled: as the blocks are.
        """
        async with AsyncExitStack() as entering:
            if left is not None:
                entering.callback(left)
            result = await entering.enter_async_context(block)
            over = self._before
            self._before, self._present = self._present, entering.pop_all()
        await over.aclose()
        return result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        both = AsyncExitStack()
        both.push_async_exit(self._before)
        both.push_async_exit(self._present)
        return await both.__aexit__(kind, error, traceback)


@contextmanager
def ungrouped(own: list[BaseException]) -> Iterator[None]:
    """Let the one error of nurseries out without the groups around it.

    Args:
        own: Gets the error of the body, if there is one: that goes out as it was raised.

    Raises:
        BaseException: The one error.
    """
    try:
        yield
    except BaseExceptionGroup as group:  # with one error only that one goes on
        error = single_error(group)
        error = next((each for each in own if single_error(each) is error), error)
        if error is group:
            raise
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context
            del error
    finally:
        own.clear()  # its traceback holds the frame that has this list
