"""ReactiveSocket, the draft of 2015 (version 0) from which RSocket 1.0 was developed.

`frames` reads and writes its frames. `recognition` finds out the protocol of a client by its first
bytes. `incoming` and `outgoing` translate between the two protocols, frame by frame, so that the
engine of RSocket 1.0 serves both. `transport` and `opening` use them. Most programs need only
``rsocket_trio.connect(uri, protocol="reactivesocket")`` and `rsocket_trio.serve`. The draft has one
request that RSocket 1.0 does not have: `request_subscription`.
"""

from __future__ import annotations

from .subscription import request_subscription
from .transport import ReactiveSocketTransport

__all__ = ["ReactiveSocketTransport", "request_subscription"]
