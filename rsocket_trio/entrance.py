"""What a public method asks before it works: right thread? cancelled? over? `Home`, `over`.

The order is the same in every method of every wire: docs/design.md, "The order of a public method",
says why. An end gives way to a cancellation, and an answer does not, also for a task that waits.

The first question is the cheapest, some 40 ns. An object remembers its thread: a task of another
run that waits for it would be woken in the wrong run, which crashes the tasks of the connection.
The other two are asked by `over`, which raises: only a call that finds its object over needs them.
"""

from __future__ import annotations

from threading import get_ident
from typing import Final, NoReturn

from trio import ClosedResourceError
from trio.lowlevel import checkpoint

from .errors import ConnectionClosed, StreamIdsExhausted, fresh_copy

__all__ = ["ENDS", "Home", "get_ident", "gives_way", "not_at_home", "over"]

ENDS: Final = (ConnectionClosed, ClosedResourceError, StreamIdsExhausted)
"""The errors of a connection that is over. A caller that is cancelled sees its cancellation."""


def not_at_home(what: str) -> RuntimeError:
    """Return the error for a caller in another thread than that of the connection.

    Args:
        what: The object that it uses, e.g. ``"this client"``.
    """
    return RuntimeError(
        f"{what} belongs to the trio run of another thread; nothing was done. Call it there by "
        "trio.from_thread.run, or connect in this thread too"
    )


class Home:
    """The thread in which this object was made: the first question.

    Attributes:
        thread: Its identity, for hot paths, which compare it with `get_ident` themselves.
    """

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = get_ident()

    def check(self, what: str) -> None:
        """Refuse a caller in another thread.

        Args:
            what: The object that it uses, e.g. ``"this client"``.

        Raises:
            RuntimeError: This is another thread.
        """
        if get_ident() != self.thread:
            raise not_at_home(what)


async def over(error: Exception) -> NoReturn:
    """Refuse a caller in the right thread, because the object is over: the last two questions.

    Args:
        error: Why it is over. The caller gets a copy.

    Raises:
        Exception: The copy.

    Checkpoint: always. A caller may try again and again, so other tasks run.
    If cancelled: that is what the caller sees.
    """
    await checkpoint()
    raise fresh_copy(error)


def gives_way(failure: Exception | None) -> bool:
    """Whether a task that was woken, and is cancelled, sees its cancellation and not this.

    Args:
        failure: What it was woken for; ``None`` is an end without an error. An error of the peer or
            of a publisher is an answer: nobody would learn of it otherwise.
    """
    return failure is None or isinstance(failure, ENDS)
