"""What the crew needs from a wire: requests to run (`Job`), and frames to read (`FrameReader`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import trio

__all__ = ["FrameReader", "Job"]


class Job(Protocol):
    """A request of the peer, from its arrival to its outcome.

    `rsocket_trio.interactions.operation.ResponderOperation` is the one of RSocket, and says more.

    Attributes:
        live: Whether the peer still wants an answer.
        size: The bytes of the request, as the connection counts them.
        arrived: When it came (`Workload.arrived`); set when it enters the queue.
        scope: The cancel scope around its handler, from its first wait to its end.
    """

    live: bool
    size: int
    arrived: float | None
    scope: trio.CancelScope | None

    def work(self) -> Coroutine[Any, Any, object]:
        """Return the coroutine that runs the handler to its end and sends the outcome.

        It returns True if the stream is finished, so that `close` is not needed.
        """

    def begin(self) -> Awaitable[object] | None:
        """Work up to the first wait; return the rest, or ``None`` if the work has ended."""

    def attach(self, scope: trio.CancelScope) -> None:
        """Keep ``scope`` until the end of the handler, which waits now."""

    def close(self, error: Exception | None) -> None:
        """End after the work: with its error, or ``None``."""

    def dismiss(self, error: Exception) -> None:
        """Cancel the handler, after the connection has ended with ``error``."""


class FrameReader(Protocol):
    """Reads for the tasks of the crew; `rsocket_trio.connection.reader.Reader` is that of RSocket.

    Attributes:
        frames: What is received and not dispatched; while it is empty, `wait_received` will do.
        paused: Whether `pause` has left some frames of a read for another task.
        wait_received: Waits for the transport, or ``None``: then `wait` does it.
    """

    frames: Sequence[bytes]
    paused: bool
    wait_received: Callable[[], Awaitable[None]] | None

    def wait(self) -> Awaitable[None]:
        """Wait until `deliver` has something to do. The caller awaits it at once."""

    def deliver(self) -> bool:
        """Dispatch what was received; return whether there may be more."""

    def pause(self) -> None:
        """Stop behind the frame that is being dispatched: another task dispatches the rest."""

    def failed(self, error: Exception) -> None:
        """End the connection, because `wait` or `deliver` has raised ``error``."""

    def forget(self) -> None:
        """Drop what has not been dispatched: the connection is over."""
