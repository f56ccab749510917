"""TLS over a socket, after `ssl.SSLObject`: `TLSStream`.

`trio.SSLStream` drops what OpenSSL has to say when it fails, so the peer of a failed handshake
never learns why (RFC 8446, section 6.2: an alert). Here everything that OpenSSL writes leaves.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final, NoReturn

import trio
from trio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

from .direct import DirectStream
from .failures import describe_failure

__all__ = ["TLSStream"]

_RECEIVE_SIZE: Final = 64 * 2**10
"""The most bytes of one read from the socket, and by default of one read from this stream."""

_RECORD_SIZE: Final = 16 * 2**10
"""The most bytes of one record (RFC 8446, section 5.1)."""

_RECORDS_AT_ONCE: Final = 256
"""The most records that one read returns. One read from the socket may bring three thousand, of an
octet each, and decrypting one takes a microsecond."""

_ALERT_TIME: Final = 1.0
"""How long an alert may take to leave, in seconds. It waits only if the peer does not read."""


class TLSStream(trio.abc.HalfCloseableStream):
    """Encrypts a stream, which it owns. Begin with `do_handshake`.

    Many implementations close without a close_notify, and that is the end of the stream here. It is
    safe: the length of a frame shows an end inside the frame. Ours leaves, where the socket has
    room for it.

    One task may send and one may receive; this is not checked.

    Args:
        transport_stream: Carries the encrypted bytes.
        context: The certificate, and whom to trust.
        server_hostname: At a client: the name that the server's certificate must have.
        server_side: Whether we are the server.

    Attributes:
        transport_stream: See above. Neither read nor write it.
        ssl_object: What OpenSSL knows of the connection. Neither read nor write it.
    """

    def __init__(
        self,
        transport_stream: trio.abc.HalfCloseableStream,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        server_side: bool = False,
    ) -> None:
        self.transport_stream = transport_stream
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.ssl_object = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_side,
            server_hostname=server_hostname,
        )
        self._write_lock = trio.Lock()
        self._reads = False  # Whether a task waits for bytes of the socket.
        self._fed = trio.lowlevel.ParkingLot()  # Others that wait for them.
        self._ready = bytearray()  # Decrypted before somebody asked for it.
        self._held = 0  # Bytes of `_outgoing` that leave with the first data.
        self._can_send = False
        self._cut_off = False  # A part of a record may have left.
        self._ended = False  # The peer sends nothing more.
        self._failure: ssl.SSLError | None = None
        self._closed = False

    async def do_handshake(self) -> None:
        """Finish the handshake, or tell the peer why it failed.

        Raises:
            trio.BrokenResourceError: It failed; ``__cause__`` may be an `ssl.SSLError`.

        Checkpoint: always.
        If cancelled: you can only close the stream then.
        """
        try:
            while not self._shakes_hands():
                await self._flush()
                await self._feed()
                if self._ended:
                    raise trio.BrokenResourceError(
                        "the other end closed the connection during the TLS handshake: it may "
                        "not use TLS"
                    )
        except ssl.SSLError as error:
            await self._fail(error)
        if self.ssl_object.server_side and self.ssl_object.version() == "TLSv1.3":
            # Tickets: a client that never reads would reset the connection when it closes.
            self._held = self._outgoing.pending
        else:
            await self._flush()
        self._can_send = True

    def _shakes_hands(self) -> bool:
        try:
            self.ssl_object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt all the bytes, and send them.

        Raises:
            trio.BrokenResourceError: The peer is gone, or TLS failed before.
            trio.ClosedResourceError: This stream was closed here, or its end was sent.

        Checkpoint: a cancellation point always; other tasks run if the kernel's buffer is full.
        If cancelled: any part of the data may have been sent; you can only close the stream then.
        """
        await checkpoint_if_cancelled()
        with memoryview(data) as view:
            sent = 0
            while sent < len(view):
                self._check_sending()
                try:
                    with view[sent:] as rest:
                        sent += self.ssl_object.write(rest)
                except ssl.SSLWantReadError:  # a new handshake within TLS 1.2
                    await self._flush()
                    await self._feed()
                    if self._ended:
                        raise trio.BrokenResourceError("the peer ended its stream") from None
                except ssl.SSLError as error:
                    await self._fail(error)
        await self._flush()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the kernel has room.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here, or its end was sent.

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        self._check_sending()
        async with self._write_lock:
            await self.transport_stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return those that have arrived; empty at the end of the stream.

        Raises:
            trio.BrokenResourceError: The connection broke, or the peer sent an alert, or what is
                no TLS; the text says which, and ``__cause__`` may be an `ssl.SSLError`. Bytes that
                came before are returned first.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        await checkpoint_if_cancelled()
        waited = False
        while True:
            if self._closed:
                raise trio.ClosedResourceError("this stream was closed")
            self._decrypt(max_bytes or _RECEIVE_SIZE)
            if self._answers_wait():
                await self._flush()
            if self._ready:
                break
            if self._failure is not None:
                await self._fail(self._failure)
            if self._ended:
                break
            await self._feed()
            waited = True
        if not waited:
            await cancel_shielded_checkpoint()
        ready = self._ready
        if max_bytes is None or len(ready) <= max_bytes:
            self._ready = bytearray()
            return bytes(ready)
        data = bytes(ready[:max_bytes])
        del ready[:max_bytes]
        return data

    def _answers_wait(self) -> bool:
        """Whether TLS itself has answers, such as in a new handshake, and nobody sends."""
        return (
            self._outgoing.pending > self._held
            and self._failure is None
            and not self._write_lock.locked()
        )

    def _decrypt(self, enough: int) -> None:
        """Decrypt what has come, until so many bytes are ready."""
        ready = self._ready
        if self._failure is not None:
            return
        try:
            for _ in range(_RECORDS_AT_ONCE):
                if len(ready) >= enough:
                    return
                data = self.ssl_object.read(min(enough - len(ready), _RECORD_SIZE))
                if not data:
                    self._ended = True
                    return
                ready += data
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._ended = True
        except ssl.SSLError as error:
            self._failure = error

    async def send_eof(self) -> None:
        """Send the end of the stream; receiving goes on.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: the end may or may not have been sent.
        """
        if self._closed:
            raise trio.ClosedResourceError("this stream was closed")
        if self._can_send:
            # The close_notify drops a record that waits: decrypt them all.
            before = -1
            while len(self._ready) > before:
                before = len(self._ready)
                self._decrypt(before + _RECEIVE_SIZE)
            self._notify_close()
            await self._flush()
        await self.transport_stream.send_eof()

    def _notify_close(self) -> None:
        """Write a close_notify (RFC 8446, section 6.1)."""
        self._can_send = False
        with suppress(ssl.SSLError):  # The peer's has not come yet.
            self.ssl_object.unwrap()

    async def aclose(self) -> None:
        """Close the stream.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        self._end_tls()
        await self.transport_stream.aclose()

    def detach(self) -> None:
        """Send the end of TLS, and use the socket no more, but leave it open."""
        self._end_tls()
        if isinstance(self.transport_stream, DirectStream):
            self.transport_stream.detach()

    def _end_tls(self) -> None:
        """Send a close_notify, if the socket has room for it now, and be closed."""
        direct = self.transport_stream if isinstance(self.transport_stream, DirectStream) else None
        if self._can_send and direct is not None and not self._write_lock.locked():
            self._notify_close()
            direct.send_nowait(self._outgoing.read())
        self._closed = True
        self._can_send = False
        self._ready.clear()

    def _check_sending(self) -> None:
        if self._can_send:
            return
        if self._closed:
            raise trio.ClosedResourceError("this stream was closed")
        if self._failure is not None:
            raise self._broken(self._failure)
        if self._cut_off:
            raise trio.BrokenResourceError("a write of this stream was cut off")
        raise trio.ClosedResourceError("the end of this stream was sent")

    async def _feed(self) -> None:
        """Give OpenSSL bytes of the socket; or wait until another task has done it."""
        if self._reads:
            await self._fed.park()
            return
        self._reads = True
        try:
            data = await self.transport_stream.receive_some(_RECEIVE_SIZE)
            if data:
                self._incoming.write(data)
            else:
                self._ended = True
        finally:
            self._reads = False
            self._fed.unpark_all()

    async def _flush(self) -> None:
        """Send what OpenSSL has written, in its order."""
        try:
            self._write_lock.acquire_nowait()
        except trio.WouldBlock:
            await self._write_lock.acquire()
        try:
            self._held = 0
            while data := self._outgoing.read():
                await self.transport_stream.send_all(data)
        except BaseException:  # cancelled too: behind a part of a record nothing may be sent
            self._can_send = False
            self._cut_off = True
            raise
        finally:
            self._write_lock.release()

    async def _fail(self, error: ssl.SSLError) -> NoReturn:
        """Send the alert, if it is for us to send one; then raise the first failure."""
        if self._failure is None:  # Behind it, OpenSSL names the end of all and no reason.
            self._failure = error
        with (
            trio.move_on_after(_ALERT_TIME),
            suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            await self._flush()
        self._can_send = False
        raise self._broken(self._failure)

    def _broken(self, error: ssl.SSLError) -> trio.BrokenResourceError:
        broken = trio.BrokenResourceError(describe_failure(error))
        broken.__cause__ = error
        return broken
