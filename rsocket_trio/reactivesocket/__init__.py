"""ReactiveSocket, the draft of 2015 (version 0): what RSocket 1.0 grew out of.

`frames` reads and writes its frames; `recognition` tells the two protocols apart by the first bytes
of a client; `incoming` and `outgoing` translate between them, frame by frame, so that the engine of
RSocket 1.0 serves both. `transport` and `opening` put that to use. ``rsocket_trio.connect(uri,
protocol="reactivesocket")`` and `rsocket_trio.serve` are all that most programs need of it. What
RSocket 1.0 has no request for is here: `request_subscription`.
"""

from __future__ import annotations

from .subscription import request_subscription
from .transport import ReactiveSocketTransport

__all__ = ["ReactiveSocketTransport", "request_subscription"]
