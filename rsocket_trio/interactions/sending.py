"""How the items of a handler, or of a channel's source, leave: `send_items`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from trio.lowlevel import checkpoint

from ..frames.header import NEXT

if TYPE_CHECKING:
    from ..streamed import AnyPayload
    from .credit_gate import CreditGate
    from .operation import Operation

__all__ = ["close_iterator", "send_items"]

_BURST: Final = 64
"""Items sent in a row without letting another task run."""


async def send_items(
    operation: Operation, items: AsyncIterable[AnyPayload], credit: CreditGate
) -> None:
    """Send the items of an iterable as credit and the outbox allow, at most one item ahead.

    The iterator is used and closed in this task, whatever happens: a generator's ``finally`` runs
    here. What happens while an item waits to be sent (a cancellation, say) happens at the
    generator's ``yield``, so that a nursery or a cancel scope around it works as anywhere.

    Raises:
        TypeError: ``items`` is no async iterable.
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
        async for payload in iterator:
            try:
                if not credit.try_take():
                    burst = 0
                    if not await credit.take():
                        return
                if not operation.live:
                    return
                if not outbound.try_send_payload(stream_id, NEXT, payload):
                    burst = 0
                    await outbound.send_payload(stream_id, NEXT, payload)
                burst += 1
                if burst == _BURST:
                    burst = 0
                    await checkpoint()
            except BaseException as error:
                await _throw(iterator, error)
                return
    finally:
        await close_iterator(iterator)


async def _throw(iterator: AsyncIterator[AnyPayload], error: BaseException) -> None:
    """Let ``error`` happen at the generator's ``yield``.

    Returns where the generator ended upon it: its own scope was the one that was cancelled.
    """
    athrow: Callable[[BaseException], Awaitable[Any]] | None = getattr(iterator, "athrow", None)
    if athrow is None:
        raise error
    try:
        await athrow(error)
    except StopAsyncIteration:
        return
    # It went on as if nothing had happened. There is no way to: the item is lost.
    raise error


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
