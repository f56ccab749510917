"""Settings of clients and servers: `RsioConfig`.

Times are in seconds (float), sizes in octets. `RsioLimits` has the limits of the protocol.
"""

from __future__ import annotations

from typing import Final

import attrs

from ..account import ITEM_COST
from ..field_checks import COUNT, SECONDS, check_order, instance_of, largest
from .limits import RsioLimits

__all__ = ["DEFAULT_CONFIG", "RsioConfig", "check_config"]


@attrs.frozen(kw_only=True)
class RsioConfig:
    """How one end of a connection behaves. The defaults suit most programs.

    Settings that contradict one another are a `ValueError`.

    Attributes:
        limits: What one peer may ask of us, and may send.
        connect_timeout: How long a client may take to connect, and a peer for a handshake of TLS
            or WebSocket. 10 s.
        hello_timeout: How long to wait for the hello of the peer. 10 s.
        goodbye_timeout: How long to wait for the goodbye that answers ours. 5 s.
        max_ahead: How many elements of a publisher of ours are requested ahead of the socket. The
            demand of the peer is never handed on as it is: with a demand of 2^63-1 and a socket
            that nobody reads, all elements would wait in memory. 256.
        max_ahead_size: The same in octets: of a stream whose elements are large, fewer are
            requested. One element of any size may exceed it. A stream of elements of one size
            begins with a 64th of it. 64 KiB.
        max_answers_size: Octets of all elements of publishers of ours that wait for the socket.
            Each stream has one of any size, and a peer that reads nothing could have those of 1024
            streams kept. The stream whose element goes past it ends with an error, unless no other
            element waits. 256 MiB.
        max_control_size: Octets of answers to the peer's messages that may wait to be sent: to
            subscribe, cancel, and those of extensions. Each counts 64 more, for what keeps it. Past
            it, subscriptions of this peer do not begin, until it reads. 256 KiB.
        max_unsent_control_size: Octets of the same answers. Past it the connection ends. We go on
            reading until then: two ends that each wait for the other to read would wait without
            end. 4 MiB: thirty thousand streams that were cancelled, several times what a peer may
            have (``RsioLimits.max_cancelled``).
        max_unread_size: Octets of elements that have arrived and are unread, in all readers of the
            connection (`RemotePublisher.open`, ``async for``, `RemotePublisher.open_packed` and
            `rsocket_trio.reactive_streams.open_iter`). An element counts 64 more, for what keeps
            it. A reader that would exceed it fails with
            `rsocket_trio.reactive_streams.TooMuchUnread`: demand counts elements, and a peer
            chooses how large they are. 64 MiB, or more if `RsioLimits.max_element_size` is more.
    """

    limits: RsioLimits = attrs.field(factory=RsioLimits, validator=instance_of(RsioLimits))
    connect_timeout: float = attrs.field(default=10.0, validator=SECONDS)
    hello_timeout: float = attrs.field(default=10.0, validator=SECONDS)
    goodbye_timeout: float = attrs.field(default=5.0, validator=SECONDS)
    max_ahead: int = attrs.field(default=256, validator=COUNT)
    max_ahead_size: int = attrs.field(default=64 * 2**10, validator=COUNT)
    max_answers_size: int = attrs.field(default=256 * 2**20, validator=COUNT)
    max_control_size: int = attrs.field(default=256 * 2**10, validator=COUNT)
    max_unsent_control_size: int = attrs.field(validator=COUNT)
    max_unread_size: int = attrs.field(validator=COUNT)

    @max_unsent_control_size.default
    def _default_unsent_control_size(self) -> int:
        return largest(4 * 2**20, self.max_control_size)

    @max_unread_size.default
    def _default_unread_size(self) -> int:
        return largest(64 * 2**20, self._largest_unread())

    def _largest_unread(self) -> int:
        """What the largest element counts while it is unread."""
        limits = self.limits
        return limits.max_element_size + ITEM_COST if isinstance(limits, RsioLimits) else 0

    def __attrs_post_init__(self) -> None:
        check_order(
            self,
            "max_control_size",
            "max_unsent_control_size",
            "the connection would end before subscriptions wait",
        )
        if self._largest_unread() > self.max_unread_size:
            raise ValueError(
                f"RsioLimits.max_element_size is {self.limits.max_element_size}, and "
                f"RsioConfig.max_unread_size is {self.max_unread_size}: the largest element, which "
                f"counts {ITEM_COST} more, could not be read; lower max_element_size, or raise "
                "max_unread_size"
            )


DEFAULT_CONFIG: Final = RsioConfig()


def check_config(config: object) -> None:
    """Check the type of ``config=`` before anything is opened.

    Raises:
        TypeError: It is not an `RsioConfig`.
    """
    if not isinstance(config, RsioConfig):
        raise TypeError(f"config must be an RsioConfig, not {type(config).__name__}")
