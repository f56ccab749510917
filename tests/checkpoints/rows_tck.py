"""The table of checkpoints: the conformance kits of Reactive Streams and of rsio."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs

from rsocket_trio.reactive_streams import just
from rsocket_trio.reactive_streams.tck import PublisherVerification, SubscriberVerification
from rsocket_trio.reactive_streams.tck.trials import Trial
from rsocket_trio.testing.rsio_conformance.running import run_rule, run_rules
from rsocket_trio.testing.rsio_peer import dial_again
from tests.checkpoints.scene import Call, Scene, endless, row


class _Publishers(PublisherVerification):
    clock = "real"
    settle_seconds = 0.001
    patience = 0.001

    def publisher(self, n: int):
        return just(*range(n))


class _Takes:
    """A subscriber that requests one element, and takes it."""

    def on_subscribe(self, subscription: Any) -> None:
        subscription.request(1)

    def on_next(self, element: object) -> None:
        pass

    def on_error(self, error: Exception) -> None:
        pass

    def on_complete(self) -> None:
        pass


class _Subscribers(SubscriberVerification):
    clock = "real"
    settle_seconds = 0.001
    patience = 0.001

    def subscriber(self):
        return _Takes()


def trial(scene: Scene, verification: Any) -> Trial:
    return Trial(verification, scene.nursery, None)


@row("reactive_streams.tck.publisher_base.PublisherTests.opened")
async def _(scene: Scene) -> Call:
    tests = _Publishers()
    return partial(tests.opened, trial(scene, tests), 1)


@row("reactive_streams.tck.publisher_base.PublisherTests.joined")
async def _(scene: Scene) -> Call:
    tests = _Publishers()
    return partial(tests.joined, trial(scene, tests), just(1))


@row("reactive_streams.tck.publisher_base.PublisherTests.drained")
async def _(scene: Scene) -> Call:
    tests = _Publishers()
    subscriber = await tests.opened(trial(scene, tests), 1)
    return partial(tests.drained, trial(scene, tests), subscriber, 1)


@row("reactive_streams.tck.publisher_base.PublisherTests.filled")
async def _(scene: Scene) -> Call:
    tests = _Publishers()
    subscriber = await tests.opened(trial(scene, tests), 1)
    return partial(tests.filled, trial(scene, tests), subscriber, 1)


@row("reactive_streams.tck.subscriber_base.SubscriberTests.driven")
async def _(scene: Scene) -> Call:
    tests = _Subscribers()
    return partial(tests.driven, trial(scene, tests))


@row("reactive_streams.tck.subscriber_base.SubscriberTests.joined_driver")
async def _(scene: Scene) -> Call:
    tests = _Subscribers()
    return partial(tests.joined_driver, trial(scene, tests))


@row("reactive_streams.tck.subscriber_base.SubscriberTests.demanded", "there is demand already")
async def _(scene: Scene) -> Call:
    tests = _Subscribers()
    driver = await tests.joined_driver(trial(scene, tests))
    return partial(tests.demanded, trial(scene, tests), driver)


@row("reactive_streams.tck.trials.Trial.quiet")
async def _(scene: Scene) -> Call:
    return trial(scene, _Publishers()).quiet


@row("reactive_streams.tck.trials.Trial.settle")
async def _(scene: Scene) -> Call:
    return trial(scene, _Publishers()).settle


@row("reactive_streams.tck.trials.Trial.until", "it holds already")
async def _(scene: Scene) -> Call:
    return partial(trial(scene, _Publishers()).until, lambda: True)


@attrs.frozen
class _Rule:
    """A rule for the other role, which is skipped."""

    roles: tuple[str, ...] = ("client",)


@attrs.frozen
class _Subject:
    role: str = "server"


@attrs.frozen
class _RuleTrial:
    subject: _Subject = _Subject()


@row("testing.rsio_conformance.running.run_rule", "the rule is for the other role")
async def _(scene: Scene) -> Call:
    return partial(run_rule, _Rule(), _RuleTrial())


@row("testing.rsio_conformance.running.run_rules", "there is none")
async def _(scene: Scene) -> Call:
    return partial(run_rules, [], _Subject(), print)


@row("testing.rsio_peer.dial_again", "nobody answers")
async def _(scene: Scene) -> Call:
    return endless(dial_again, f"rsio+unix://{scene.directory}/absent.sock")
