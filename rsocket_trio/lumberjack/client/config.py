"""Settings of a Lumberjack client: `ShipperConfig`."""

from __future__ import annotations

import attrs

from ...field_checks import COUNT, SECONDS, instance_of, one_of, optional, whole
from ...protocol.retry import Retry
from ..wire.encoder import DEFAULT_COMPRESSION_LEVEL
from ..wire.limits import LumberjackLimits

__all__ = ["ShipperConfig", "check_shipper_config"]


@attrs.frozen(kw_only=True)
class ShipperConfig:
    """How a client ships events. Times are in seconds, sizes in bytes.

    Attributes:
        version: The version of the protocol, 1 or 2. The client must know what the server speaks:
            all servers of today speak 2.
        compression_level: 1 to 9 as in zlib; 0: not compressed. 3, as Beats. Leave it above 0 with
            version 1: Logstash resets the connection when a plain frame arrives in two parts.
        initial_window: The events of the first windows of a host. Each full window that is
            acknowledged doubles this, up to ``max_window``. A connection that is lost with events
            on the way halves it. 64.
        max_window: The largest number of events in one window. 2048, as Beats.
        max_window_size: The largest size of one window, before compression. A window of large
            events has fewer of them; one event that is larger goes alone. Each connection has one
            such window encoded at a time. 4 MiB.
        pipelining: The windows of one connection that are on the way at the same time. With more
            than one, the next window is encoded and sent while the server handles the first. 2, as
            Beats.
        load_balance: Whether to send to all hosts at the same time. If not, one host gets all
            events, and the others are for the time in which it fails.
        retry: The waits before attempts to connect again. With ``max_attempts``, `Shipper.send`
            raises `ShipError` when so many attempts in a row have failed; with load balancing, at
            each host. By default there is no limit. An attempt succeeds if an event is
            acknowledged. It also does if nothing is sent, and the connection lasts longer than a
            second and than the wait before it.
        connection_ttl: Connect again after this time, so that load balancers and changes of names
            take effect. The windows on the way are finished before, and one is sent on each
            connection that has something to send. ``None``: never.
        connect_timeout: The time for connecting, with the TLS handshake. 10 s.
        ack_timeout: While events are on the way, the server must acknowledge some, send a
            keep-alive, or read what is sent, within this time. Otherwise the connection counts as
            lost. Servers send no keep-alives to version 1. 30 s, as Beats.
        ack_deadline: The longest time for one window, from the moment when it is the next to be
            acknowledged, although keep-alives arrive. Then the connection counts as lost, and the
            window is sent again. 600 s; ``None``: no limit.
        limits: What the server accepts. An event beyond it is refused before anything is sent.
    """

    version: int = attrs.field(default=2, validator=one_of(1, 2))
    compression_level: int = attrs.field(default=DEFAULT_COMPRESSION_LEVEL, validator=whole(0, 9))
    initial_window: int = attrs.field(default=64, validator=COUNT)
    max_window: int = attrs.field(default=2048, validator=COUNT)
    max_window_size: int = attrs.field(default=4 * 2**20, validator=COUNT)
    pipelining: int = attrs.field(default=2, validator=COUNT)
    load_balance: bool = attrs.field(default=False, validator=instance_of(bool))
    retry: Retry = attrs.field(factory=Retry, validator=instance_of(Retry))
    connection_ttl: float | None = attrs.field(default=None, validator=optional(SECONDS))
    connect_timeout: float = attrs.field(default=10.0, validator=SECONDS)
    ack_timeout: float = attrs.field(default=30.0, validator=SECONDS)
    ack_deadline: float | None = attrs.field(default=600.0, validator=optional(SECONDS))
    limits: LumberjackLimits = attrs.field(
        factory=LumberjackLimits, validator=instance_of(LumberjackLimits)
    )


def check_shipper_config(config: object) -> None:
    """Check the type of ``config=``.

    Raises:
        TypeError: It is not a `ShipperConfig`.
    """
    if not isinstance(config, ShipperConfig):
        raise TypeError(f"config must be a ShipperConfig, not {type(config).__name__}")
