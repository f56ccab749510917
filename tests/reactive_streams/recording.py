"""Subscribers and subscriptions for the tests, which note what happens."""

from __future__ import annotations

from rsocket_trio.reactive_streams import MAX_DEMAND


class Recorder:
    """Notes the signals; ``first`` is requested in on_subscribe, ``more`` in each on_next."""

    def __init__(self, first=0, more=0):
        self.first = first
        self.more = more
        self.signals = []
        self.elements = []
        self.depth = 0
        self.deepest = 0
        self.subscription = None

    def _enter(self):
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)

    def on_subscribe(self, subscription):
        self._enter()
        self.signals.append("subscribe")
        self.subscription = subscription
        if self.first:
            subscription.request(self.first)
        self.depth -= 1

    def on_next(self, element):
        self._enter()
        self.signals.append(element)
        self.elements.append(element)
        if self.more:
            self.subscription.request(self.more)
        self.depth -= 1

    def on_error(self, error):
        self._enter()
        self.signals.append(error)
        self.depth -= 1

    def on_complete(self):
        self._enter()
        self.signals.append("complete")
        self.depth -= 1

    def request(self, n):
        self.subscription.request(n)
        return self

    def cancel(self):
        self.subscription.cancel()

    @property
    def terminals(self):
        return [each for each in self.signals if each == "complete" or isinstance(each, Exception)]


class Failing(Recorder):
    """Raises from the named signals."""

    def __init__(self, *names, first=MAX_DEMAND):
        super().__init__(first)
        self.names = names

    def on_subscribe(self, subscription):
        super().on_subscribe(subscription)
        self._fail("on_subscribe")

    def on_next(self, element):
        super().on_next(element)
        self._fail("on_next")

    def on_error(self, error):
        super().on_error(error)
        self._fail("on_error")

    def on_complete(self):
        super().on_complete()
        self._fail("on_complete")

    def _fail(self, name):
        if name in self.names:
            raise RuntimeError(f"hostile {name}")


class Requests:
    """A subscription that notes what the subscriber asks for."""

    def __init__(self):
        self.requested = []
        self.cancelled = 0

    def request(self, n):
        self.requested.append(n)

    def cancel(self):
        self.cancelled += 1


class ByHand:
    """A publisher whose signals the test sends."""

    def __init__(self):
        self.subscription = Requests()
        self.subscriber = None

    def subscribe(self, subscriber):
        self.subscriber = subscriber
        subscriber.on_subscribe(self.subscription)
