"""Small publishers, subscribers and processors that keep all rules. The mutants change one thing.

Each step is a method of its own, so that a mutant is a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import index
from typing import Any

import trio

MAX = 2**63 - 1
BUDGET = 100


class Failure(Exception):
    """The failure of a publisher that fails."""


def then_fail(n: int) -> Iterator[int]:
    yield from range(n)
    raise Failure("the source fails")


class Link:
    """The subscription of `Cold`: a trampoline over an iterator."""

    def __init__(self, publisher: Cold, subscriber: Any) -> None:
        self.publisher = publisher
        self.subscriber = subscriber
        self.elements = iter(publisher.make())
        self.demand = 0
        self.running = True
        self.over = False
        self.error: Exception | None = None
        self.ahead: list[Any] = []
        self.sent = 0

    # Subscription

    def request(self, n: int) -> None:
        if self.over:
            return
        if (wrong := self.check(n)) is not None:
            self.finish(wrong)
            return
        self.add(n)
        self.drain()

    def cancel(self) -> None:
        self.over = True
        self.release()

    def check(self, n: int) -> Exception | None:
        try:
            n = index(n)
        except TypeError as error:
            return error
        return None if n > 0 else ValueError(f"rule 3.9: request({n}) is non-positive")

    def add(self, n: int) -> None:
        self.demand = min(MAX, self.demand + n)

    def release(self) -> None:
        self.subscriber = None

    # The loop

    def start(self) -> None:
        try:
            self.subscriber.on_subscribe(self)
        except Exception as error:  # of the subscriber
            self.hostile(error)
        self.running = False
        self.drain()

    def drain(self) -> None:
        if self.running:
            return
        self.running = True
        try:
            for _ in range(BUDGET):
                if self.over or not self.step():
                    return
            trio.lowlevel.current_trio_token().run_sync_soon(self.drain)
        finally:
            self.running = False

    def step(self) -> bool:
        """Signal one thing; return whether there may be more."""
        if not self.ahead and not self.look():
            self.finish(self.error)
            return False
        if not self.demand:
            return False
        self.demand -= 1
        self.sent += 1
        self.emit(self.ahead.pop(0))
        return True

    def look(self) -> bool:
        """Look for the next element; return whether there is one."""
        try:
            self.ahead.append(next(self.elements))
        except StopIteration:
            return False
        except Exception as error:  # of the source
            self.error = error
            return False
        return True

    def emit(self, element: Any) -> None:
        try:
            self.subscriber.on_next(element)
        except Exception as error:  # of the subscriber
            self.hostile(error)

    def finish(self, error: Exception | None) -> None:
        if self.over:
            return
        self.over = True
        subscriber = self.subscriber
        self.release()
        try:
            self.terminal(subscriber, error)
        except Exception as hostile:  # of the subscriber
            self.hostile(hostile)

    def terminal(self, subscriber: Any, error: Exception | None) -> None:
        if error is None:
            subscriber.on_complete()
        else:
            subscriber.on_error(error)

    def hostile(self, error: Exception) -> None:
        """A subscriber raised."""
        self.cancel()


class Cold:
    """A publisher whose elements are made anew for each subscriber."""

    link: type[Link] = Link

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self.make = make

    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        self.link(self, subscriber).start()


class Shared(Cold):
    """Gives each element to all subscribers, when all have requested it."""

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        super().__init__(make)
        self.elements = list(make())
        self.links: list[SharedLink] = []
        self.position = 0

    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        link = SharedLink(self, subscriber)
        self.links.append(link)
        link.start()

    def drain_all(self) -> None:
        moved = True
        while moved and self.links:
            moved = False
            if self.position == len(self.elements):
                for link in list(self.links):
                    link.finish(None)
                return
            if all(link.demand and not link.running for link in self.links):
                element = self.elements[self.position]
                self.position += 1
                moved = True
                for link in list(self.links):
                    link.demand -= 1
                    link.running = True
                    try:
                        link.emit(element)
                    finally:
                        link.running = False


class SharedLink(Link):
    publisher: Shared

    def drain(self) -> None:
        if not self.running:
            self.publisher.drain_all()

    def release(self) -> None:
        super().release()
        if self in self.publisher.links:
            self.publisher.links.remove(self)
            self.publisher.drain_all()


class Pump:
    """A publisher with a task for each subscriber, in a nursery."""

    def __init__(self, make: Callable[[], Iterable[Any]], nursery: trio.Nursery) -> None:
        self.make = make
        self.nursery = nursery

    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        link = PumpLink(self, subscriber)
        link.start()
        if link.over:
            return
        try:
            self.nursery.start_soon(link.pump)
        except RuntimeError as closed:
            link.finish(closed)


class PumpLink(Link):
    """Waits for demand in a task; a moment passes before each element."""

    def __init__(self, publisher: Any, subscriber: Any) -> None:
        super().__init__(publisher, subscriber)
        self.wake = trio.Event()

    def drain(self) -> None:
        self.wake.set()

    async def pump(self) -> None:
        while not self.over:
            while self.step():
                await trio.sleep(0.01)
                if self.over:
                    break
            await self.wake.wait()
            self.wake = trio.Event()

    def release(self) -> None:
        super().release()
        self.wake.set()


class Taker:
    """A subscriber that requests by itself, in batches, and may need only some elements."""

    batch = 4

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.subscription: Any = None
        self.over = False
        self.taken: list[Any] = []
        self.owed = 0

    def on_subscribe(self, subscription: Any) -> None:
        self.none(subscription)
        if self.subscription is not None:
            self.second(subscription)
            return
        self.subscription = subscription
        self.begin()

    def second(self, subscription: Any) -> None:
        subscription.cancel()

    def begin(self) -> None:
        self.request(self.batch)

    def request(self, n: int) -> None:
        if not self.over:
            self.owed += n
            self.subscription.request(n)

    def cancel(self) -> None:
        self.over = True
        self.subscription.cancel()

    def on_next(self, element: Any) -> None:
        self.none(element)
        if self.over:
            return
        self.owed -= 1
        self.taken.append(element)
        if self.limit is not None and len(self.taken) >= self.limit:
            self.enough()
        else:
            self.more()

    def enough(self) -> None:
        self.cancel()

    def more(self) -> None:
        if self.owed == 0:
            self.request(self.batch)

    def on_error(self, error: Any) -> None:
        self.none(error)
        self.over = True

    def on_complete(self) -> None:
        self.over = True

    def none(self, argument: Any) -> None:
        if argument is None:
            raise TypeError("the argument is None")


class Obedient(Taker):
    """A subscriber that requests only when it is told to."""

    def begin(self) -> None:
        pass

    def more(self) -> None:
        pass


class Relay:
    """An identity processor for one subscriber: it passes demand up, and signals down."""

    def __init__(self) -> None:
        self.upstream: Any = None
        self.downstream: Any = None
        self.taken = False
        self.early = 0
        self.demand = 0
        self.waiting: list[Any] = []
        self.ended: Callable[[Any], None] | None = None
        self.running = False
        self.upstream_over = False

    # Publisher

    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        if self.taken:
            subscriber.on_subscribe(Nothing())
            subscriber.on_error(Failure("it has a subscriber already"))
            return
        self.taken = True
        self.downstream = subscriber
        self.running = True
        try:
            subscriber.on_subscribe(RelayLink(self))
        except Exception:  # of the subscriber
            self.give_up()
        self.running = False
        self.drain()

    def requested(self, n: int) -> None:
        if self.downstream is None:
            return
        if (wrong := Link.check(self, n)) is not None:  # type: ignore[arg-type]  # it has what `check` needs
            self.cancel_upstream()
            self.end(lambda subscriber: subscriber.on_error(wrong))
            return
        self.demand = min(MAX, self.demand + n)
        self.pull(n)
        self.drain()

    def pull(self, n: int) -> None:
        if self.upstream is None:
            self.early = min(MAX, self.early + n)
        elif not self.upstream_over:
            self.upstream.request(min(n, MAX))

    def give_up(self) -> None:
        self.downstream = None
        self.cancel_upstream()

    def cancel_upstream(self) -> None:
        if self.upstream is not None and not self.upstream_over:
            self.upstream_over = True
            self.upstream.cancel()

    # Subscriber

    def on_subscribe(self, subscription: Any) -> None:
        if subscription is None:
            raise TypeError("the subscription is None")
        if self.upstream is not None:
            subscription.cancel()
            return
        self.upstream = subscription
        if self.taken and self.downstream is None:
            self.cancel_upstream()
        elif self.early:
            subscription.request(self.early)

    def on_next(self, element: Any) -> None:
        if element is None:
            raise TypeError("the element is None")
        if not self.upstream_over:
            self.waiting.append(element)
            self.drain()

    def on_error(self, error: Any) -> None:
        if error is None:
            raise TypeError("the error is None")
        self.upstream_over = True
        self.ended = lambda subscriber: subscriber.on_error(error)
        self.drain()

    def on_complete(self) -> None:
        self.upstream_over = True
        self.ended = lambda subscriber: subscriber.on_complete()
        self.drain()

    # The loop

    def drain(self) -> None:
        if self.running:
            return
        self.running = True
        while self.downstream is not None:
            if self.waiting and self.demand:
                self.demand -= 1
                self.emit(self.waiting.pop(0))
            elif not self.waiting and self.ended is not None:
                self.end(self.ended)
            else:
                break
        self.running = False

    def emit(self, element: Any) -> None:
        try:
            self.downstream.on_next(element)
        except Exception:  # of the subscriber
            self.give_up()

    def end(self, signal: Callable[[Any], None]) -> None:
        subscriber, self.downstream = self.downstream, None
        self.ended = None
        try:
            signal(subscriber)
        except Exception:  # of the subscriber
            self.cancel_upstream()


class Prefetching(Relay):
    """Keeps some elements ready."""

    size = 4

    def on_subscribe(self, subscription: Any) -> None:
        fresh = self.upstream is None
        super().on_subscribe(subscription)
        if fresh and not self.upstream_over:
            self.upstream.request(self.size)

    def pull(self, n: int) -> None:
        pass

    def emit(self, element: Any) -> None:
        super().emit(element)
        if not self.upstream_over:
            self.upstream.request(1)


class RelayLink:
    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    def request(self, n: int) -> None:
        self.relay.requested(n)

    def cancel(self) -> None:
        if self.relay.downstream is not None:
            self.relay.give_up()


class Nothing:
    """A subscription of a refused subscriber."""

    def request(self, n: int) -> None:
        pass

    def cancel(self) -> None:
        pass


class Fan(Cold):
    """A processor that gives each element to all subscribers, when all have requested it."""

    def __init__(self) -> None:
        super().__init__(list)
        self.upstream: Any = None
        self.upstream_over = False
        self.links: list[FanLink] = []
        self.asked = False
        self.sent = 0
        self.ended: list[Exception | None] = []

    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        link = FanLink(self, subscriber)
        if not self.ended:
            self.links.append(link)
        link.start()
        if self.ended:
            link.finish(self.ended[0])

    def ask(self) -> None:
        if self.asked or self.upstream is None or self.upstream_over or not self.links:
            return
        if all(link.demand and not link.running for link in self.links) and self.goes_on():
            self.asked = True
            self.upstream.request(1)

    def goes_on(self) -> bool:
        return True

    def left(self, link: FanLink) -> None:
        if link in self.links:
            self.links.remove(link)
            if not self.links and self.upstream is not None and not self.upstream_over:
                self.upstream_over = True
                self.upstream.cancel()
            self.ask()

    def on_subscribe(self, subscription: Any) -> None:
        if subscription is None:
            raise TypeError("the subscription is None")
        if self.upstream is not None:
            subscription.cancel()
            return
        self.upstream = subscription
        self.ask()

    def on_next(self, element: Any) -> None:
        if element is None:
            raise TypeError("the element is None")
        self.asked = False
        self.sent += 1
        present = list(self.links)
        for link in present:
            link.demand -= 1
            link.running = True
        for link in present:
            if not link.over:
                link.emit(element)
            link.running = False
        self.ask()

    def on_error(self, error: Any) -> None:
        if error is None:
            raise TypeError("the error is None")
        self.end(error)

    def on_complete(self) -> None:
        self.end(None)

    def end(self, error: Exception | None) -> None:
        self.upstream_over = True
        self.ended.append(error)
        for link in self.receivers():
            link.finish(error)

    def receivers(self) -> list[FanLink]:
        return list(self.links)


class FanLink(Link):
    publisher: Fan

    def drain(self) -> None:
        if not self.running:
            self.publisher.ask()

    def release(self) -> None:
        super().release()
        self.publisher.left(self)
