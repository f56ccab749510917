"""Publishers that break a rule of subscribe or of several subscribers: 1.9 to 1.11, 2.12, 2.13."""

from __future__ import annotations

from typing import Any

import trio

from rsocket_trio.reactive_streams.tck import verify_publisher
from tests.reactive_streams.tck.mutants.streams import verified
from tests.reactive_streams.tck.mutants.table import Mutant
from tests.reactive_streams.tck.reference import Cold, Failure, Link, Pump, PumpLink, then_fail


class RefusesByRaising(Cold):
    served = False

    def subscribe(self, subscriber: Any) -> None:
        if self.served:
            raise RuntimeError("it has a subscriber already")
        self.served = subscriber is not None
        super().subscribe(subscriber)


class FailsInSubscribe(Cold):
    def subscribe(self, subscriber: Any) -> None:
        if subscriber is not None:
            for _ in self.make():
                break
        super().subscribe(subscriber)


class RaisesIfClosed(Pump):
    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        link = PumpLink(self, subscriber)
        link.start()
        if not link.over:
            self.nursery.start_soon(link.pump)


class SilentIfClosed(RaisesIfClosed):
    def subscribe(self, subscriber: Any) -> None:
        try:
            super().subscribe(subscriber)
        except RuntimeError:
            return


class LooksAtNone(Cold):
    def subscribe(self, subscriber: Any) -> None:
        subscriber.on_subscribe  # noqa: B018 - it raises AttributeError for None
        super().subscribe(subscriber)


class TakesNone(Cold):
    def subscribe(self, subscriber: Any) -> None:
        if subscriber is not None:
            super().subscribe(subscriber)


class LaterOnSubscribe(Link):
    def start(self) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(super().start)


class CompletesFirst(Link):
    """An empty stream is completed before on_subscribe."""

    def start(self) -> None:
        if not self.look() and self.error is None:
            self.subscriber.on_complete()
        super().start()


class OnlyCompletes(Link):
    """An empty stream is completed, and that is all."""

    def start(self) -> None:
        if not self.look() and self.error is None:
            self.subscriber.on_complete()
        else:
            super().start()


class OneAtATime(Cold):
    """While it has a subscriber others are not served; what they get is for a subclass to say."""

    links: list[Link]

    def subscribe(self, subscriber: Any) -> None:
        links = self.__dict__.setdefault("links", [])
        if subscriber is not None and any(not link.over for link in links):
            self.refuse(subscriber)
            return
        if subscriber is None:
            raise TypeError("the subscriber is None")
        links.append(Link(self, subscriber))
        links[-1].start()

    def refuse(self, subscriber: Any) -> None:
        raise NotImplementedError


class SilentToOthers(OneAtATime):
    def refuse(self, subscriber: Any) -> None:
        pass


class RefusesWithoutOnSubscribe(OneAtATime):
    def refuse(self, subscriber: Any) -> None:
        subscriber.on_error(Failure("it has a subscriber already"))


class RemembersTheEnd(Link):
    def terminal(self, subscriber: Any, error: Exception | None) -> None:
        self.publisher.ended = error is None  # type: ignore[attr-defined]  # of this mutant
        super().terminal(subscriber, error)


class EndsForAll(Cold):
    """Once a stream has completed, later subscribers are told nothing but that."""

    ended = False

    def subscribe(self, subscriber: Any) -> None:
        if self.ended and subscriber is not None:
            subscriber.on_complete()
        else:
            super().subscribe(subscriber)


class NoOnSubscribeIfFailed(Link):
    def start(self) -> None:
        if not self.look() and self.error is not None:
            self.finish(self.error)
        else:
            super().start()


class OneSubscriptionEach(Cold):
    """A second subscription of a subscriber replaces the first one."""

    def __init__(self, make: Any) -> None:
        super().__init__(make)
        self.links: dict[int, Link] = {}

    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        if id(subscriber) in self.links:
            self.links[id(subscriber)].cancel()
        link = self.links[id(subscriber)] = Link(self, subscriber)
        link.start()


class OneSubscriber(Cold):
    served = False

    def subscribe(self, subscriber: Any) -> None:
        if self.served and subscriber is not None:
            refused = Link(self, subscriber)
            refused.start()
            refused.finish(Failure("it has a subscriber already"))
            return
        self.served = subscriber is not None
        super().subscribe(subscriber)


class Counted(Cold):
    count = 0

    def subscribe(self, subscriber: Any) -> None:
        self.count += subscriber is not None
        super().subscribe(subscriber)


