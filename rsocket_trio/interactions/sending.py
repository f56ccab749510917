"""Send the items of a handler, or of a channel's source: `send_items`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast

from trio.lowlevel import checkpoint

from ..errors import ApplicationError
from ..frames.header import HEADER, NEXT, FrameType
from ..payload import Payload
from ..reactive_streams.interfaces import Publisher
from ..reactive_streams.iterating import NOTHING_TO_COUNT, close_iterator, counted, iterator_over
from ..streamed import AnyPayload

if TYPE_CHECKING:
    from ..reactive_streams.unread import ElementCounter
    from .credit_gate import CreditGate
    from .operation import Space

__all__ = [
    "DROPPED",
    "ENDED",
    "AnyItems",
    "Carrier",
    "Producer",
    "begin",
    "follow_credit",
    "send_items",
    "send_stream",
    "throw_into",
]

_T = TypeVar("_T")

AnyItems: TypeAlias = AsyncIterable[AnyPayload] | Publisher[AnyPayload]
"""What a handler of a stream returns. A publisher is asked for as many items as credit allows."""

_IN_A_ROW: Final = 128
"""The number of items in a row before other tasks run. With fewer, the loop writes more often, and
the system call of a write costs as much as many items."""

DROPPED: Final = "the handler or source dropped an item after a part of it was sent"

_NEXT: Final = FrameType.PAYLOAD.value << 10 | NEXT


class Carrier(Protocol):
    """The part of `rsocket_trio.interactions.operation.Outbound` that sends items."""

    @property
    def room(self) -> Space: ...

    @property
    def max_whole(self) -> int: ...

    @property
    def frame_of(self) -> Callable[[Any], bytes | None] | None:
        """Makes the frame of an item, on a wire without credit.

        It returns ``None`` for an item that is too long or of a wrong kind; `try_send_payload`
        raises the reason.
        """

    def put(self, frame: bytes) -> None: ...

    def try_send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> bool: ...

    async def send_payload(self, stream_id: int, flags: int, payload: AnyPayload) -> None: ...

    def hold_item(self, stream_id: int, payload: AnyPayload) -> int:
        """Take memory for an item that is going to wait for credit.

        Returns:
            The bytes, for `let_go_item`.

        Raises:
            Exception: Too many bytes wait for this peer already. The stream has ended.
        """

    def let_go_item(self, size: int) -> None:
        """Undo `hold_item`: the item waits no more."""

    def counter_of(self, stream_id: int) -> ElementCounter | None:
        """Return what counts the elements of a publisher behind an item that waits.

        ``None`` if nobody does.
        """


class Producer(Protocol):
    """An operation that sends items: the attributes are those of `Operation`."""

    @property
    def outbound(self) -> Carrier: ...

    stream_id: int
    live: bool

    def send_complete(self) -> None:
        """Tell the peer that there are no more items."""


def send_stream(
    operation: Producer,
    items: AnyItems | Awaitable[AnyItems],
    credit: CreditGate,
) -> Coroutine[Any, Any, None]:
    """`send_items` for the result of a handler, which may have to be awaited first."""
    if isinstance(items, Awaitable):
        return _send_awaited(operation, items, credit)
    return send_items(operation, items, credit)


async def _send_awaited(
    operation: Producer, items: Awaitable[AnyItems], credit: CreditGate
) -> None:
    await send_items(operation, await items, credit)


async def send_items(operation: Producer, items: AnyItems, credit: CreditGate) -> None:
    """Send the items of an iterable or a publisher, and COMPLETE, as credit and the outbox allow.

    At most one item is taken from the iterable ahead of its sending.

    The iterator is always used and closed in this task: a generator's ``finally`` runs here. An
    error while an item waits to be sent, for example a cancellation, is raised at the generator's
    ``yield``. So a nursery or a cancel scope around the ``yield`` works as usual: if the
    generator's own timeout ends the wait for an item, and the generator goes on, that item is
    dropped.

    Raises:
        TypeError: ``items`` is no async iterable, and no publisher.
        ApplicationError: A generator dropped an item of which a part had left.
        Exception: An error of the iterable.
    """
    try:
        iterator = iterator_over(items)
    except TypeError:
        raise TypeError(
            f"a handler of a stream must return an async iterable, not {type(items).__name__}"
        ) from None
    follow_credit(iterator, credit)
    outbound = operation.outbound
    stream_id = operation.stream_id
    head = HEADER.pack(stream_id, _NEXT)
    put = outbound.put
    room = outbound.room
    max_whole = outbound.max_whole
    frame_of = outbound.frame_of
    burst = 0
    over = False
    try:
        async for item in iterator:
            if (
                type(item) is Payload
                and item.metadata is None
                and type(item.data) is bytes
                and len(item.data) <= max_whole
                and credit.available
                and room.used < room.limit
                and burst < _IN_A_ROW
                and operation.live
            ):
                # Nearly every item is like this: the same as below, but with one call.
                credit.available -= 1
                burst += 1
                put(head + item.data)
                continue
            if (
                frame_of is not None
                and room.used < room.limit
                and burst < _IN_A_ROW
                and operation.live
            ):
                # The same for another wire.
                frame = frame_of(item)
                if frame is not None:
                    burst += 1
                    put(frame)
                    continue
            payload = item
            while True:
                taken = False
                try:
                    if burst >= _IN_A_ROW:
                        burst = 0
                        await checkpoint()
                    if not credit.take():
                        burst = 0
                        with _behind_it_counted(iterator, operation):
                            if not await _credit_for(operation, payload, credit):
                                over = True
                                break
                    taken = True
                    if not operation.live:
                        over = True
                        break
                    if not outbound.try_send_payload(stream_id, NEXT, payload):
                        burst = 0
                        with _behind_it_counted(iterator, operation):
                            await outbound.send_payload(stream_id, NEXT, payload)
                    taken = False
                    burst += 1
                    break
                except BaseException as error:  # also a cancellation; the generator gets it
                    burst += 1  # it may absorb one error after the other
                    instead = await throw_into(iterator, error)
                if not operation.live:
                    # A generator that ignores its cancellation and goes on would never end.
                    over = True
                    break
                if credit.cut:
                    # COMPLETE would make the peer take the part for a whole item.
                    raise ApplicationError(DROPPED)
                if instead is ENDED:
                    over = True
                    break
                if taken:
                    credit.add(1)
                payload = cast("AnyPayload", instead)
            if over:
                break
            # It may be large, and the next one may take long to come.
            del item, payload
    finally:
        await close_iterator(iterator)
    if operation.live:
        operation.send_complete()


def _behind_it_counted(
    iterator: AsyncIterator[AnyPayload], operation: Producer
) -> AbstractContextManager[None]:
    """Count the elements that a publisher has made ahead, while the item before them waits."""
    if type(iterator) is AsyncGeneratorType:
        return NOTHING_TO_COUNT  # saves the questions below; most handlers are generators
    counter = operation.outbound.counter_of(operation.stream_id)
    inner: Callable[[ElementCounter | None], AbstractContextManager[None]] | None = getattr(
        iterator, "counted", None
    )
    return counted(iterator, counter) if inner is None else inner(counter)


async def _credit_for(operation: Producer, item: AnyPayload, credit: CreditGate) -> bool:
    """Wait until there is credit for an item, and take it; return whether there is any.

    The item is there already: without it nobody would know whether the stream has ended, and it
    must end without more credit. A peer decides how long it waits, so its bytes are counted.

    Raises:
        Exception: Too many bytes wait for this peer already.
    """
    outbound = operation.outbound
    held = outbound.hold_item(operation.stream_id, item)
    try:
        while not credit.closed:
            await credit.change()
            if credit.take():
                return True
        return False
    finally:
        outbound.let_go_item(held)


ENDED: Final = object()


async def throw_into(iterator: AsyncIterator[object], error: BaseException) -> object:
    """Raise ``error`` at the generator's ``yield``.

    Returns:
        The next item; ``ENDED`` if the generator absorbed the error and ended, because its own
        scope was cancelled.

    Raises:
        BaseException: The error of the generator, in most cases ``error``.
    """
    athrow: Callable[[BaseException], Awaitable[Any]] | None = getattr(iterator, "athrow", None)
    # A generator that has ended raises nothing: the result would be None, again and again.
    ended = getattr(iterator, "ag_frame", iterator) is None
    try:
        if athrow is None or ended:
            raise error
        return await athrow(error)
    except StopAsyncIteration:
        return ENDED
    finally:
        del error  # its traceback holds this frame: a cycle, with all that the handler has


def follow_credit(iterator: object, credit: CreditGate) -> None:
    """Have a publisher send only as many items as the peer's credit allows, and one more."""
    follow: Callable[[Callable[[], int]], object] | None = getattr(iterator, "follow", None)
    if follow is not None:
        follow(lambda: credit.available)


def begin(source: AsyncIterable[_T] | Publisher[_T]) -> AsyncIterator[_T]:
    """Return an iterator over the items to send.

    Raises:
        RuntimeError: It is a generator that has ended. It would look like a generator without
            items: an application that sends it again after a failure would send nothing.
    """
    iterator = iterator_over(source)
    if isinstance(iterator, AsyncGeneratorType) and iterator.ag_frame is None:
        raise RuntimeError(
            f"the generator {iterator.__qualname__} has been iterated already: make a new one for "
            "each request"
        )
    return iterator
