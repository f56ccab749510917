"""Leases of a session that may be resumed: `run_leases`.

Leases do not carry over: each connection of a session begins them anew (Protocol.md, "Resume
Operation"). A request that was lost with its connection is sent again, and counts against the first
lease of the new connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from .granting import grant_leases

if TYPE_CHECKING:
    from ..transports.base import FrameTransport
    from .leases import Leases
    from .outbox import Outbox

__all__ = ["run_leases"]


async def run_leases(
    leases: Leases,
    outbox: Outbox,
    transport: FrameTransport,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Grant leases; in a resumable session, anew for each transport that carries it.

    Args:
        leases: The leases of the connection.
        outbox: The outbox of the connection.
        transport: The transport of the connection.
        task_status: Started once the first lease is queued, or the source makes us wait.

    Checkpoint: always.
    If cancelled: only `Leases.grant` grants leases from then on.
    """
    if not transport.capabilities.resumable:
        await grant_leases(leases, outbox, task_status=task_status)
        return
    transport.on_lost = leases.restart
    while True:
        try:
            lost = await transport.wait_connected()
        except trio.BrokenResourceError:
            task_status.started()
            return  # the session is over
        async with trio.open_nursery() as nursery:
            await nursery.start(grant_leases, leases, outbox)
            task_status.started()
            task_status = trio.TASK_STATUS_IGNORED
            await lost.wait()
            nursery.cancel_scope.cancel(reason="leases begin anew with each connection")
