"""Ask the guards of a router about a connection of another protocol: `admitted`.

RSocket asks in `rsocket_trio.service`, which answers the client. These protocols have no answer for
a connection: it is closed, and the log says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from ..errors import SetupError, setup_refusal
from ..interactions.connection_block import around_connection
from ..interactions.isolation import parted
from ..interactions.leftovers import isolated
from ..log_policy import logger

if TYPE_CHECKING:
    from ..sockets.byte_stream import TransportInfo
    from ..sockets.peer import Peer

__all__ = ["admitted", "within"]

T = TypeVar("T")


async def admitted(
    ask: Callable[[], Awaitable[T]],
    transport: TransportInfo,
    *,
    peer: str,
    patience: float,
    setting: str,
) -> T | None:
    """Ask the guards, in a task of its own and for a limited time.

    The time has a limit because nothing is read meanwhile, so it is not noticed if the peer leaves.

    Args:
        ask: Asks them; raises `SetupError` to refuse.
        transport: Facts about the connection.
        peer: What the log calls the peer, e.g. ``the sender``.
        patience: The time, in seconds.
        setting: The name of the setting with this time, for the log.

    Returns:
        The result of ``ask``; ``None`` if the connection is refused, which is logged.

    Raises:
        trio.Cancelled: The connection is being cancelled.
        KeyboardInterrupt: Also `SystemExit`: they end the program.

    Checkpoint: always.
    If cancelled: the guards are cancelled.
    """
    answer: T | None = None

    async def call() -> None:
        nonlocal answer
        answer = await ask()

    name = f"{peer} {transport.peer or transport.scheme}"
    with trio.move_on_after(patience):
        error = await isolated(call)
        if error is not None:
            _log_refusal(error, name)
            return None
        return answer
    logger.error(
        "refused the connection of %s: the guards of the Router did not answer within %g s (%s)",
        name,
        patience,
        setting,
    )
    return None


async def within(
    block: AbstractAsyncContextManager[object] | None,
    run: Callable[[], Awaitable[object]],
    connected: Peer,
    *,
    peer: str,
    patience: float,
) -> None:
    """Run a connection within the block of its responder.

    Args:
        block: The block; ``None`` is none.
        run: Runs the connection.
        connected: The connection.
        peer: What the log calls the peer, e.g. ``the sender``.
        patience: The time for entering the block, in seconds.

    Checkpoint: as ``run`` does.
    If cancelled: the connection is cancelled, then the block is left.
    """
    name = f"{peer} {connected.transport.peer or connected.transport.scheme}"
    try:
        async with around_connection(block, name, patience, partial(connected.end, grace=0)):
            await run()
    except SetupError as error:
        _log_refusal(error, name)


def _log_refusal(error: BaseException, name: str) -> None:
    """Log that a connection is refused.

    Raises:
        trio.Cancelled: The connection is being cancelled.
        KeyboardInterrupt: Also `SystemExit`: they end the program.
    """
    cancelled, failure = parted(error)
    if failure is not None:
        refusal = setup_refusal(failure)
        if refusal is not None:
            refusal.with_traceback(None)  # a guard may raise one object again and again
            logger.info("refused the connection of %s: %s", name, refusal)
        else:
            logger.error(
                "refused the connection of %s, because a guard of the Router failed",
                name,
                exc_info=failure,
            )
    if cancelled is not None:
        raise cancelled
