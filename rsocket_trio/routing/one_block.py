"""Enter and leave one block of the application: `enter`, `leave`.

It is an async generator that yields once, or an async context manager.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from sys import get_asyncgen_hooks, set_asyncgen_hooks
from types import AsyncGeneratorType, CoroutineType
from typing import Any, Final, NoReturn

from ..codecs.mismatch import kind_of

__all__ = [
    "ENDED",
    "UNUSED",
    "begin",
    "enter",
    "is_block",
    "leave",
    "no_block",
    "no_object",
    "no_yield",
    "yields_twice",
]

ENDED: Final = object()
"""What `anext` gives for a generator that has ended."""


def is_block(manager: Any) -> bool:
    """Whether an object is an async context manager; an ABC would need three times as long."""
    kind = type(manager)
    return hasattr(kind, "__aenter__") and hasattr(kind, "__aexit__")


def no_block(manager: Any, what: str) -> NoReturn:
    """Refuse what cannot be entered."""
    if type(manager) is CoroutineType:
        manager.close()  # or Python would complain that nobody has awaited it
    raise TypeError(f"{what} returned {kind_of(manager)}, which is no async context manager")


@asynccontextmanager
async def _any_block() -> AsyncIterator[None]:
    yield


UNUSED: Final = frozenset([AsyncGeneratorType, CoroutineType, type(_any_block())])
"""Types of what a function returns that only calls an async one, as a ``lambda`` does."""


def no_object(made: Any, what: str) -> NoReturn:
    """Refuse what a provider returned, of a type in `UNUSED`."""
    if type(made) is CoroutineType:
        made.close()  # as above
    raise TypeError(
        f"{what} returned {kind_of(made)}, which nobody awaits or enters: write `async def`, or "
        "provide the async function itself, or a `functools.partial` of it"
    )


def no_yield(what: str) -> NoReturn:
    """Refuse a generator that has ended too early."""
    raise RuntimeError(f"{what} ended before its `yield`")


def yields_twice(what: str) -> NoReturn:
    """Refuse a generator that goes on behind its end."""
    raise RuntimeError(f"{what} yields twice: it may only once")


def begin(generator: AsyncGeneratorType[Any, None]) -> Awaitable[Any]:
    """Return the first step of a generator that is always left; await it at once.

    It gives `ENDED` if the generator does not yield. Without the hook, trio does not note the
    generator to close it at the end of its run, which takes a third of the time of a block that
    does nothing.
    """
    firstiter = get_asyncgen_hooks().firstiter
    set_asyncgen_hooks(firstiter=None)
    try:
        return anext(generator, ENDED)
    finally:
        set_asyncgen_hooks(firstiter=firstiter)


async def enter(manager: Any, what: Callable[[], str]) -> Any:
    """Enter a block, and return what it gives.

    Args:
        manager: The block.
        what: Returns what texts call it.

    Raises:
        TypeError: It is no block.
        RuntimeError: It does not yield.

    Checkpoint: as the block does.
    If cancelled: as the block does.
    """
    if type(manager) is AsyncGeneratorType:
        value = await begin(manager)
        if value is ENDED:
            no_yield(what())
        return value
    if not is_block(manager):
        no_block(manager, what())
    return await manager.__aenter__()


async def leave(manager: Any, error: BaseException | None, what: Callable[[], str]) -> bool:
    """Leave a block; return whether it absorbed the error.

    Args:
        manager: The block.
        error: The error of what is inside of it, if there is one.
        what: Returns what texts call it.

    Raises:
        BaseException: Another error, of the block.

    Checkpoint: as the block does.
    If cancelled: as the block does.
    """
    if type(manager) is not AsyncGeneratorType:
        kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
        return bool(await manager.__aexit__(kind, error, traceback))
    if error is None:
        if await anext(manager, ENDED) is ENDED:
            return False
    else:
        traceback = error.__traceback__
        try:
            await manager.athrow(error)
        except StopAsyncIteration as end:
            return end is not error
        except BaseException as other:  # the same one, or one in its place
            # A generator cannot let a StopIteration out: it becomes the cause of a RuntimeError.
            stop = isinstance(error, StopIteration | StopAsyncIteration)
            if other is not error and not (stop and other.__cause__ is error):
                raise
            error.__traceback__ = traceback
            return False
        finally:
            del error, traceback
    await manager.aclose()
    yields_twice(what())
