"""KEEPALIVEs of a session that may be resumed: `watch_link`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.lowlevel import checkpoint

from ..frames.keepalive import encode_keepalive
from .keepalive import Pulse

if TYPE_CHECKING:
    from .resumable_link import Attachment, ResumableLink

__all__ = ["watch_link"]


async def watch_link(link: ResumableLink) -> None:
    """Send KEEPALIVEs when due, and drop each transport whose peer falls silent.

    Returns when the session is over.

    Checkpoint: always.
    If cancelled: transports are not watched any more.
    """
    while True:
        try:
            attachment = await link.wait_attached()
        except trio.BrokenResourceError:
            return
        await _watch(link, attachment)


async def _watch(link: ResumableLink, attachment: Attachment) -> None:
    """Watch one transport until the link has lost it."""
    retention = link.retention
    clock = attachment.clock
    lifetime = clock.max_lifetime
    pulse = Pulse(clock, attachment.transport)
    while not attachment.lost.is_set():
        now = trio.current_time()
        since = attachment.sending_since
        pulse.look(now, sending=since is not None, batch=attachment.batches, since=since)
        reason = pulse.death(now)
        if pulse.is_uncertain(reason):
            await checkpoint()
            continue
        if reason is not None:
            link.silences += 1
            link.drop(reason)
            return
        asked = retention.asked_since
        if asked is not None and now >= asked + lifetime:
            retention.give_up()
        if clock.due(now):
            link.send_soon(encode_keepalive(True, 0, b""))
            clock.sent(now)
        asked = retention.asked_since
        deadline = pulse.next_look()
        if asked is not None:
            deadline = min(deadline, asked + lifetime)
        with trio.move_on_at(deadline):
            await attachment.lost.wait()
