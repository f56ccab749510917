"""How a connection begins, on both sides (Protocol.md, "Connection Establishment").

The server reads the first frame, under a deadline, and judges it; nothing behind it is looked at
before the SETUP has been accepted. The client sends SETUP first of all, and where
`ConnectionConfig.confirm_setup` is set a KEEPALIVE right behind it: SETUP has no acknowledgement
of its own, and the answer to that KEEPALIVE is one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from ..errors import (
    ConnectFailed,
    ConnectionLost,
    ErrorCode,
    InvalidSetup,
    LocalProtocolError,
    MalformedFrame,
    MetadataLengthError,
    RejectedResume,
    RemoteProtocolError,
    SetupError,
)
from ..frames.error import encode_error, encode_fitting_error
from ..frames.keepalive import encode_keepalive
from ..frames.setup import SetupFrame
from ..frames.union import decode
from ..protocol.setup import build_setup, check_first_frame, check_setup, limit_lifetime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..config import ConnectionConfig
    from ..frames.resume import ResumeFrame
    from ..payload import Payload
    from ..transports.base import FrameTransport
    from .connection import Connection

_LINGER: Final = 1.0
"""How long the peer may take to read what was sent last and to close too, in seconds."""

__all__ = ["begin_as_client", "close_politely", "receive_setup", "refuse", "wait_accepted"]


async def receive_setup(
    receive: Callable[[], Awaitable[list[bytes]]],
    config: ConnectionConfig,
    *,
    resume_offered: bool = False,
    lease_offered: bool = False,
) -> tuple[SetupFrame | ResumeFrame, list[bytes]]:
    """Server: wait for the first frame and judge it.

    Args:
        receive: Receives frames, as `FrameTransport.receive_frames` does.
        config: How long it may take.
        resume_offered: Whether sessions are kept for resumption.
        lease_offered: Whether leases are granted.

    Returns:
        The SETUP, its max lifetime within our limit; or a RESUME, where that is offered; and what
        came right behind it, unread.

    Raises:
        SetupError: To be answered with `refuse`.
        RejectedResume: Likewise.
        RemoteProtocolError: Likewise: what came is no frame.
        ConnectionLost: The peer went away before it had said anything, or the transport was closed.

    Checkpoint: always.
    If cancelled: nothing is known; close the transport.
    """
    frames: list[bytes] = []
    with trio.move_on_after(config.setup_timeout):
        try:
            frames = await receive()
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"the peer went away before its SETUP: {error}") from error
        except trio.ClosedResourceError as error:
            raise ConnectionLost(f"the transport was closed before a SETUP: {error}") from error
        if not frames:
            raise ConnectionLost("the peer went away before its SETUP")
    if not frames:
        raise InvalidSetup(f"no SETUP within {config.setup_timeout:g} s")
    try:
        first = decode(frames[0])
    except MetadataLengthError:
        raise  # CONNECTION_ERROR, as everywhere
    except MalformedFrame as error:
        raise InvalidSetup(f"the first frame is no SETUP: {error}") from error
    setup = check_first_frame(first, resume_offered=resume_offered)
    if isinstance(setup, SetupFrame):
        check_setup(
            setup,
            resume_offered=resume_offered,
            lease_offered=lease_offered,
            max_size=config.limits.max_setup_size,
        )
        setup = limit_lifetime(setup, config.limits.max_client_lifetime)
    return setup, frames[1:]


async def refuse(
    transport: FrameTransport,
    error: SetupError | RejectedResume | RemoteProtocolError,
    config: ConnectionConfig,
) -> None:
    """Server: tell the client why there is no connection; its owner closes the transport.

    Checkpoint: always.
    If cancelled: it may or may not have been told.
    """
    data = str(error).encode() if isinstance(error, RemoteProtocolError) else error.data
    with trio.move_on_after(config.close_timeout):
        # A peer that does not listen, or talks nonsense, is refused all the same; and so is one
        # whose transport was closed by whoever brought it.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError):
            at_most = config.limits.max_frame_size
            await transport.send_frames([encode_fitting_error(0, error.code, data, at_most)])
            await close_politely(transport)


async def close_politely(transport: FrameTransport) -> None:
    """Say that nothing more comes, and give the peer a moment to read what came last.

    Closing a socket with data unread resets the connection, and what was sent last may never be
    read then. So this takes and drops what still comes until the peer closes too.

    Raises:
        trio.BrokenResourceError: The transport is gone.
        RemoteProtocolError: The peer talks nonsense.

    Checkpoint: always.
    If cancelled: close the transport.
    """
    with trio.move_on_after(_LINGER):
        if await transport.close_sending():
            while await transport.receive_frames():
                pass


def begin_as_client(
    connection: Connection,
    setup: Payload,
    data_mime_type: str,
    metadata_mime_type: str,
    *,
    resume_token: bytes | None = None,
) -> None:
    """Client: queue SETUP, and what asks for its confirmation.

    Args:
        connection: Not running yet.
        setup: The setup payload.
        data_mime_type: Of all payloads.
        metadata_mime_type: Likewise.
        resume_token: Names the session, where it is to be resumed.

    Raises:
        LocalProtocolError: The SETUP does not fit a frame, or a MIME type is none.
    """
    config = connection.config
    frame = build_setup(
        keepalive_interval=config.keepalive_interval,
        max_lifetime=config.max_lifetime,
        data_mime_type=data_mime_type,
        metadata_mime_type=metadata_mime_type,
        payload=setup,
        resume_token=resume_token,
        lease=connection.leases is not None,
    ).encode()
    at_most = config.limits.max_frame_size
    if len(frame) > at_most:
        raise LocalProtocolError(
            f"SETUP would be {len(frame)} bytes long, which cannot be cut into fragments, and "
            f"{at_most} may be (Limits.max_frame_size)"
        )
    # Urgent, as all of stream 0: nothing can be before them.
    connection.outbox.put_urgent(frame)
    if config.confirm_setup:
        connection.outbox.put_urgent(encode_keepalive(True, 0, b""))


async def wait_accepted(connection: Connection) -> None:
    """Client: wait until the SETUP is known to be accepted.

    Raises:
        SetupError: It was refused.
        ClosedByPeer: The peer closed with CONNECTION_ERROR or CONNECTION_CLOSE.
        ConnectionLost: The connection broke meanwhile.
        ConnectFailed: The peer said nothing within `ConnectionConfig.setup_timeout`.

    Checkpoint: always.
    If cancelled: nothing is known.
    """
    timeout = connection.config.setup_timeout
    with trio.move_on_after(timeout) as scope:
        await connection.lifecycle.acceptance.wait()
    if connection.lifecycle.failure is not None:
        raise connection.lifecycle.failure
    if scope.cancelled_caught:
        reason = f"the peer did not answer to SETUP within {timeout:g} s"
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, reason.encode())
        connection.lifecycle.end(ConnectionLost(reason), last_words=last_words)
        raise ConnectFailed(
            f"{reason}: it is no RSocket server, or one that answers no KEEPALIVE, which needs "
            "confirm_setup=False (--no-confirm-setup)"
        )
