"""Messages from a stream of bytes: `MessageDecoder`."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final, NoReturn

from ..limits import RsioLimits
from .checks import Checks
from .messages import (
    FIRST_EXTENSION_TYPE,
    VERSION,
    Cancel,
    ClientHello,
    Extension,
    Goodbye,
    Message,
    MessageType,
    OnComplete,
    OnError,
    OnNext,
    OnNextLastPart,
    OnNextPacked,
    OnNextPart,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from .runs import read_fixed_run, read_run
from .varint import read_varint
from .violations import Handling, ProtocolViolation, ViolationCode

__all__ = ["MessageDecoder"]

_Make = Callable[[bytes], Message]


class _NeedMore(Exception):
    """The message is not whole. It leaves its parser by this exception.

    Each is a new one: an exception that is raised again keeps the frames of every time before.
    """


_ON_NEXT: Final = int(MessageType.ON_NEXT)


class MessageDecoder:
    """Reads messages from a stream of bytes, in whatever pieces it arrives.

    `feed` takes bytes, and `next_message` returns one message after the other. The time is linear
    in the bytes fed, however they are cut, but for the short fields before an element or a text.
    It keeps the bytes that were fed last, and at most one unfinished field, whose length was
    checked before. The elements of a packed message are returned as they arrive.

    Args:
        limits: The longest fields.
        element_size_of: Returns the size of the elements of a stream by its id, in bytes; 0 if
            they have different sizes. It is asked at each onNext, so it has to know the
            `Subscribed` messages that were returned before. It may raise `ProtocolViolation`.
        checks: What else is asked while a message arrives. ``element_size_of`` is then not used.
    """

    __slots__ = (
        "_at",
        "_block_left",
        "_block_size",
        "_block_subscriber",
        "_body",
        "_carry",
        "_checks",
        "_data",
        "_limits",
        "_make",
        "_missing",
        "_violation",
    )

    def __init__(
        self,
        limits: RsioLimits,
        element_size_of: Callable[[int], int] | None = None,
        *,
        checks: Checks | None = None,
    ) -> None:
        self._limits: Final = limits
        self._checks: Final = checks or Checks(element_size_of or _variable)
        self._data = b""
        self._at = 0
        # A body whose length is known, and of which octets are missing.
        self._body = bytearray()
        self._missing = 0
        self._make: _Make = _no_body
        # The elements of a packed message of which octets are missing.
        self._block_subscriber = 0
        self._block_size = 0
        self._block_left = 0
        self._carry = b""
        self._violation: ProtocolViolation | None = None

    @property
    def unread(self) -> int:
        """How many of the bytes that were fed last are not read."""
        return len(self._data) - self._at

    @property
    def inside(self) -> bool:
        """Whether the bytes that are read end inside of a message."""
        return bool(self._missing or self._block_left)

    @property
    def pending(self) -> bool:
        """Whether a part of a message has arrived; an end now is not clean."""
        return bool(self.unread or self.inside)

    def feed(self, data: bytes | bytearray) -> None:
        """Take bytes of the stream. After a violation they are dropped."""
        if self._violation is not None:
            return
        if self._at < len(self._data):
            self._data = self._data[self._at :] + data
        else:
            self._data = bytes(data)
        self._at = 0

    def next_message(self) -> Message | None:
        """Return the next message.

        Returns:
            A message, or ``None`` if more bytes are needed.

        Raises:
            ProtocolViolation: The peer broke a rule. The messages before it were returned; every
                further call raises it again. It is raised at the earliest octet by which it can be
                known.
        """
        if self._violation is not None:
            raise self._violation
        try:
            if self._missing:
                return self._rest_of_body()
            if self._block_left:
                return self._rest_of_block()
            return self._message()
        except _NeedMore:
            return None
        except ProtocolViolation as violation:
            self._violation = violation
            self._data = b""
            self._at = self._missing = self._block_left = 0
            raise

    def next_elements(self, at_most: int) -> tuple[int, list[bytes]] | None:
        """Return the elements of the onNext messages that come next, all of one stream.

        It is a fast path for what `next_message` returns one by one.

        Args:
            at_most: How many elements it returns, at most. The demand of the stream is another
                limit.

        Returns:
            The id of the stream and at least one element. ``None``: ask `next_message`.
        """
        data, at = self._data, self._at
        if self._missing or self._block_left or len(data) - at < 3 or data[at] != _ON_NEXT:
            return None
        subscriber = data[at + 1]
        skip = 2
        if subscriber > 127:
            high = data[at + 2]
            if high > 127 or high == 0:
                return None
            subscriber += (high << 7) - 128
            skip = 3
        checks = self._checks
        at_most = min(at_most, checks.credit(subscriber))
        if at_most < 1:
            return None
        prefix = data[at : at + skip]
        size = checks.element_size_of(subscriber)
        if size:
            elements, self._at = read_fixed_run(data, at, prefix, at_most, size)
        else:
            longest = self._limits.max_element_size
            elements, self._at = read_run(data, at, prefix, at_most, longest)
        return (subscriber, elements) if elements else None

    def _message(self) -> Message | None:
        data, at = self._data, self._at
        if at == len(data):
            return None
        code = data[at]
        checks = self._checks
        if code not in checks.types:
            checks.refuse_type(code)
        at += 1
        if code >= FIRST_EXTENSION_TYPE:
            size, at = self._size(at, self._limits.max_extension_size, "extension message")
            return self._body_at(at, size, lambda content: Extension(code, content))
        if code < MessageType.SUBSCRIBE:
            return self._of_connection(code, at)
        if code < MessageType.SUBSCRIBED:
            return self._of_subscriber(code, at)
        subscriber, at = self._number(at)
        checks.signal(code, subscriber)
        return self._of_publisher(code, subscriber, at)

    def _of_connection(self, code: int, at: int) -> Message:
        if code == MessageType.GOODBYE:
            size, at = self._size(at, self._limits.max_text_size, "goodbye reason")
            return self._body_at(at, size, lambda text: Goodbye(_lenient(text)))
        version, at = self._number(at)
        if version != VERSION:
            raise ProtocolViolation(ViolationCode.VERSION, str(version), Handling.VERSION_MISMATCH)
        count, at = self._number(at)
        if count > self._limits.max_extensions:
            self._refuse("number of extensions", count, self._limits.max_extensions)
        extensions = []
        for _ in range(count):
            extension, at = self._number(at)
            extensions.append(extension)
        self._at = at
        kind = ClientHello if code == MessageType.CLIENT_HELLO else ServerHello
        return kind(version, tuple(extensions))

    def _of_subscriber(self, code: int, at: int) -> Message:
        publisher = ""
        if code == MessageType.SUBSCRIBE:
            size, at = self._size(at, self._limits.max_publisher_size, "publisher name")
            octets = self._data[at : at + size]
            at += size
            publisher = _strict(octets, whole=len(octets) == size)
        subscriber, at = self._number(at)
        if code == MessageType.CANCEL:
            self._at = at
            return Cancel(subscriber)
        if code == MessageType.SUBSCRIBE:
            self._checks.subscribe(subscriber)
        demand, at = self._number(at)
        self._at = at
        if code == MessageType.REQUEST:
            return Request(subscriber, demand)
        return Subscribe(publisher, subscriber, demand)

    def _of_publisher(self, code: int, subscriber: int, at: int) -> Message | None:
        limits = self._limits
        if code == MessageType.ON_NEXT:
            size = self._checks.element_size_of(subscriber)
            if not size:
                size, at = self._size(at, limits.max_element_size, "element")
            return self._body_at(at, size, lambda element: OnNext(subscriber, element))
        if code == MessageType.ON_NEXT_PACKED:
            return self._block_at(subscriber, at)
        if code == MessageType.ON_COMPLETE:
            self._at = at
            return OnComplete(subscriber)
        if code == MessageType.ON_ERROR:
            size, at = self._size(at, limits.max_text_size, "error text")
            return self._body_at(at, size, lambda text: OnError(subscriber, _lenient(text)))
        if code == MessageType.SUBSCRIBED:
            size, self._at = self._size(at, limits.max_element_size, "elementSize")
            return Subscribed(subscriber, size)
        element_id, at = self._number(at)
        self._checks.part(code, subscriber, element_id)
        size, at = self._size(at, limits.max_part_size, "part")
        self._checks.part_size(code, subscriber, element_id, size)
        kind = OnNextPart if code == MessageType.ON_NEXT_PART else OnNextLastPart
        return self._body_at(at, size, lambda data: kind(subscriber, element_id, data))

    def _block_at(self, subscriber: int, at: int) -> Message | None:
        size = self._checks.element_size_of(subscriber)
        if not size:
            raise ProtocolViolation(
                ViolationCode.PACKED_VARIABLE,
                f"elements of stream {subscriber}, which have different sizes",
            )
        count, at = self._number(at)
        if not count:
            raise ProtocolViolation(ViolationCode.PACKED_EMPTY, f"on stream {subscriber}")
        if count * size > self._limits.max_element_size:
            self._refuse("packed block", count * size, self._limits.max_element_size)
        self._checks.packed(subscriber, count)
        self._at = at
        self._block_subscriber, self._block_size, self._block_left = subscriber, size, count * size
        self._carry = b""
        return self._rest_of_block()

    def _rest_of_block(self) -> Message | None:
        """Return the whole elements of the packed message that have arrived."""
        data, at, size = self._data, self._at, self._block_size
        if size > len(data):  # An element that comes in many pieces is joined once.
            return self._large_packed_element()
        carry = self._carry
        take = min(len(carry) + len(data) - at, self._block_left)
        take -= take % size
        if not take:
            self._carry = carry + data[at:]
            self._at = len(data)
            return None
        stop = at + take - len(carry)
        elements = carry + data[at:stop] if carry else data[at:stop]
        self._block_left -= take
        self._at = stop
        self._carry = b""
        return OnNextPacked(self._block_subscriber, take // size, elements, size)

    def _large_packed_element(self) -> Message | None:
        """Collect one element of a packed message as a body of its own."""
        subscriber, size = self._block_subscriber, self._block_size
        self._block_left -= size
        self._body = bytearray(self._carry)
        self._carry = b""
        self._missing = size - len(self._body)
        self._make = lambda element: OnNextPacked(subscriber, 1, element, size)
        return self._rest_of_body()

    def _body_at(self, at: int, size: int, make: _Make) -> Message:
        data = self._data
        stop = at + size
        if stop <= len(data):
            self._at = stop
            return make(data[at:stop])
        self._body = bytearray(memoryview(data)[at:])
        self._missing = stop - len(data)
        self._make = make
        self._at = len(data)
        raise _NeedMore

    def _rest_of_body(self) -> Message | None:
        data, at = self._data, self._at
        stop = at + self._missing
        if stop > len(data):
            self._body += memoryview(data)[at:]
            self._missing = stop - len(data)
            self._at = len(data)
            return None
        self._body += memoryview(data)[at:stop]
        self._missing = 0
        self._at = stop
        body, self._body = bytes(self._body), bytearray()
        make, self._make = self._make, _no_body
        return make(body)

    def _number(self, at: int) -> tuple[int, int]:
        data = self._data
        if at < len(data) and data[at] < 128:
            return data[at], at + 1
        found = read_varint(data, at)
        if found is None:
            raise _NeedMore
        return found

    def _size(self, at: int, limit: int, name: str) -> tuple[int, int]:
        size, at = self._number(at)
        if size > limit:
            self._refuse(name, size, limit)
        return size, at

    def _refuse(self, name: str, size: int, limit: int) -> NoReturn:
        raise ProtocolViolation(ViolationCode.LIMIT, f"{name} {size}, at most {limit}")


def _variable(_: int) -> int:
    return 0


def _no_body(_: bytes) -> Message:
    raise AssertionError("no body is expected")


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _strict(octets: bytes, *, whole: bool) -> str:
    """Return the name of a publisher. Of a part of one, check what can be known."""
    try:
        return codecs.utf_8_decode(octets, "strict", whole)[0]
    except UnicodeDecodeError as error:
        raise ProtocolViolation(
            ViolationCode.UTF8, f"publisher name is wrong at octet {error.start}"
        ) from None
