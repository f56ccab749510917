"""Settings of clients and servers: `TtrpcConfig` and `TtrpcLimits`.

Times are in seconds (float), sizes in bytes. Each limit has a name, a default and a reason.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from ..field_checks import COUNT, SECONDS, check_order, instance_of, largest, one_of, whole
from .wire.frames import MAX_BODY

__all__ = ["DEFAULT_CONFIG", "TtrpcConfig", "TtrpcLimits", "check_config"]


@attrs.frozen(kw_only=True)
class TtrpcLimits:
    """The memory that one peer may take from us.

    Limits that contradict one another are a `ValueError`.

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
        max_answers_size: Answers and messages of handlers that wait for that room, in bytes, each
            with 64 bytes more. No call begins while one waits, but those that run end, each with an
            answer, and a peer that reads nothing could have 4096 of them kept. The call whose
            answer or message goes past it ends with RESOURCE_EXHAUSTED. 256 MiB: 64 of the largest
            answers.
        max_control_size: Bytes of answers that may not wait (refusals), queued for a peer that
            does not read. Past it, calls of the peer do not begin. 1 MiB.
        max_unsent_control_size: Bytes of the same answers. Past it the connection ends. 1.5
            MiB, or ``max_control_size`` if that is more.
    """

    max_message_size: int = attrs.field(default=MAX_BODY, validator=whole(1, MAX_BODY))
    max_metadata_size: int = attrs.field(default=64 * 2**10, validator=COUNT)
    max_metadata_entries: int = attrs.field(default=128, validator=COUNT)
    max_active_requests: int = attrs.field(default=4096, validator=COUNT)
    max_requests_size: int = attrs.field(default=64 * 2**20, validator=COUNT)
    max_stream_size: int = attrs.field(default=4 * 2**20, validator=COUNT)
    max_unread_size: int = attrs.field(default=64 * 2**20, validator=COUNT)
    max_outbox_size: int = attrs.field(default=256 * 2**10, validator=COUNT)
    max_answers_size: int = attrs.field(default=256 * 2**20, validator=COUNT)
    max_control_size: int = attrs.field(default=2**20, validator=COUNT)
    max_unsent_control_size: int = attrs.field(validator=COUNT)

    @max_unsent_control_size.default
    def _default_unsent_control_size(self) -> int:
        return largest(3 * 2**19, self.max_control_size)

    def __attrs_post_init__(self) -> None:
        check_order(
            self,
            "max_control_size",
            "max_unsent_control_size",
            "the connection would end before requests wait",
        )


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

    limits: TtrpcLimits = attrs.field(factory=TtrpcLimits, validator=instance_of(TtrpcLimits))
    overflow: Literal["fail", "pause"] = attrs.field(
        default="fail", validator=one_of("fail", "pause")
    )
    overflow_patience: float = attrs.field(default=0.25, validator=SECONDS)
    connect_timeout: float = attrs.field(default=10.0, validator=SECONDS)
    half_close_timeout: float = attrs.field(default=30.0, validator=SECONDS)
    close_timeout: float = attrs.field(default=5.0, validator=SECONDS)


DEFAULT_CONFIG: Final = TtrpcConfig()


def check_config(config: object) -> None:
    """Check the type of ``config=`` before anything is opened.

    Raises:
        TypeError: It is not a `TtrpcConfig`.
    """
    if not isinstance(config, TtrpcConfig):
        raise TypeError(f"config must be a TtrpcConfig, not {type(config).__name__}")
