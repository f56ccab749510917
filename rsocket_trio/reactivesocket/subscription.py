"""What only the draft has a request for: `request_subscription`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..payload import Payload

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ..interactions.demand import PayloadStream
    from ..metadata.builder import Metadata
    from ..requester import Requester
    from ..streamed import AnyPayload

__all__ = ["request_subscription"]

_EMPTY: Final = Payload()


def request_subscription(
    requester: Requester,
    payload: AnyPayload = _EMPTY,
    *,
    route: str | None = None,
    metadata: Metadata | None = None,
    prefetch: int | None = None,
    initial_request_n: int | None = None,
) -> AbstractAsyncContextManager[PayloadStream]:
    """Open a stream that has no end of its own: leave the block to end it.

    ``async with request_subscription(requester, ...) as items``

    A request of its own (REQUEST_SUB) where the peer speaks the ReactiveSocket draft; on
    RSocket 1.0, which has no such thing, it is `rsocket_trio.Requester.request_stream`. A responder
    answers both with its handler of request_stream.

    Args:
        requester: Sends the request.
        payload: As for `rsocket_trio.Requester.request_stream`.
        route: Likewise.
        metadata: Likewise.
        prefetch: Likewise.
        initial_request_n: Likewise.

    Returns:
        Likewise.

    Raises:
        MissingLease: On entering: leases are in use, and the request may not wait for one.
        ConnectionClosed: On entering: the connection is over.
        trio.ClosedResourceError: On entering: the connection was closed here.
        LocalProtocolError: The demand makes no sense, or goes beyond `Limits.max_prefetch`.

    Checkpoint: entering, a cancellation point always; other tasks run where the request has to
    wait for room or a lease. Leaving, no.
    If cancelled: on entering, nothing was sent (or, of a payload in fragments, it is
    cancelled); inside the block, a CANCEL is sent. The connection stays usable.
    """
    return requester._open_stream(  # noqa: SLF001 - how it is told apart is the wire's business
        payload, route, metadata, prefetch, initial_request_n, subscription=True
    )
