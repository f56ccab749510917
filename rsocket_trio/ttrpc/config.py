"""Settings of clients and servers: `TtrpcConfig` and `TtrpcLimits`.

Times are in seconds (float), sizes in bytes. Each limit has a name, a default and a reason.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import attrs
from attrs import validators as v

from .wire.frames import MAX_BODY

__all__ = ["DEFAULT_CONFIG", "TtrpcConfig", "TtrpcLimits", "check_config"]

_count = v.and_(v.instance_of(int), v.ge(1))


def _time(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{attribute.name} must be a number, not {type(value).__name__}")
    if not value > 0:
        raise ValueError(f"{attribute.name} must be greater than 0, not {value!r}")


@attrs.frozen(kw_only=True)
class TtrpcLimits:
    """The memory that one peer may take from us.

    Attributes:
        max_message_size: A frame with a longer body fails its call with RESOURCE_EXHAUSTED, and
            the body is dropped as it arrives; longer messages of ours are not sent. 4 MiB, which
            is that of the protocol and so the largest value here.
        max_metadata_size: The metadata of one request: keys and values in bytes, each pair with 16
            more. A call with more is refused with RESOURCE_EXHAUSTED. 64 KiB: HTTP servers take 8
            to 64.
        max_metadata_entries: The pairs of one request. 128: a request has a handful.
        max_active_requests: The calls of one peer that may wait or run; one more is refused with
            RESOURCE_EXHAUSTED. The protocol has no flow control, and the Go implementation no
            limit. 4096.
        max_requests_size: The requests of these calls together, in bytes. A call past it is
            refused, unless it is the only one. 64 MiB.
        max_stream_size: What has arrived on one stream and is not received yet, in bytes; each
            message counts 64 bytes more than its contents. The protocol has no flow control, so a
            stream that nobody reads has to end: see `TtrpcConfig.overflow`. 4 MiB, so that a
            message of the largest size fits.
        max_unread_size: The same for all streams of a connection. 64 MiB.
        max_outbox_size: Bytes queued to be sent before answers and messages wait. 256 KiB.
        max_control_size: Bytes of answers that may not wait (refusals), queued for a peer that
            does not read. Past it, calls of the peer do not begin. 1 MiB.
        max_unsent_control_size: Bytes of the same answers. Past it the connection ends. 1.5 MiB.
    """

    max_message_size: int = attrs.field(default=MAX_BODY, validator=[_count, v.le(MAX_BODY)])
    max_metadata_size: int = attrs.field(default=64 * 2**10, validator=_count)
    max_metadata_entries: int = attrs.field(default=128, validator=_count)
    max_active_requests: int = attrs.field(default=4096, validator=_count)
    max_requests_size: int = attrs.field(default=64 * 2**20, validator=_count)
    max_stream_size: int = attrs.field(default=4 * 2**20, validator=_count)
    max_unread_size: int = attrs.field(default=64 * 2**20, validator=_count)
    max_outbox_size: int = attrs.field(default=256 * 2**10, validator=_count)
    max_control_size: int = attrs.field(default=2**20, validator=_count)
    max_unsent_control_size: int = attrs.field(default=3 * 2**19, validator=_count)


@attrs.frozen(kw_only=True)
class TtrpcConfig:
    """How a client or a server behaves. The defaults suit most programs.

    Attributes:
        limits: The memory that one peer may take from us.
        overflow: What happens if messages arrive faster than they are received, and a stream has
            reached `TtrpcLimits.max_stream_size`. The reading of the connection pauses for
            ``overflow_patience``, in which a 32nd part of the limit must be received. If less is,
            ``"fail"`` ends this stream with RESOURCE_EXHAUSTED, and the others go on. ``"pause"``
            goes on waiting: no stream fails, but the other calls wait as long.
        overflow_patience: In seconds; all other calls of the connection wait for this time. 0.25:
            with the other defaults, a reader that receives half a megabyte in a second, or one
            message in this time, never fails.
        connect_timeout: How long a client may take to connect, and a peer for a handshake, in
            seconds. 10 s.
        half_close_timeout: If the client closes its sending half, calls that run may finish within
            this time, in seconds. 30 s. A client that has closed both halves gets no answers, and
            its calls are cancelled at once.
        close_timeout: How long the last frames may take to leave, in seconds. 5 s.
    """

    limits: TtrpcLimits = attrs.field(factory=TtrpcLimits, validator=v.instance_of(TtrpcLimits))
    overflow: Literal["fail", "pause"] = attrs.field(
        default="fail", validator=v.in_(("fail", "pause"))
    )
    overflow_patience: float = attrs.field(default=0.25, validator=_time)
    connect_timeout: float = attrs.field(default=10.0, validator=_time)
    half_close_timeout: float = attrs.field(default=30.0, validator=_time)
    close_timeout: float = attrs.field(default=5.0, validator=_time)


DEFAULT_CONFIG: Final = TtrpcConfig()


def check_config(config: object) -> None:
    """Check the type of ``config=`` before anything is opened.

    Raises:
        TypeError: It is not a `TtrpcConfig`.
    """
    if not isinstance(config, TtrpcConfig):
        raise TypeError(f"config must be a TtrpcConfig, not {type(config).__name__}")
