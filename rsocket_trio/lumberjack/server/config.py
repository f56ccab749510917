"""Settings of a Lumberjack server: `LumberjackConfig`."""

from __future__ import annotations

import attrs

from ...field_checks import COUNT, SECONDS, instance_of, optional
from ..wire.limits import LumberjackLimits

__all__ = ["LumberjackConfig", "check_config"]


@attrs.frozen(kw_only=True)
class LumberjackConfig:
    """How a server treats its senders. Times are in seconds, sizes in bytes.

    Attributes:
        limits: The memory that one batch of a sender may take, until it is complete.
        max_waiting_batches: While a batch of a connection is handled, this many more are read and
            wait. Then the server reads nothing more from this connection, and TCP stops the sender.
            2, as Beats pipeline.
        max_batches: The complete batches that all connections of a server hold together. A
            connection that would exceed it waits; small batches pass the large ones of others. 256.
        max_held_size: The memory of these batches: their events, each with 64 bytes more, their
            compressed payloads, and 512 bytes for each batch. A batch that is larger than this is
            accepted when it is the only one. 256 MiB.
        max_incoming_size: The memory of what all connections have read besides: incomplete batches,
            and batches that wait for the room of ``max_batches`` and ``max_held_size``. At this
            bound, one connection at a time reads on, and the others wait, but for those that hold
            less than 32 KiB. So it may be exceeded by what `LumberjackLimits` allow two
            connections, and by 256 KiB for each further one. If the turn of a connection lasts 2
            seconds, those are closed whose incomplete batches have taken the most memory for the
            longest time. 256 MiB.
        first_byte_timeout: A sender must send its first byte within this time, and finish the TLS
            handshake before. The guards of a `rsocket_trio.Router` must answer within the same
            time. 10 s.
        progress_timeout: The longest silence inside a batch or a frame. Also the time for a batch
            of a sender that reads on alone, because ``max_incoming_size`` is reached. 30 s.
        batch_timeout: The time for the whole of one batch, from its first byte. It ends senders
            that send a byte now and then. 300 s.
        idle_timeout: The longest silence while the server owes no ACK and the sender owes nothing.
            ``None``: no limit, as Beats keep idle connections open.
        flush_delay: Events without a window frame form windows of the size announced last. If the
            sender is silent for this time, those that wait are handled. 0.5 s.
        keepalive_interval: While a batch is handled or waits, the server sends an ACK 0 this often
            to senders of version 2: their read timeouts begin again with each. Senders of version 1
            get none, because they take any ACK for the last one. 5 s, as Logstash. As often, the
            server looks whether a sender from which it does not read has left, also one that waits
            for memory.
        send_timeout: A sender that reads none of its ACKs for this time is disconnected. 30 s.
        close_timeout: After a half close, the server waits this long for the sender to close too.
            A close while bytes of the sender wait would destroy ACKs on the way. 2 s.
    """

    limits: LumberjackLimits = attrs.field(
        factory=LumberjackLimits, validator=instance_of(LumberjackLimits)
    )
    max_waiting_batches: int = attrs.field(default=2, validator=COUNT)
    max_batches: int = attrs.field(default=256, validator=COUNT)
    max_held_size: int = attrs.field(default=256 * 2**20, validator=COUNT)
    max_incoming_size: int = attrs.field(default=256 * 2**20, validator=COUNT)
    first_byte_timeout: float = attrs.field(default=10.0, validator=SECONDS)
    progress_timeout: float = attrs.field(default=30.0, validator=SECONDS)
    batch_timeout: float = attrs.field(default=300.0, validator=SECONDS)
    idle_timeout: float | None = attrs.field(default=None, validator=optional(SECONDS))
    flush_delay: float = attrs.field(default=0.5, validator=SECONDS)
    keepalive_interval: float = attrs.field(default=5.0, validator=SECONDS)
    send_timeout: float = attrs.field(default=30.0, validator=SECONDS)
    close_timeout: float = attrs.field(default=2.0, validator=SECONDS)


def check_config(config: object) -> None:
    """Check the type of ``config=``.

    Raises:
        TypeError: It is not a `LumberjackConfig`.
    """
    if not isinstance(config, LumberjackConfig):
        raise TypeError(f"config must be a LumberjackConfig, not {type(config).__name__}")
