"""How the items of a handler, or of a channel's source, leave: `send_items`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from trio.lowlevel import checkpoint

from ..errors import ApplicationError
from ..frames.header import NEXT
from .operation import IN_A_ROW

if TYPE_CHECKING:
    from ..streamed import AnyPayload
    from .credit_gate import CreditGate
    from .operation import Operation

__all__ = ["begin", "close_iterator", "send_items"]

_T = TypeVar("_T")


async def send_items(
    operation: Operation, items: AsyncIterable[AnyPayload], credit: CreditGate
) -> None:
    """Send the items of an iterable as credit and the outbox allow, at most one item ahead.

    The iterator is used and closed in this task, whatever happens: a generator's ``finally`` runs
    here. What happens while an item waits to be sent (a cancellation, say) happens at the
    generator's ``yield``, so that a nursery or a cancel scope around it works as anywhere: a
    generator whose own timeout ends the wait for an item, and which goes on, has given that item
    up.

    Raises:
        TypeError: ``items`` is no async iterable.
        ApplicationError: A generator gave up an item of which a part had left.
        Exception: Whatever the iterable raises.
    """
    try:
        iterator = aiter(items)
    except TypeError:
        raise TypeError(
            f"a handler of a stream must return an async iterable, not {type(items).__name__}"
        ) from None
    outbound = operation.outbound
    stream_id = operation.stream_id
    burst = 0
    try:
        async for item in iterator:
            payload = item
            while True:
                taken = False
                try:
                    if not credit.try_take():
                        burst = 0
                        if not await credit.take():
                            return
                    taken = True
                    if not operation.live:
                        return
                    if not outbound.try_send_payload(stream_id, NEXT, payload):
                        burst = 0
                        await outbound.send_payload(stream_id, NEXT, payload)
                    taken = False
                    burst += 1
                    if burst == IN_A_ROW:
                        burst = 0
                        await checkpoint()
                    break
                except BaseException as error:
                    instead = await _throw(iterator, error)
                if instead is _ENDED or not operation.live:
                    # One that swallows its cancellation, and goes on, would be asked for ever.
                    return
                if credit.cut:
                    raise ApplicationError("the handler gave up an item of which a part had left")
                if taken:
                    credit.add(1)
                payload = cast("AnyPayload", instead)
    finally:
        await close_iterator(iterator)


_ENDED: Final = object()


async def _throw(iterator: AsyncIterator[AnyPayload], error: BaseException) -> object:
    """Let ``error`` happen at the generator's ``yield``.

    Returns:
        What it yields next; ``_ENDED`` where it ended upon it: its own scope was the one that was
        cancelled.

    Raises:
        BaseException: What comes out of it, ``error`` as a rule.
    """
    athrow: Callable[[BaseException], Awaitable[Any]] | None = getattr(iterator, "athrow", None)
    try:
        if athrow is None:
            raise error
        return await athrow(error)
    except StopAsyncIteration:
        return _ENDED
    finally:
        del error  # its traceback holds this frame: a cycle, with all that the handler has


def begin(source: AsyncIterable[_T]) -> AsyncIterator[_T]:
    """Iterate over what is to be sent.

    Raises:
        RuntimeError: It is a generator that has ended. It would pass for one without items, and
            whoever sends the same once more, after a failure, would send nothing in its place.
    """
    iterator = aiter(source)
    if isinstance(iterator, AsyncGeneratorType) and iterator.ag_frame is None:
        raise RuntimeError(
            f"the generator {iterator.__qualname__} has been iterated already: make a new one for "
            "each request"
        )
    return iterator


async def close_iterator(iterator: object) -> None:
    """Close a generator, or a channel; whatever cannot be closed is left. Twice does no harm."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is None:
        return
    try:
        await cast("Awaitable[object]", aclose())
    except BaseExceptionGroup as group:
        # A nursery around the `yield` has wrapped what closed the generator.
        _, rest = group.split(GeneratorExit)
        if rest is not None:
            raise rest from None
