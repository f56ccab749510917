"""A stream that carries several streams: `multiplexed`, `Trunk`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio
from trio.lowlevel import checkpoint

from ...entrance import Home
from ...interactions.block import Block
from ...log_policy import logger
from ...sealed import Sealed, make
from ...sockets.byte_stream import ByteStream
from ...sockets.dial import dial
from ...uri import Uri
from ..addresses import ttrpc_uri
from ..carrier import OpenStream, as_byte_stream
from ..wire.trunk import TrunkDecoder
from .branch import Branch
from .stream import MultiplexedStream
from .writer import PieceWriter

__all__ = [
    "MAX_UNREAD",
    "PATIENCE",
    "PLUGIN_SERVICE",
    "RUNTIME_SERVICE",
    "Trunk",
    "multiplexed",
]

PLUGIN_SERVICE: Final = 1
"""The connection of NRI on which the plugin is the server."""

RUNTIME_SERVICE: Final = 2
"""The connection of NRI on which the runtime is the server."""

MAX_UNREAD: Final = 256 * 2**10
"""The bytes that a stream holds for its reader before the trunk waits for it. One read of the trunk
may bring `_READ_SIZE` more. Readers of ttrpc take what has come, so this is for short delays."""

PATIENCE: Final = 10.0
"""How long the trunk waits for the reader of a full stream, in seconds."""

_READ_SIZE: Final = 64 * 2**10
_DIAL_TIMEOUT: Final = 10.0


@asynccontextmanager
async def multiplexed(
    target: str | Uri | OpenStream,
    *,
    max_unread: int = MAX_UNREAD,
    patience: float = PATIENCE,
) -> AsyncIterator[Trunk]:
    """Run several streams over one.

    ``async with multiplexed("/var/run/nri/nri.sock") as trunk:``
    ``    plugin, runtime = trunk.open(PLUGIN_SERVICE), trunk.open(RUNTIME_SERVICE)``

    Open the streams before anything is awaited in the block: what arrives for a connection that is
    not open is dropped, as the other implementation does. The trunk reads from the first `open` on.

    Args:
        target: An address of ttrpc, which is dialled; or an open stream, a connected socket or the
            number of its descriptor. It is closed with the block.
        max_unread: The bytes that a stream holds for its reader before the trunk waits for it.
            256 KiB.
        patience: How long the trunk waits then, in seconds, before it ends this stream alone;
            ``math.inf`` waits without end. 10 s.

    Yields:
        The trunk.

    Raises:
        ConnectFailed: No connection could be made to the address.
        OSError: The target is a socket that is not connected.
        ValueError: The address is wrong, or a limit is not positive.
        TypeError: ``target`` is of a wrong type.

    Checkpoint: entering and leaving, always.
    If cancelled: the streams and the trunk are closed.
    """
    if max_unread < 1 or not patience > 0:
        raise ValueError("max_unread and patience must be greater than 0")
    carrier = await _carrier(target)
    writer = PieceWriter(carrier.stream)
    trunk = make(Trunk, carrier, writer, max_unread, patience)
    block = Block()
    with block.around():
        async with carrier:
            await checkpoint()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trunk._read)  # noqa: SLF001 - same module; not for users
                nursery.start_soon(writer.run)
                try:
                    with block.body():
                        yield trunk
                finally:
                    trunk._close()  # noqa: SLF001 - same module; not for users
                    nursery.cancel_scope.cancel(reason="the block of multiplexed has ended")


async def _carrier(target: str | Uri | OpenStream) -> ByteStream:
    if isinstance(target, str | Uri):
        return await dial(ttrpc_uri(target), _unchanged, handshake_timeout=_DIAL_TIMEOUT)
    return as_byte_stream(target)


async def _unchanged(stream: ByteStream) -> ByteStream:
    return stream


class Trunk(metaclass=Sealed, given="multiplexed gives one"):
    """A stream that carries several streams.

    When all streams that were opened are closed, the trunk closes.

    Attributes:
        info: Facts about the stream that carries the others.
        dropped: The bytes that have arrived for connections that were never opened.
    """

    def __init__(
        self, carrier: ByteStream, writer: PieceWriter, max_unread: int, patience: float
    ) -> None:
        self.info = carrier.info
        self.dropped = 0
        self._stream = carrier.stream
        self._home = Home()
        self._writer = writer
        self._max_unread = max_unread
        self._patience = patience
        self._branches: dict[int, Branch] = {}
        self._opened = trio.Event()
        self._closed = False
        self._ended = False
        self._end: Exception | None = None

    def open(self, connection: int) -> MultiplexedStream:
        """Open a stream. The peer is not told: it opens the same number.

        A number can be opened once: what the peer still sends on a closed stream must not be taken
        for the beginning of a new one.

        Args:
            connection: From 1 to 2**32 - 1, e.g. `PLUGIN_SERVICE`; 0 is reserved.

        Raises:
            ValueError: The number is reserved, or it was opened before.
            trio.ClosedResourceError: The trunk was closed.
            RuntimeError: The caller is in another thread than the trunk. This holds for the methods
                of its streams too.
        """
        self._home.check("this trunk")
        if self._closed:
            raise trio.ClosedResourceError("this trunk is closed")
        if not 1 <= connection < 2**32:
            raise ValueError(f"connection must be from 1 to {2**32 - 1}, not {connection}")
        if connection in self._branches:
            raise ValueError(f"the connection {connection} of this trunk was opened before")
        branch = Branch(connection, self._writer, self._max_unread)
        if self._ended:
            branch.set_end(self._end)
        self._branches[connection] = branch
        self._opened.set()
        return make(MultiplexedStream, branch, self._writer, self._stream, self._note_closed)

    async def _read(self) -> None:
        """Hand bytes to the streams until the end of the trunk. It raises no errors."""
        await self._opened.wait()
        decoder = TrunkDecoder()
        try:
            while data := await self._stream.receive_some(_READ_SIZE):
                for connection, piece in decoder.feed(bytes(data)):
                    await self._deliver(connection, piece)
                if decoder.refusal is not None:
                    break
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._end = error
        else:
            self._end = decoder.refusal
            if decoder.pending and self._end is None:
                self._end = trio.BrokenResourceError("the trunk ended inside a piece")
        self._ended = True
        for branch in self._branches.values():
            branch.set_end(self._end)
        if decoder.refusal is not None:
            logger.warning("a trunk ends, as its peer broke the rules: %s", decoder.refusal)
            self._writer.stop(decoder.refusal)
            await trio.aclose_forcefully(self._stream)

    async def _deliver(self, connection: int, piece: bytes) -> None:
        branch = self._branches.get(connection)
        if branch is None:
            if not self.dropped:  # One line is enough, however many there are.
                logger.warning("a trunk has bytes for connection %d, which is not open", connection)
            self.dropped += len(piece)
            return
        if branch.full and not await branch.wait_for_room(self._patience):
            why = (
                f"connection {connection} of a trunk has ended, as its bytes were not read for "
                f"{self._patience:g} s"
            )
            logger.warning("%s", why)
            branch.fail(why)
        branch.put(piece)

    def _note_closed(self) -> None:
        if all(branch.closed for branch in self._branches.values()):
            self._closed = True
            self._writer.close()

    def _close(self) -> None:
        self._closed = True
        for branch in self._branches.values():
            branch.close()
