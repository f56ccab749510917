"""The limits of one Lumberjack connection: `LumberjackLimits`.

Each limit is checked against the length or count that the peer announces, before memory is taken
for it.
"""

from __future__ import annotations

from typing import Final

import attrs

from ...field_checks import whole

__all__ = ["DEFAULT_LUMBERJACK_LIMITS", "LumberjackLimits"]

_U32: Final = 2**32 - 1
_size = whole(1, _U32)


@attrs.frozen(kw_only=True)
class LumberjackLimits:
    """The memory that one Lumberjack peer may take from us. Sizes are in bytes.

    A reader refuses the frame that goes past a limit, and with it the connection. A sender of ours
    raises `rsocket_trio.LocalProtocolError` before anything is sent. The ratio of a compression has
    no limit of its own, and a compressed frame inside another one is refused.

    Attributes:
        max_window: Events of one window. The number comes from the peer in six bytes, so no
            memory is taken for it in advance. 65536: Beats send 2048, go-lumber refuses more than
            10000.
        max_event_size: One event: the JSON text, or the key-value pairs with their lengths. 16 MiB,
            as Graylog.
        max_compressed_size: The payload of one compressed frame, as it arrives. It is kept until
            it is complete. 32 MiB.
        max_inflated_size: The frames in one compressed frame, after inflation. A few hundred KB
            can become hundreds of MB. 64 MiB.
        max_compressed_frames: The frames in one compressed frame. An event of one byte takes
            eleven bytes there, and about ten times as much as an object. 131072: twice the largest
            window.
        max_compressed_windows: The windows in one compressed frame, also those without events, and
            those that another window frame follows at once. They are kept until the checksum at its
            end was right, and each takes half a KiB as an object. 4096: known senders send one, and
            one without window frames at most 2048.
        max_batch_size: The event frames of one batch, after inflation: a batch is delivered as a
            whole. 64 MiB: 2048 events of 32 KiB.
        max_pairs: Key-value pairs of one event of version 1. 1024, as Graylog.
        max_batch_pairs: The pairs of all events of one batch, and those in one compressed frame. An
            empty pair takes eight bytes, and half a microsecond to read, so 64 MiB of them would
            stop all other connections for seconds. 524288: 2048 events of 256 pairs.
    """

    max_window: int = attrs.field(default=65536, validator=_size)
    max_event_size: int = attrs.field(default=16 * 2**20, validator=_size)
    max_compressed_size: int = attrs.field(default=32 * 2**20, validator=_size)
    max_inflated_size: int = attrs.field(default=64 * 2**20, validator=_size)
    max_compressed_frames: int = attrs.field(default=131072, validator=_size)
    max_compressed_windows: int = attrs.field(default=4096, validator=_size)
    max_batch_size: int = attrs.field(default=64 * 2**20, validator=_size)
    max_pairs: int = attrs.field(default=1024, validator=_size)
    max_batch_pairs: int = attrs.field(default=524288, validator=_size)


DEFAULT_LUMBERJACK_LIMITS: Final = LumberjackLimits()
"""The limits where the caller gives none."""
