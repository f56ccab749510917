"""One of the streams of a trunk: `MultiplexedStream`."""

from __future__ import annotations

from collections.abc import Callable

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ...sealed import Sealed
from ...sockets.failures import describe_failure
from ..wire.trunk import PieceLengths, encode_piece
from .branch import Branch
from .writer import Piece, PieceWriter

__all__ = ["MultiplexedStream"]


class MultiplexedStream(trio.abc.Stream, metaclass=Sealed, given="Trunk.open gives one"):
    """One of the streams of a `Trunk`.

    Its end cannot be sent, because the format has no word for it: the peer sees that it is closed
    when the whole trunk is. One task may send and one may receive.

    Attributes:
        connection: The number of the stream in its trunk.
        transport_stream: The stream that carries the trunk, as `trio.SSLStream` calls its own. It
            shows whether the peer is gone altogether. Neither read nor write it.
    """

    def __init__(
        self,
        branch: Branch,
        writer: PieceWriter,
        transport_stream: trio.abc.Stream,
        note_closed: Callable[[], object],
    ) -> None:
        self.transport_stream = transport_stream
        self.connection = branch.connection
        self._branch = branch
        self._writer = writer
        self._note_closed = note_closed
        self._lengths = PieceLengths()
        self._sends = self._receives = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all the bytes. Large data is cut, so that the streams of the trunk take turns.

        Raises:
            trio.BrokenResourceError: The trunk is broken, or this stream was not read for too long.
            trio.BusyResourceError: Another task sends.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: any part of the data may have been sent, and the trunk is still whole.
        """
        self._begin_sending()
        try:
            await checkpoint()
            self._branch.check_sending()
            with memoryview(data) as view:
                position = 0
                while position < len(view):
                    with view[position : position + self._lengths.next()] as part:
                        await self._send(part)
                        position += len(part)
        finally:
            self._sends = False

    async def _send(self, part: memoryview) -> None:
        self._branch.check_sending()
        self._branch.piece = piece = Piece(encode_piece(self.connection, part))
        self._writer.hand_over(piece)
        try:
            await piece.over.wait()
        finally:
            self._branch.piece = None
            self._writer.withdraw(piece)
            if piece.begun:
                self._lengths.sent(part)
        if piece.error is not None:
            await checkpoint_if_cancelled()
            raise piece.error

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the trunk writes nothing.

        Raises:
            trio.BrokenResourceError: As for `send_all`.
            trio.BusyResourceError: As for `send_all`.
            trio.ClosedResourceError: As for `send_all`.

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        self._begin_sending()
        try:
            await checkpoint()
            self._branch.check_sending()
            while self._writer.writing:
                await self._writer.wait_idle_or_changed()
                await checkpoint_if_cancelled()
                self._branch.check_sending()
        finally:
            self._sends = False

    def _begin_sending(self) -> None:
        self._branch.home.check("this stream")
        if self._sends:
            raise trio.BusyResourceError("another task sends on this stream")
        self._sends = True

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return those that have arrived; empty at the end of the trunk.

        Raises:
            trio.BrokenResourceError: The trunk broke, or ended inside a piece; or its peer broke
                the rules, and ``__cause__`` is a `RemoteProtocolError`; or this stream was not
                read for too long. Except for the last, bytes that came before are returned first.
            trio.BusyResourceError: Another task receives.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        self._branch.home.check("this stream")
        if max_bytes is not None and not isinstance(max_bytes, int):
            raise TypeError(f"max_bytes must be an int, not {type(max_bytes).__name__}")
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        if self._receives:
            raise trio.BusyResourceError("another task receives on this stream")
        self._receives = True
        branch = self._branch
        try:
            await checkpoint()
            while not branch.unread:
                branch.check_open()
                if branch.ended:
                    return self._end(branch.end)
                await branch.wait_for_change()
                if not branch.unread:  # the end is still here for the next call
                    await checkpoint_if_cancelled()
            return branch.take(max_bytes or len(branch.unread))
        finally:
            self._receives = False

    def _end(self, error: Exception | None) -> bytes:
        if error is None:
            return b""
        raise trio.BrokenResourceError(describe_failure(error)) from error

    async def aclose(self) -> None:
        """Close this stream; the others go on. The trunk is closed with the last of them.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        if not self._branch.closed:
            self._branch.home.check("this stream")
            self._branch.close()
            self._note_closed()
        await checkpoint()
