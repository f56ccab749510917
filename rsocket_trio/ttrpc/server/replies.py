"""Send the frames of calls: `Replies`, and `StreamOutbound` for the messages of one stream."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ...account import ITEM_COST
from ...log_policy import logger
from ..codec import plain_bytes
from ..errors import ResourceExhausted, StatusCode
from ..wire.envelopes import RESPONSE_PAYLOAD, Response, Status, encode_ok, encode_response
from ..wire.frames import HEADER, NO_DATA, REMOTE_CLOSED, MessageType, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...account import Account
    from ...connection.outbox import Outbox
    from ...connection.room import Room
    from .calls import ServerCall

__all__ = ["Replies", "StreamOutbound", "too_long"]

_RESPONSE: Final = MessageType.RESPONSE.value
_DATA: Final = MessageType.DATA.value
_LAST: Final = REMOTE_CLOSED | NO_DATA
_pack: Final = HEADER.pack
_pack_short: Final = Struct(f"{HEADER.format}BB").pack  # with the tag and a length of one byte
_pack_long: Final = Struct(f"{HEADER.format}BBB").pack  # with the tag and a length of two bytes

_LONGEST_TEXT: Final = 16 * 2**10
"""The longest text of a status, in characters: it leaves without waiting for room."""

_LARGEST_DETAILS: Final = 64 * 2**10
"""The most bytes of a status; with more, its details are left out."""


def too_long(size: int, limit: int) -> ResourceExhausted:
    """Return the error for a message that is longer than a frame may be."""
    return ResourceExhausted(f"message length {size} exceed maximum message size of {limit}")


class Replies:
    """Sends the frames of a server's calls.

    Attributes:
        outbox: The queue of frames.
        room: The room for answers and messages.
        answers: The bytes of those that wait for it, each as a whole.
        max_size: The longest body of a frame, in bytes.
    """

    __slots__ = ("answers", "max_size", "outbox", "room")

    def __init__(self, outbox: Outbox, answers: Account, max_size: int) -> None:
        self.outbox = outbox
        self.answers = answers
        self.room: Room = outbox.room
        self.max_size = max_size

    def frame(self, stream_id: int, reply: bytes) -> bytes:
        """Return the frame of an answer.

        Raises:
            ResourceExhausted: It is too long for a frame.
            TypeError: The codec has made no bytes of it.
        """
        if type(reply) is not bytes:
            reply = plain_bytes(reply)
        size = len(reply)
        if 0 < size < 1 << 14 and size + 3 <= self.max_size:
            # Nearly every answer is like this: header, tag and length are packed at once.
            if size < 128:
                head = _pack_short(size + 2, stream_id, _RESPONSE, 0, RESPONSE_PAYLOAD, size)
            else:
                high, low = size >> 7, size & 127 | 128
                head = _pack_long(size + 3, stream_id, _RESPONSE, 0, RESPONSE_PAYLOAD, low, high)
            return head + reply
        body = encode_ok(reply)
        if len(body) > self.max_size:
            raise too_long(len(body), self.max_size)
        return _pack(len(body), stream_id, _RESPONSE, 0) + body

    async def send(self, call: ServerCall, frame: bytes) -> None:
        """Queue a frame of a call, when there is room, and if the call is not over by then.

        Raises:
            ResourceExhausted: Too many bytes wait for room already.
            Exception: The error with which the connection ended.

        Checkpoint: only if there is no room.
        If cancelled: nothing is queued.
        """
        size = len(frame)
        answers = self.answers
        if not answers.take_first(size + ITEM_COST):
            logger.info("a call has ended: %s", answers.refusal)
            error = ResourceExhausted("too many answers on this connection wait to be read")
            call.end_with(error)  # and not only raised: the handler might absorb it, and go on
            try:
                raise error
            finally:
                del error  # its traceback holds this frame: a cycle, with the answer
        try:
            await self.outbox.reserve(size)
        finally:
            answers.give_back(size + ITEM_COST)
        if call.live:
            self.outbox.put_reserved(frame)
        else:
            # The call has ended after this task got the room and before it ran. Its last frame is
            # queued already, and nothing may follow.
            self.outbox.release(size)

    def fail(self, stream_id: int, status: Status) -> None:
        """Queue the answer of a call that has failed; it never waits."""
        body = self._body(status)
        self.outbox.put_control(encode_frame(stream_id, MessageType.RESPONSE, 0, body))

    def _body(self, status: Status) -> bytes:
        message = status.message
        if len(message) > _LONGEST_TEXT:
            message = message[: _LONGEST_TEXT - 3] + "..."
        try:
            body = encode_response(Response(Status(status.code, message, status.details)))
            if len(body) <= min(self.max_size, _LARGEST_DETAILS):
                return body
        except Exception:  # details may be anything; a text may have half of a surrogate pair
            logger.exception("a status cannot be sent as it is")
        message = message.encode("utf-8", "replace").decode()
        return encode_response(Response(Status(status.code, message)))

    def refuse(self, stream_id: int, code: StatusCode, text: str) -> None:
        """Queue a refusal."""
        self.fail(stream_id, Status(code, text))

    def complete(self, stream_id: int) -> None:
        """Queue the end of a stream of messages."""
        self.outbox.put_control(encode_frame(stream_id, MessageType.DATA, _LAST, b""))


class StreamOutbound:
    """Sends the messages of one stream; see `rsocket_trio.interactions.sending.Carrier`.

    Attributes:
        room: The room for messages.
        put: Queues a frame; there is room. As an attribute it saves a call.
        max_whole: Not in use: each message is encoded first.
    """

    __slots__ = ("_call", "_encode", "_max_size", "_replies", "max_whole", "put", "room")

    def __init__(self, call: ServerCall, replies: Replies, encode: Callable[[Any], bytes]) -> None:
        self._call = call
        self._replies = replies
        self._encode = encode
        self._max_size = replies.max_size
        self.room = replies.room
        self.put = replies.outbox.put
        self.max_whole = -1  # 0 would let an empty Payload pass, as a frame of RSocket

    def frame_of(self, message: Any) -> bytes | None:
        """Return the frame of a message; ``None`` if there is none."""
        try:
            body = self._encode(message)
            size = len(body)
            if size > self._max_size or type(body) is not bytes:
                return None
            return _pack(size, self._call.stream_id, _DATA, 0) + body
        except Exception:  # `_frame` meets it again, and raises it where the generator waits
            return None

    def _frame(self, stream_id: int, message: Any) -> bytes:
        body = self._encode(message)
        if type(body) is not bytes:
            body = plain_bytes(body)
        if len(body) > self._replies.max_size:
            raise too_long(len(body), self._replies.max_size)
        return _pack(len(body), stream_id, _DATA, 0) + body

    def try_send_payload(self, stream_id: int, flags: int, payload: Any) -> bool:
        """Queue a message at once; return False if `send_payload` has to wait for room."""
        room = self.room
        if room.used >= room.limit:
            return False
        self._replies.outbox.put(self._frame(stream_id, payload))
        return True

    async def send_payload(self, stream_id: int, flags: int, payload: Any) -> None:
        """Queue a message, when there is room.

        Checkpoint: only if there is no room.
        If cancelled: nothing is queued.
        """
        await self._replies.send(self._call, self._frame(stream_id, payload))

    def hold_item(self, stream_id: int, payload: Any) -> int:
        """There is credit at all times, so no item waits for it."""
        return 0

    def let_go_item(self, size: int) -> None:
        """See `hold_item`."""

    def counter_of(self, stream_id: int) -> None:
        """Messages that are not encoded have no size."""
