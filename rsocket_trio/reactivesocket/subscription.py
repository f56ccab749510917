"""The request that only the draft has: `request_subscription`."""

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
    """Open a stream that the responder does not end: leave the block to end it.

    ``async with request_subscription(requester, ...) as items``

    To a peer that speaks the ReactiveSocket draft this sends a REQUEST_SUB. RSocket 1.0 has no such
    request; there this is `rsocket_trio.Requester.request_stream`. A responder answers both with
    its handler of request_stream.

    Args:
        requester: Sends the request.
        payload: As for `rsocket_trio.Requester.request_stream`.
        route: As for `rsocket_trio.Requester.request_stream`.
        metadata: As for `rsocket_trio.Requester.request_stream`.
        prefetch: As for `rsocket_trio.Requester.request_stream`.
        initial_request_n: As for `rsocket_trio.Requester.request_stream`.

    Returns:
        As `rsocket_trio.Requester.request_stream`.

    Raises:
        MissingLease: On entering: leases are in use, and the request may not wait for one.
        ConnectionClosed: On entering: the connection is over.
        trio.ClosedResourceError: On entering: the connection was closed here.
        LocalProtocolError: ``prefetch`` and ``initial_request_n`` do not go together, or one is out
            of range (`Limits.max_prefetch`).

    Checkpoint: entering, a cancellation point always; other tasks run if the request has to wait
    for room or a lease. Leaving, no.
    If cancelled: on entering, nothing is sent; if some fragments were sent already, a CANCEL
    follows. Inside the block, a CANCEL is sent. The connection stays usable.
    """
    return requester._open_stream(  # noqa: SLF001 - `Requester` has no public subscription
        payload, route, metadata, prefetch, initial_request_n, subscription=True
    )