class Starving(Link):
    """The second subscriber gets nothing, and no end."""

    def add(self, n: int) -> None:
        if self.number != 2:
            super().add(n)

    def __init__(self, publisher: Any, subscriber: Any) -> None:
        super().__init__(publisher, subscriber)
        self.number = publisher.count

    def finish(self, error: Exception | None) -> None:
        if self.number != 2 or error is not None:
            super().finish(error)


class MissesFirst(Link):
    """The third subscriber misses the first element."""

    def __init__(self, publisher: Any, subscriber: Any) -> None:
        super().__init__(publisher, subscriber)
        if publisher.count == 3:
            next(self.elements)


class ThirdNeverCompletes(Link):
    def __init__(self, publisher: Any, subscriber: Any) -> None:
        super().__init__(publisher, subscriber)
        self.endless = publisher.count == 3

    def finish(self, error: Exception | None) -> None:
        if error is not None or not self.endless:
            super().finish(error)


class OnSubscribeAgain(Link):
    def terminal(self, subscriber: Any, error: Exception | None) -> None:
        if error is None:
            subscriber.on_subscribe(self)
        super().terminal(subscriber, error)


class IgnoresErrors(Link):
    def hostile(self, error: Exception) -> None:
        pass


class PassesErrorsOn(Link):
    def hostile(self, error: Exception) -> None:
        self.cancel()
        raise error


class CrashesItsTask(PumpLink):
    def hostile(self, error: Exception) -> None:
        self.cancel()
        raise error


class CrashingPump(Pump):
    def subscribe(self, subscriber: Any) -> None:
        if subscriber is None:
            raise TypeError("the subscriber is None")
        link = CrashesItsTask(self, subscriber)
        try:
            link.start()
        except Exception:  # of the subscriber
            return
        try:
            self.nursery.start_soon(link.pump)
        except RuntimeError as closed:
            link.finish(closed)


class CancelsAll(Link):
    """One hostile subscriber ends the streams of all."""

    def __init__(self, publisher: Any, subscriber: Any) -> None:
        super().__init__(publisher, subscriber)
        publisher.links = [*getattr(publisher, "links", []), self]

    def hostile(self, error: Exception) -> None:
        for link in self.publisher.links:  # type: ignore[attr-defined]  # of this mutant's publisher
            link.cancel()


def fails_in_subscribe(n: int) -> Cold:
    return (FailsInSubscribe if n == 0 else Cold)(lambda: then_fail(n))


def pump(cls: type[Pump]):
    return verify_publisher(lambda n, nursery: cls(lambda: range(n), nursery))


