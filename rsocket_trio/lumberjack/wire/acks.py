"""ACK frames at the side that sends events: `AckReader`, `AckProgress`."""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import MalformedFrame, RemoteProtocolError, fresh_copy

from .frames import ACK, SHORT
from .sequences import events_covered

__all__ = ["AckProgress", "AckReader"]

_KEEPALIVE: Final = b"2A\0\0\0\0"

_STRANGER: Final = (
    "; nothing valid came before: see whether this is the address of a Lumberjack server, and"
    " whether it needs TLS (lumberjacks://)"
)


class AckReader:
    """Turns the bytes that a server sends into sequence numbers.

    A server may send only ACK frames of the version that the client speaks. There is one exception:
    Logstash sends keep-alives of version 2 to clients of version 1, so these are accepted.

    Args:
        version: The version of the batches that are sent, 1 or 2.
    """

    __slots__ = ("_head", "_partial", "_refusal", "_valid")

    def __init__(self, version: int = 2) -> None:
        self._head: Final = bytes((0x30 + version, ACK))
        self._partial = b""
        self._refusal: RemoteProtocolError | None = None
        self._valid = False

    @property
    def refused(self) -> bool:
        """Whether the peer broke the protocol, so that every further `feed` raises."""
        return self._refusal is not None

    @property
    def partial(self) -> bool:
        """Whether a part of a frame has arrived, which an end of the connection cuts off."""
        return bool(self._partial)

    def feed(self, data: bytes | bytearray) -> list[int]:
        """Take bytes of the connection.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            The sequence numbers of the ACK frames that are complete now, in order. 0 is a
            keep-alive, or the answer to a window of 0.

        Raises:
            MalformedFrame: The bytes are no ACK frame of this version. The numbers before it are
                returned first. Then `refused` is true, and the next call raises, even without
                bytes, and every later call too.
        """
        if self._refusal is not None:
            raise fresh_copy(self._refusal)
        data = self._partial + data
        numbers: list[int] = []
        end = len(data)
        for position in range(0, end, SHORT.size):
            frame = bytes(data[position : position + SHORT.size])
            head = self._head
            if not frame.startswith(head[: len(frame)]) and frame != _KEEPALIVE[: len(frame)]:
                self._partial = b""
                self._refusal = MalformedFrame(
                    f"the server sent {frame.hex(' ')} where a frame {head.decode()} is due"
                    f"{'' if self._valid else _STRANGER}"
                )
                if not numbers:
                    raise fresh_copy(self._refusal)
                return numbers
            if len(frame) == SHORT.size:
                numbers.append(int.from_bytes(frame[2:]))
                self._valid = True
        self._partial = bytes(data[end - end % SHORT.size :])
        return numbers


class AckProgress:
    """How many events of one batch that was sent are acknowledged.

    After the connection is lost, send only the events behind the first ``acked`` again: the server
    has taken the responsibility for the others.

    Args:
        count: The number of events in the batch.
        first_sequence: The sequence number of the first one.

    Attributes:
        count: The number of events in the batch.
        acked: How many of them are acknowledged, from the first on. It never goes back.
    """

    __slots__ = ("_answered", "_first", "acked", "count")

    def __init__(self, count: int, first_sequence: int = 1) -> None:
        self.count: Final = count
        self.acked = 0
        self._first: Final = first_sequence
        self._answered = False

    @property
    def done(self) -> bool:
        """Whether the whole batch is acknowledged. A batch without events needs one ACK 0."""
        return self._answered if self.count == 0 else self.acked == self.count

    def acknowledge(self, sequence: int) -> int:
        """Take the number of an ACK, and return how many further events it acknowledges.

        Args:
            sequence: As `AckReader.feed` returns it. 0 is a keep-alive and acknowledges nothing;
                only a batch without events is answered with it.

        Raises:
            RemoteProtocolError: No event of the batch has this sequence number.
        """
        if sequence == 0:
            self._answered = True
            return 0
        covered = events_covered(self._first, self.count, sequence)
        further = max(covered - self.acked, 0)
        self.acked += further
        return further
