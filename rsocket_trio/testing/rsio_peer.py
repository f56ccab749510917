"""Publishers with known elements, for tests of other implementations of rsio: `app`.

``rsocket-trio serve rsocket_trio.testing.rsio_peer:app --listen rsio://127.0.0.1:0``

``rsocket-trio conformance`` needs these publishers at the other end. Arguments stand in the query
of the name; "n" is a number of elements, without which there is no end:

- ``count?n=3``, ``ticks``: the texts "0", "1", "2"; ``ticks?every=0.1`` waits that many seconds
  before each
- ``forever``: elements "a" without end; ``never``: nothing, no end either; ``empty``: the end
- ``fail?after=2``: the texts "0" and "1", and an error
- ``ints?n=5&size=4``: the numbers from 1 on, big-endian, of a fixed size (that many by default)
- ``big?n=2&bytes=100000``: large elements; octet ``i`` of element ``k`` is ``(k + i) mod 256``
- ``slow?ms=50&n=6&size=4``: as ``ints``, each after that many milliseconds
- ``echo-name?anything``: the whole name, once
- ``reflect?name=X&prefetch=16``: subscribes to the publisher X of the peer, on the same connection,
  and republishes what it gets. It keeps ``prefetch`` elements requested: the subscribe has this
  demand, and each element that goes back is a reason to request one more. With ``take=2&cancel=5``
  it cancels behind the second element, and subscribes again, five times in all
- ``subscribers?of=never``: three numbers as text: the subscriptions to a fixture that are alive,
  all since the start, and those that ended with an error. ``reflect:X`` stands for the
  subscriptions that ``reflect`` makes, nothing for all. ``subscribers`` itself does not count
- ``goodbye?reason=text``: the peer says goodbye
- ``down``: "d", when the publisher ``up`` of the peer has sent an element

A stream ends with its last element, without one more request.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, Final
from urllib.parse import parse_qs

import trio

from ..errors import ConnectFailed, ConnectionClosed
from ..reactive_streams import IterablePublisher, Publisher, Subscriber, never
from ..reactive_streams.emission import Emission
from ..rsio import Connection, HelloRefused, PublisherError, connect, fixed_size
from .rsio_reflection import Reflection
from .rsio_usage import Usage, counted

__all__ = ["Fixtures", "app", "dial_again"]

_MOST_OCTETS: Final = 64 << 20
_ENDLESS: Final = 1 << 62
_DIAL_SECONDS: Final = 5.0


class Fixtures:
    """The publishers by their names, and how often each is used."""

    def __init__(self) -> None:
        self._usage = Usage()

    def __call__(self, name: str, connection: Connection) -> Any:
        """Return the publisher of a name; ``None`` if there is none."""
        fixture, _, query = name.partition("?")
        arguments = {key: values[-1] for key, values in parse_qs(query).items()}
        if fixture == "goodbye":
            return _say_goodbye(connection, arguments.get("reason", ""))
        if fixture == "subscribers":
            return _Series(1, lambda _: self._usage.numbers(arguments.get("of", "")))
        try:
            publisher = self._find(name, fixture, arguments, connection)
        except ValueError as error:
            raise PublisherError(f"{fixture}: {error}") from None
        if publisher is None or not hasattr(publisher, "subscribe"):
            return publisher
        return counted(publisher, fixture, self._usage)

    def _find(
        self, name: str, fixture: str, arguments: dict[str, str], connection: Connection
    ) -> Any:
        count = int(arguments.get("n", _ENDLESS))
        size = int(arguments.get("size", 0))
        if fixture == "ticks" and "every" in arguments:
            return _Ticks(float(arguments["every"]), count, lambda index: b"%d" % index, 0)
        if fixture == "slow":
            octets = size or 4
            pause = int(arguments.get("ms", 0)) / 1000
            return _Ticks(pause, count, lambda index: (index + 1).to_bytes(octets, "big"), size)
        if fixture in {"count", "ticks"}:
            return _Series(count, lambda index: b"%d" % index)
        if fixture == "forever":
            return _Series(_ENDLESS, lambda _: b"a")
        if fixture == "fail":
            after = int(arguments.get("after", 0))
            return _Series(after, lambda index: b"%d" % index, PublisherError("it fails, as asked"))
        if fixture == "ints":
            return _integers(int(arguments.get("n", 5)), size or 4)
        if fixture == "big":
            return _big(count, int(arguments.get("bytes", 1 << 20)))
        if fixture == "echo-name":
            return _Series(1, lambda _: name.encode())
        if fixture == "reflect":
            return Reflection(connection, self._usage, arguments)
        if fixture == "down":
            return Reflection(connection, self._usage, {"name": "up", "prefetch": "1"}, b"d")
        return {"never": never(), "empty": _Series(0, lambda _: b"")}.get(fixture)


async def _say_goodbye(connection: Connection, reason: str) -> Publisher[bytes]:
    await connection.goodbye(reason)
    return never()


def _integers(count: int, size: int) -> Publisher[bytes]:
    if count * size > _MOST_OCTETS:
        raise ValueError("that is too much")
    block = b"".join(number.to_bytes(size, "big") for number in range(1, count + 1))
    return fixed_size([block] if block else [], size, packed=True)


def _big(count: int, size: int) -> Publisher[bytes]:
    if size > _MOST_OCTETS:
        raise ValueError("that is too much")
    pattern = bytes(range(256)) * (size // 256 + 2)
    return _Series(count, lambda index: pattern[index % 256 : index % 256 + size])


class _Series(IterablePublisher[bytes]):
    """A number of elements, each made when it is requested; and then the end, or an error."""

    def __init__(
        self, count: int, element: Callable[[int], bytes], error: Exception | None = None
    ) -> None:
        self.count = count
        self.element = element
        self.error = error

    def subscribe(self, subscriber: Subscriber[bytes], /) -> None:
        """See `rsocket_trio.reactive_streams.Publisher.subscribe`."""
        _SeriesEmission(subscriber, self).start()


class _SeriesEmission(Emission[bytes]):
    __slots__ = ("_next", "_series")

    def __init__(self, subscriber: Subscriber[bytes], series: _Series) -> None:
        super().__init__(subscriber)
        self._series = series
        self._next = 0

    def _emit(self, subscriber: Subscriber[bytes], limit: int) -> int:
        series = self._series
        sent = 0
        while sent < limit and self._next < series.count and self.active:
            self.demand.take()
            sent += 1
            self._next += 1
            subscriber.on_next(series.element(self._next - 1))
        if self._next >= series.count:
            self._ended(series.error)
        return sent

    def _release(self) -> None:
        pass


class _Ticks:
    """An async iterable, one element after each pause. The connection gives it a task."""

    def __init__(
        self, pause: float, count: int, element: Callable[[int], bytes], element_size: int
    ) -> None:
        self._pause = pause
        self._count = count
        self._element = element
        self.element_size = element_size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for index in range(self._count):
            await trio.sleep(self._pause)
            yield self._element(index)


app: Final = Fixtures()
"""The resolver, to be served or published."""


async def dial_again(uri: str) -> None:
    """Connect again and again, and publish `app`: for ``rsocket-trio conformance --listen``.

    Returns when no connection could be made for some seconds.

    Checkpoint: always.
    If cancelled: the connection is closed.
    """
    deadline = trio.current_time() + _DIAL_SECONDS
    while trio.current_time() < deadline:
        try:
            async with connect(uri, publish=app) as connection:
                await connection.wait_closed()
        except (HelloRefused, ConnectionClosed):
            pass
        except ConnectFailed as error:
            if isinstance(error.__cause__, OSError):
                await trio.sleep(0.05)
                continue
        deadline = trio.current_time() + _DIAL_SECONDS


if __name__ == "__main__":
    trio.run(dial_again, sys.argv[1])
