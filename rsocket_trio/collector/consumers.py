"""The positions of consumers with several instances: `Consumers`."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs
import trio

from ..errors import Rejected
from ..requester import Requester
from ..spool import OffsetNotStored, OffsetTrimmed, Spool
from .limits import CollectorLimits

__all__ = ["Consumers"]

_MAX_NAME: Final = 200
"""Characters of the names of a consumer and of an instance."""


@attrs.define(eq=False)
class _Instance:
    """One reader of a consumer.

    Attributes:
        offset: The first offset that it still needs.
        peer: Its connection; None for the position that was there before.
        gone_at: When its connection was seen to be over.
    """

    offset: int
    peer: Requester | None
    gone_at: float | None = None


@attrs.define(eq=False)
class _Consumer:
    """The instances of a consumer by name. The lock keeps the order of its positions."""

    instances: dict[str, _Instance] = attrs.field(factory=dict)
    lock: trio.Lock = attrs.field(factory=trio.Lock)


class Consumers:
    """Commits the lowest position of the instances of each consumer to the spool.

    An instance counts while its connection lives, and for `CollectorLimits.instance_timeout` after
    it. The position of a consumer without instances stays. When the collector begins, the stored
    position counts as that of an instance whose connection has just ended: other instances may
    come back as well.
    """

    def __init__(self, spool: Spool, limits: CollectorLimits) -> None:
        self._spool: Final = spool
        self._limits: Final = limits
        self._consumers: Final[dict[str, _Consumer]] = {}
        self._began_at: Final = trio.current_time()

    async def commit(self, consumer: str, instance: str, offset: int, peer: Requester) -> None:
        """Store what an instance does not need any more.

        Raises:
            OffsetTrimmed: The offset is not kept any more; the instance does not count then.
            OffsetNotStored: The offset is beyond the head.
            Rejected: There are too many consumers or instances.
            SpoolClosed: The spool is closed.
            SpoolFailed: The spool has failed.
            ValueError: A name or the offset is not valid.
        """
        _check_name("consumer", consumer)
        _check_name("instance", instance)
        self._check_offset(offset)
        found = self._consumers.get(consumer)
        known = None if found is None else found.instances.get(instance)
        if found is None or known is None:
            self._forget_dead()
            self._check_limits(consumer, peer)
            found = self._consumers.get(consumer)
            if found is None:
                found = self._consumers[consumer] = self._begin(consumer)
            found.instances[instance] = _Instance(offset, peer)
        else:
            if known.peer is not peer:
                self._check_limits(consumer, peer, more=0)
            known.offset, known.peer, known.gone_at = offset, peer, None
        # One at a time: an older floor must not overtake a newer one that is lower.
        async with found.lock:
            if self._check_kept(found, instance, offset):
                floor = self._floor(found)
                if floor is not None:
                    await self._spool.commit(consumer, floor)

    async def forget(self, consumer: str, *, force: bool) -> None:
        """Forget a consumer, so that the spool keeps no events for it.

        Raises:
            Rejected: An instance of it is connected, and ``force`` is false.
            SpoolClosed: The spool is closed.
            SpoolFailed: The spool has failed.
            ValueError: There is no such consumer.
        """
        _check_name("consumer", consumer)
        known = self._consumers.get(consumer)
        if (known is None or not known.instances) and consumer not in self._spool.positions():
            raise ValueError(f"there is no consumer {consumer!r}")
        # In the table from now on, so that a commit of a new instance waits for the same lock.
        found = self._consumers.setdefault(consumer, _Consumer())
        async with found.lock:
            connected = sum(
                each.peer is not None and not each.peer.closed for each in found.instances.values()
            )
            if connected and not force:
                raise Rejected(
                    f"the consumer {consumer!r} is in use: {connected} of its instances are"
                    " connected. Stop them, or force it; then they keep their events from their"
                    " next commit on"
                )
            found.instances.clear()
            await self._spool.forget(consumer)

    def _begin(self, consumer: str) -> _Consumer:
        made = _Consumer()
        stored = self._spool.positions().get(consumer)
        if stored is not None and self._is_young(self._began_at):
            # The name is no valid name of an instance.
            made.instances[""] = _Instance(stored, None, self._began_at)
        return made

    def _floor(self, consumer: _Consumer) -> int | None:
        """Return the lowest position; None if the only instance has gone back to a trimmed one."""
        self._drop_dead(consumer)
        return min((each.offset for each in consumer.instances.values()), default=None)

    def _check_kept(self, consumer: _Consumer, instance: str, offset: int) -> bool:
        """Check again after the wait for the lock: others may have moved on, or this one."""
        mine = consumer.instances.get(instance)
        try:
            self._check_offset(offset)
        except OffsetTrimmed:
            if mine is not None and mine.offset == offset:
                del consumer.instances[instance]
            raise
        return mine is not None

    def _drop_dead(self, consumer: _Consumer) -> None:
        oldest = self._spool.oldest
        for name, each in list(consumer.instances.items()):
            if not self._is_alive(each) or each.offset < oldest:
                del consumer.instances[name]

    def _is_alive(self, instance: _Instance) -> bool:
        if instance.peer is not None and not instance.peer.closed:
            return True
        if instance.gone_at is None:
            instance.gone_at = trio.current_time()
            instance.peer = None
        return self._is_young(instance.gone_at)

    def _is_young(self, since: float) -> bool:
        return trio.current_time() - since < self._limits.instance_timeout

    def _forget_dead(self) -> None:
        for name, consumer in list(self._consumers.items()):
            if consumer.lock.statistics().owner is None:
                self._drop_dead(consumer)
                if not consumer.instances:
                    del self._consumers[name]

    def _check_offset(self, offset: int) -> None:
        spool = self._spool
        if offset < 0:
            raise ValueError(f"an offset is at least 0, not {offset}")
        if offset < spool.oldest:
            raise OffsetTrimmed(offset, spool.oldest)
        if offset > spool.head:
            raise OffsetNotStored(offset, spool.head)

    def _check_limits(self, consumer: str, peer: Requester, more: int = 1) -> None:
        limits = self._limits
        of_peer: Counter[str] = Counter()
        count = 0
        for name, each in self._consumers.items():
            count += len(each.instances)
            of_peer[name] += sum(one.peer is peer for one in each.instances.values())
        stored = {*self._spool.positions(), *self._consumers}
        mine = {name for name, number in of_peer.items() if number}
        for name, used, most in (
            ("max_consumers", len(stored | {consumer}), limits.max_consumers),
            ("max_instances", count + more, limits.max_instances),
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
                raise Rejected(f"the collector keeps no more positions: {name} is {most}")


def _check_name(what: str, name: str) -> None:
    if not 0 < len(name) <= _MAX_NAME:
        raise ValueError(f"the name of the {what} must have 1 to {_MAX_NAME} characters")