MUTANTS = [
    Mutant(
        name="refuses a second subscriber by raising",
        verification=verified(Link, RefusesByRaising, subscribers="one"),
        fails={"r1_09_subscribe_returns_normally"},
        says="rule 1.9: subscribe of a second subscriber raised RuntimeError",
    ),
    Mutant(
        name="fails in subscribe",
        verification=verify_publisher(lambda n: Cold(lambda: range(n)), failing=fails_in_subscribe),
        fails={"r1_09_subscribe_returns_normally"},
        says="rule 1.9: subscribe to a failing publisher raised Failure",
    ),
    Mutant(
        name="raises if the nursery is closed",
        verification=pump(RaisesIfClosed),
        fails={"r1_09_subscribe_in_a_closed_nursery_signals_on_error"},
        says="rule 1.9: subscribe with a closed nursery raised RuntimeError",
    ),
    Mutant(
        name="is silent if the nursery is closed",
        verification=pump(SilentIfClosed),
        fails={"r1_09_subscribe_in_a_closed_nursery_signals_on_error"},
        says="rule 1.9: with a closed nursery the signals are",
    ),
    Mutant(
        name="AttributeError for None",
        verification=verified(Link, LooksAtNone),
        fails={"r1_09_none_is_a_type_error"},
        says="rule 1.9: subscribe(None) raised AttributeError",
    ),
    Mutant(
        name="takes None",
        verification=verified(Link, TakesNone),
        fails={"r1_09_none_is_a_type_error"},
        says="rule 1.9: subscribe(None) returned",
    ),
    Mutant(
        name="on_subscribe after subscribe",
        verification=verified(LaterOnSubscribe),
        fails={"r1_09_on_subscribe_comes_first"},
        says="rule 1.9: a subscriber: subscribe returned before on_subscribe was called",
    ),
    Mutant(
        name="on_complete before on_subscribe",
        verification=verified(CompletesFirst),
        fails={"r1_09_an_empty_stream_begins_with_on_subscribe"},
        says="rule 1.9: the subscriber of an empty stream: on_complete was signalled before",
    ),
    Mutant(
        name="on_complete without on_subscribe",
        verification=verified(OnlyCompletes),
        fails={"r1_09_an_empty_stream_begins_with_on_subscribe"},
        says="rule 1.9: the subscriber of an empty stream: on_subscribe was never called",
    ),
    Mutant(
        name="silent to a second subscriber",
        verification=verified(Link, SilentToOthers, subscribers="one"),
        fails={"r1_09_a_second_subscriber_gets_on_subscribe"},
        says="rule 1.9: a second subscriber: on_subscribe was never called",
    ),
    Mutant(
        name="on_error without on_subscribe to a second subscriber",
        verification=verified(Link, RefusesWithoutOnSubscribe, subscribers="one"),
        fails={"r1_09_a_second_subscriber_gets_on_subscribe"},
        says="rule 1.9: a second subscriber: on_subscribe was never called",
    ),
    Mutant(
        name="only on_complete to a subscriber after the end",
        verification=verified(RemembersTheEnd, EndsForAll),
        fails={"r1_09_a_late_subscriber_gets_on_subscribe"},
        says="rule 1.9: a subscriber after the end: on_subscribe was never called",
    ),
    Mutant(
        name="on_error without on_subscribe",
        verification=verified(NoOnSubscribeIfFailed),
        fails={"r1_09_rejection_is_on_error_after_on_subscribe"},
        says="rule 1.9: a failed publisher did not begin with on_subscribe",
    ),
    Mutant(
        name="a second subscription replaces the first",
        verification=verify_publisher(lambda n: OneSubscriptionEach(lambda: range(n))),
        unmet={"r1_10_same_subscriber_twice"},
        says="rule 1.10: a second subscription of the same subscriber changed the first one",
    ),
    Mutant(
        name="serves one subscriber and declares many",
        verification=verified(Link, OneSubscriber),
        unmet={"r1_11_two_subscribers", "r1_11_each_subscriber_gets_signals"},
        says="rule 1.11",
        why="whoever is refused gets no elements",
    ),
    Mutant(
        name="a second subscriber starves",
        verification=verify_publisher(
            lambda n: type("", (Counted,), {"link": Starving})(lambda: range(n))
        ),
        unmet={"r1_11_each_subscriber_gets_signals"},
        says="rule 1.11: the second of two subscribers got ['on_subscribe']",
    ),
    Mutant(
        name="a third subscriber misses an element",
        verification=verified(MissesFirst, Counted, multicast=True),
        unmet={"r1_11_multicast_one_by_one", "r1_11_multicast_requested_upfront"},
        says="rule 1.11: subscriber 3 of 3 got",
        why="there are two patterns of requests",
    ),
    Mutant(
        name="a third subscriber never completes",
        verification=verified(ThirdNeverCompletes, Counted, multicast=True),
        unmet={"r1_11_multicast_completes_for_each"},
        says="rule 1.11: subscriber 3 of 3 did not complete",
    ),
    Mutant(
        name="on_subscribe again before the end",
        verification=verified(OnSubscribeAgain),
        fails={"r2_12_on_subscribe_is_called_once"},
        says="rule 2.12: on_subscribe was called 2 times",
    ),
    Mutant(
        name="goes on after a subscriber has raised",
        verification=verified(IgnoresErrors),
        fails={"r2_13_subscriber_that_raises_counts_as_cancelled"},
        says="rule 2.13: a subscriber raised from on_subscribe, and got",
    ),
    Mutant(
        name="passes the error of a subscriber to its caller",
        verification=verified(PassesErrorsOn),
        fails={"r2_13_errors_of_a_subscriber_stay_with_it"},
        says="rule 2.13: a subscriber raised from on_subscribe: subscribe raised",
    ),
    Mutant(
        name="the error of a subscriber ends its task",
        verification=pump(CrashingPump),
        fails={
            "r2_13_errors_of_a_subscriber_stay_with_it",
            "r2_13_subscriber_that_raises_counts_as_cancelled",
        },
        says="rule 2.13: the error that a subscriber raised from on_next came out of a task",
        why="the error ends the nursery of both tests",
    ),
    Mutant(
        name="one hostile subscriber ends all streams",
        verification=verified(CancelsAll),
        fails={"r2_13_errors_of_a_subscriber_stay_with_it"},
        says="rule 2.13: a subscriber raised from on_subscribe, and another subscriber",
    ),
]
