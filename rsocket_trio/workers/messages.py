"""What a parent and its worker say to each other: `encode` and `decode`.

They talk over a pair of Unix sockets that keep the bounds of messages (SOCK_SEQPACKET, unix(7)),
one pair for each address. So a message is a datagram: a byte that says which one, and its fields.

============  ==================  ==================================================================
from          message             fields
============  ==================  ==================================================================
the parent    `Handed`            u64 number, u8 flags; the descriptor of a connection goes with it
the parent    `Ask`               u8 flags
the parent    `Unready`           none
the worker    `Counts`            u64 taken, u64 ended
the worker    `Returned`          u64 number
the worker    `Session`           16 bytes: the hash of a resume token, u8 flags
the worker    `Answer`            u8 flags twice, a part of a text
the worker    `Closing`           none
============  ==================  ==================================================================

When the parent ends its direction, no more connections come, and the worker stops gracefully. So
it does when the parent is gone.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final, TypeAlias

import attrs

__all__ = [
    "MAX_ANSWER",
    "MAX_SIZE",
    "Answer",
    "Ask",
    "Closing",
    "Counts",
    "Handed",
    "Malformed",
    "Message",
    "Returned",
    "Session",
    "Unready",
    "decode",
    "encode",
    "token_hash",
]

MAX_SIZE: Final = 64 * 1024
"""The bytes of a message."""

MAX_ANSWER: Final = 4 * 1024 * 1024
"""The bytes of an answer, in parts: the metrics of 1000 routes have about as much."""

_HASH: Final = 16
_HANDED: Final = struct.Struct("!QB")
_COUNTS: Final = struct.Struct("!QQ")
_NUMBER: Final = struct.Struct("!Q")
_FLAG: Final = 1


class Malformed(ValueError):
    """The other process has sent what is no message."""


@attrs.frozen
class Handed:
    """A connection.

    Attributes:
        number: Counts the connections of this socket from 1 on.
        excess: It is past the limit of all workers, and is to be refused.
    """

    number: int
    excess: bool = False


@attrs.frozen
class Ask:
    """A question.

    Attributes:
        metrics: For what scrapers read; else for a report, an object of JSON.
    """

    metrics: bool = False


@attrs.frozen
class Unready:
    """Probes are to be told that the worker is not ready: all of them will stop soon."""


@attrs.frozen
class Counts:
    """How many connections of this socket the worker has taken, and how many of them have ended.

    The first one says that the worker listens.
    """

    taken: int
    ended: int


@attrs.frozen
class Returned:
    """A connection that came without its descriptor, as the worker has no room for one more."""

    number: int


@attrs.frozen
class Session:
    """A session for resumption has begun, or is over.

    Attributes:
        digest: The `token_hash` of its token.
        kept: It has begun.
    """

    digest: bytes
    kept: bool


@attrs.frozen
class Answer:
    """What a worker says about itself; a worker that ends says its metrics without being asked.

    Attributes:
        metrics: See `Ask`.
        more: Another part follows, before any other answer.
        part: A part of the text.
    """

    metrics: bool
    more: bool
    part: bytes


@attrs.frozen
class Closing:
    """The worker takes no more connections of this socket."""


Message: TypeAlias = Handed | Ask | Unready | Counts | Returned | Session | Answer | Closing


def token_hash(token: bytes) -> bytes:
    """Return what stands for a resume token: the parent need not know it."""
    return hashlib.blake2b(token, digest_size=_HASH).digest()


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    match message:
        case Handed(number, excess):
            return b"C" + _HANDED.pack(number, excess)
        case Ask(metrics):
            return b"A" + bytes([metrics])
        case Unready():
            return b"U"
        case Counts(taken, ended):
            return b"N" + _COUNTS.pack(taken, ended)
        case Returned(number):
            return b"R" + _NUMBER.pack(number)
        case Session(digest, kept):
            return b"S" + digest + bytes([kept])
        case Answer(metrics, more, part):
            return b"P" + bytes([metrics, more]) + part
        case Closing():
            return b"X"


def decode(data: bytes) -> Message:
    """Read a message.

    Raises:
        Malformed: It is none.
    """
    kind, body = data[:1], data[1:]
    try:
        match kind:
            case b"C":
                number, flags = _HANDED.unpack(body)
                return Handed(number, _flag(flags))
            case b"N":
                taken, ended = _COUNTS.unpack(body)
                if ended > taken:
                    raise Malformed("more connections have ended than were taken")
                return Counts(taken, ended)
            case b"R":
                return Returned(*_NUMBER.unpack(body))
            case b"S" if len(body) == _HASH + 1:
                return Session(body[:_HASH], _flag(body[_HASH]))
            case b"P" if 2 <= len(body) < MAX_SIZE:
                return Answer(_flag(body[0]), _flag(body[1]), body[2:])
            case b"A" if len(body) == 1:
                return Ask(_flag(body[0]))
            case b"U" if not body:
                return Unready()
            case b"X" if not body:
                return Closing()
    except struct.error:
        pass
    raise Malformed(f"{len(data)} bytes that are no message, of the kind {kind!r}")


def _flag(byte: int) -> bool:
    if byte > _FLAG:
        raise Malformed(f"unknown flags {byte}")
    return bool(byte)
