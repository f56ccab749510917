"""The consumers of a collector, and which of their instances are connected: `Consumers`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs
import trio

from ..errors import Rejected
from ..escapes import escaped
from ..log_policy import logger
from ..requester import Requester
from ..spool import Spool, SpoolError
from ..spool.instances import check_name
from .limits import CollectorLimits
from .messages import InstanceInfo

__all__ = ["Consumers", "lag_seconds"]

_STORE_PART: Final = 1 / 16
"""An absence that has grown by this part of the lease is written down. A collector that is started
again may count so much less of it, and never more."""


@attrs.define(eq=False)
class _Instance:
    """One reader of a consumer, as this collector has seen it.

    Attributes:
        peer: Its connection; None if it is away.
        lease: How long it may be away.
        absent: The seconds of its lease that have passed.
        stored: The same, as the spool has it.
    """

    lease: float
    peer: Requester | None = None
    absent: float = 0.0
    stored: float = 0.0

    @property
    def connected(self) -> bool:
        return self.peer is not None and not self.peer.closed


@attrs.define(eq=False)
class _Consumer:
    """The instances of a consumer by name.

    Attributes:
        looked_at: When their absence was counted last.
    """

    looked_at: float
    instances: dict[str, _Instance] = attrs.field(factory=dict)


class Consumers:
    """Stores what each instance of a consumer needs, and ends the leases of those that are away.

    What is stored lasts: the spool keeps events from the lowest stored position on, also after a
    start of the collector. A position goes only if somebody forgets it, or if its lease is over.
    The lease of an instance that is away runs while another instance of the same consumer is
    connected. So a consumer that is away with all its instances keeps what it needs, and no clock
    that can be set decides about it.
    """

    def __init__(self, spool: Spool, limits: CollectorLimits) -> None:
        self._spool: Final = spool
        self._limits: Final = limits
        self._consumers: Final[dict[str, _Consumer]] = {}
        for each in spool.instances():
            lease = limits.instance_timeout if each.lease is None else each.lease
            made = self._of(each.consumer)
            made.instances[each.name] = _Instance(
                lease=lease, absent=each.absent, stored=each.absent
            )

    async def commit(
        self, consumer: str, instance: str, offset: int, peer: Requester, lease: float | None = None
    ) -> None:
        """Store what an instance does not need any more.

        Args:
            consumer: The consumer.
            instance: One of its instances.
            offset: The first offset that it needs.
            peer: Its connection.
            lease: How long it may be away; ``None``: as long as the limits say.

        Raises:
            OffsetTrimmed: The offset is not kept any more.
            OffsetNotStored: The offset is beyond the head.
            Rejected: There are too many consumers or instances.
            SpoolClosed: The spool is closed.
            SpoolFailed: The spool has failed.
            ValueError: A name or the offset is not valid.
        """
        check_name("consumer", consumer)
        check_name("instance", instance)
        lasting = self._limits.instance_timeout if lease is None else lease
        known = self._consumers.get(consumer)
        mine = None if known is None else known.instances.get(instance)
        if mine is None:
            self._drop_unstored()
        if mine is None or mine.peer is not peer:
            self._check_limits(consumer, peer, new=mine is None)
        # It is in the table before the first checkpoint, so that the limits count it.
        found = self._of(consumer)
        self._count_absence(found)
        mine = found.instances.setdefault(instance, _Instance(lasting))
        mine.peer, mine.lease, mine.absent = peer, lasting, 0.0
        try:
            await self._spool.commit(consumer, offset, instance=instance, lease=lasting)
        except (SpoolError, ValueError):
            if instance not in self._stored(consumer):
                found.instances.pop(instance, None)
            raise
        mine.stored = 0.0
        await self._settle_absence(consumer, found)

    async def forget(self, consumer: str, *, instance: str | None, force: bool) -> None:
        """Forget a consumer, or one of its instances, so that the spool keeps no events for it.

        Raises:
            Rejected: An instance of it is connected, and ``force`` is false.
            SpoolClosed: The spool is closed.
            SpoolFailed: The spool has failed.
            ValueError: There is no such consumer or instance.
        """
        check_name("consumer", consumer)
        stored = [each for each in self._stored(consumer) if instance in (None, each)]
        if not stored:
            which = "" if instance is None else f" with an instance {instance!r}"
            raise ValueError(f"there is no consumer {consumer!r}{which}")
        seen = self._of(consumer).instances
        connected = sum(name in seen and seen[name].connected for name in stored)
        if connected and not force:
            raise Rejected(
                f"the consumer {consumer!r} is in use: connected instances: {connected}. Stop them;"
                " or forget it by force (--force), then they keep their events from their next"
                " commit on"
            )
        for name in stored:
            seen.pop(name, None)
        await self._spool.forget(consumer, instance=instance)

    async def instances(self) -> list[InstanceInfo]:
        """Return what each instance needs, and whether it is connected.

        Raises:
            SpoolClosed, SpoolFailed: As `Spool.stored_at`.
        """
        stored, head, now = self._spool.instances(), self._spool.head, time.time()
        lags = await lag_seconds(self._spool, [each.offset for each in stored])
        found = []
        for each in stored:
            known = self._consumers.get(each.consumer)
            seen = None if known is None else known.instances.get(each.name)
            lease = self._limits.instance_timeout if each.lease is None else each.lease
            absent = each.absent if seen is None else seen.absent
            found.append(
                InstanceInfo(
                    consumer=each.consumer,
                    instance=each.name,
                    offset=each.offset,
                    lag=head - each.offset,
                    lag_seconds=lags.get(each.offset),
                    age=max(now - each.seen_at, 0.0),
                    connected=seen is not None and seen.connected,
                    lease=lease,
                    lease_left=max(lease - absent, 0.0),
                )
            )
        return found

    def _of(self, consumer: str) -> _Consumer:
        found = self._consumers.get(consumer)
        if found is None:
            found = self._consumers[consumer] = _Consumer(trio.current_time())
        return found

    def _count_absence(self, found: _Consumer) -> None:
        """Count the time since the last look for those that were away then.

        It counts only if another instance has been connected for all of it: one that is connected
        now has been so since it spoke last, and each word is a look.
        """
        now = trio.current_time()
        passed, found.looked_at = now - found.looked_at, now
        if not any(each.connected for each in found.instances.values()):
            passed = 0.0
        for each in found.instances.values():
            if not each.connected:
                each.absent += passed if each.peer is None else 0.0
                each.peer = None  # From now on it is known to be away.

    async def _settle_absence(self, consumer: str, found: _Consumer) -> None:
        """Forget those whose lease is over, and write down how long others have been away."""
        for name, each in list(found.instances.items()):
            # The spool takes the change before the next checkpoint. So if this one comes back
            # meanwhile, it is stored again behind it.
            if found.instances.get(name) is not each or each.peer is not None:
                continue
            if each.absent >= each.lease:
                del found.instances[name]
                logger.warning(
                    "the instance %s of the consumer %s was away for its lease of %.0f s, while"
                    " others read on: the spool keeps nothing for it any more",
                    escaped(name), escaped(consumer), each.lease,
                )  # fmt: skip
                await self._spool.forget(consumer, instance=name)
            elif abs(each.absent - each.stored) >= each.lease * _STORE_PART:
                offset = self._stored(consumer).get(name)
                if offset is not None:
                    each.stored = each.absent
                    await self._spool.commit(
                        consumer, offset, instance=name, lease=each.lease, absent=each.absent
                    )

    def _stored(self, consumer: str) -> dict[str, int]:
        return {each.name: each.offset for each in self._spool.instances()
                if each.consumer == consumer}  # fmt: skip

    def _drop_unstored(self) -> None:
        """Drop what is not stored and not connected, e.g. as its position was refused."""
        stored = {each.key for each in self._spool.instances()}
        for consumer, found in list(self._consumers.items()):
            for name, each in list(found.instances.items()):
                if (consumer, name) not in stored and not each.connected:
                    del found.instances[name]
            if not found.instances:
                del self._consumers[consumer]

    def _check_limits(self, consumer: str, peer: Requester, *, new: bool) -> None:
        """Check that one more instance may be kept, or that one may use another connection.

        One that is kept already may always come back: the limits may have been higher.

        Raises:
            Rejected: It may not.
        """
        limits = self._limits
        of_peer: Counter[str] = Counter()
        count = 0
        for name, each in self._consumers.items():
            count += len(each.instances)
            of_peer[name] += sum(one.peer is peer for one in each.instances.values())
        known = self._consumers.get(consumer)
        mine = {name for name, number in of_peer.items() if number}
        kept = (
            ("max_consumers", len({*self._consumers, consumer}), limits.max_consumers),
            ("max_instances", count + 1, limits.max_instances),
            (
                "max_instances_per_consumer",
                (0 if known is None else len(known.instances)) + 1,
                limits.max_instances_per_consumer,
            ),
        )
        for name, used, most in (
            *(kept if new else ()),
            (
                "max_consumers_per_connection",
                len(mine | {consumer}),
                limits.max_consumers_per_connection,
            ),
            (
                "max_instances_per_connection",
                of_peer.total() + 1,
                limits.max_instances_per_connection,
            ),
        ):
            if used > most:
                raise Rejected(
                    f"the collector keeps no more positions: {name} is {most}; the status of the"
                    " collector shows all of them, and one that does not come back can be forgotten"
                )


async def lag_seconds(spool: Spool, offsets: Iterable[int]) -> dict[int, float]:
    """Return how long ago the events at some offsets were stored, of those that are kept.

    It is 0 at the head, and never less, although the clock may have been set back.

    Raises:
        SpoolClosed, SpoolFailed: As `Spool.stored_at`.
    """
    wanted, head, now = set(offsets), spool.head, time.time()
    behind = {each for each in wanted if each < head}
    times = await spool.stored_at(behind) if behind else {}
    return dict.fromkeys({head} & wanted, 0.0) | {
        each: max(now - at, 0.0) for each, at in times.items()
    }
