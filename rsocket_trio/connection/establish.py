"""How a connection begins, on both sides (Protocol.md, "Connection Establishment").

The server waits for the first frame, with a timeout, and checks it; it decodes no other frame
before it has accepted the SETUP. The client sends SETUP first, and with
`ConnectionConfig.confirm_setup` a KEEPALIVE right behind it: SETUP has no acknowledgement of its
own, so the answer to that KEEPALIVE serves as one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..entrance import over
from ..errors import (
    ConnectFailed,
    ConnectionLost,
    ErrorCode,
    FrameTooLong,
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
from ..protocol.setup import (
    build_setup,
    check_first_frame,
    check_setup,
    limit_lifetime,
    too_much_setup,
)
from ..sockets.failures import describe_failure
from ..transports.base import close_politely

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..config import ConnectionConfig
    from ..frames.resume import ResumeFrame
    from ..payload import Payload
    from ..transports.base import FrameTransport
    from .connection import Connection

__all__ = ["begin_as_client", "receive_setup", "refuse", "send_away", "wait_accepted"]


async def receive_setup(
    receive: Callable[[], Awaitable[list[bytes]]],
    config: ConnectionConfig,
    *,
    resume_offered: bool = False,
    lease_offered: bool = False,
    lease_required: bool = False,
) -> tuple[SetupFrame | ResumeFrame, list[bytes]]:
    """Server: wait for the first frame and check it.

    Args:
        receive: Receives frames, as `FrameTransport.receive_frames` does.
        config: Has the timeout and the limits.
        resume_offered: Whether sessions are kept for resumption.
        lease_offered: Whether leases are granted.
        lease_required: Whether clients that do not ask for leases are refused.

    Returns:
        The SETUP, with its max lifetime limited, or a RESUME, if resumption is offered; and the
        frames right behind it, not decoded.

    Raises:
        SetupError: To be answered with `refuse`.
        RejectedResume: To be answered with `refuse`.
        RemoteProtocolError: The frame is malformed; to be answered with `refuse`.
        ConnectionLost: The peer went away before its first frame, or the transport was closed.

    Checkpoint: always.
    If cancelled: close the transport.
    """
    frames: list[bytes] = []
    with trio.move_on_after(config.setup_timeout):
        try:
            frames = await receive()
        except trio.BrokenResourceError as error:
            raise ConnectionLost(
                f"the peer went away before its SETUP: {describe_failure(error)}"
            ) from error
        except trio.ClosedResourceError as error:
            raise ConnectionLost(
                f"the transport was closed before a SETUP: {describe_failure(error)}"
            ) from error
        except FrameTooLong as error:
            if error.limit >= config.limits.max_frame_size:
                raise
            raise too_much_setup(config.limits.max_setup_size) from error
        if not frames:
            raise ConnectionLost("the peer went away before its SETUP")
    if not frames:
        raise InvalidSetup(f"no SETUP within {config.setup_timeout:g} s")
    try:
        first = decode(frames[0])
    except MetadataLengthError:
        raise  # CONNECTION_ERROR, as for any frame
    except MalformedFrame as error:
        raise InvalidSetup(f"the first frame is not a SETUP: {error}") from error
    setup = check_first_frame(first, resume_offered=resume_offered)
    if isinstance(setup, SetupFrame):
        check_setup(
            setup,
            resume_offered=resume_offered,
            lease_offered=lease_offered,
            lease_required=lease_required,
            max_size=config.limits.max_setup_size,
        )
        setup = limit_lifetime(setup, config.limits.max_client_lifetime)
    return setup, frames[1:]


async def refuse(
    transport: FrameTransport,
    error: SetupError | RejectedResume | RemoteProtocolError,
    config: ConnectionConfig,
) -> None:
    """Server: tell the client why it is refused. The owner of the transport closes it.

    Checkpoint: always.
    If cancelled: the ERROR frame may or may not have been sent.
    """
    data = str(error).encode() if isinstance(error, RemoteProtocolError) else error.data
    await send_away(transport, error.code, data, config)


async def send_away(
    transport: FrameTransport, code: int, data: bytes, config: ConnectionConfig
) -> None:
    """Server: send the one frame that a client without a connection gets; it can read it.

    Checkpoint: always.
    If cancelled: the ERROR frame may or may not have been sent.
    """
    with trio.move_on_after(config.close_timeout):
        # The transport may be broken or closed, and the peer may send malformed frames: the client
        # is sent away all the same.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError):
            at_most = config.limits.max_frame_size
            await transport.send_frames([encode_fitting_error(0, code, data, at_most)])
            await close_politely(transport)


def begin_as_client(
    connection: Connection,
    setup: Payload,
    data_mime_type: str,
    metadata_mime_type: str,
    *,
    resume_token: bytes | None = None,
) -> None:
    """Client: queue SETUP, and the KEEPALIVE that asks for its confirmation.

    Args:
        connection: The connection; it does not run yet.
        setup: The setup payload.
        data_mime_type: The MIME type of the data of all payloads.
        metadata_mime_type: The MIME type of the metadata of all payloads.
        resume_token: Identifies the session, if it can be resumed.

    Raises:
        LocalProtocolError: The SETUP does not fit into a frame, or a MIME type is invalid.
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
            f"SETUP would be {len(frame)} bytes long, but a frame has at most {at_most} bytes "
            "(Limits.max_frame_size), and SETUP cannot be cut into fragments"
        )
    # Urgent, like all frames of stream 0: no other frame can leave before them.
    connection.outbox.put_urgent(frame)
    if config.confirm_setup:
        connection.outbox.put_urgent(encode_keepalive(True, 0, b""))


async def wait_accepted(connection: Connection) -> None:
    """Client: wait until the SETUP is known to be accepted.

    Raises:
        SetupError: The server refused it.
        ClosedByPeer: The peer closed with CONNECTION_ERROR or CONNECTION_CLOSE.
        ConnectionLost: The connection broke meanwhile.
        ConnectFailed: The peer sent nothing within `ConnectionConfig.setup_timeout`.

    Checkpoint: always.
    If cancelled: nothing changes.
    """
    timeout = connection.config.setup_timeout
    with trio.move_on_after(timeout) as scope:
        await connection.lifecycle.acceptance.wait()
    if connection.lifecycle.failure is not None:
        await over(connection.lifecycle.failure)
    if scope.cancelled_caught:
        reason = f"the peer did not answer the SETUP within {timeout:g} s"
        last_words = encode_error(0, ErrorCode.CONNECTION_ERROR, reason.encode())
        connection.lifecycle.end(ConnectionLost(reason), last_words=last_words)
        raise ConnectFailed(
            f"{reason}: it is not an RSocket server, or it does not answer KEEPALIVE; then set "
            "confirm_setup=False (--no-confirm-setup)"
        )
