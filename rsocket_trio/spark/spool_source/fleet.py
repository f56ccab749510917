"""The collectors of a query, on the driver: `Fleet`.

It knows which spool is where, tells how far a batch may read, and tells the collectors which events
the query does not need any more. It runs in a thread with trio beside the thread of Spark's calls.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Never

import trio

from ...collector import SpoolInfo
from ...log_policy import logger
from .addresses import Address, addresses_of, is_list, watch
from .member import Member, Need, Reader
from .offsets import Offsets, Since
from .questions import Question, Questions
from .ranges import Limit, share
from .settings import SourceSettings
from .source_errors import CollectorsUnreachable, DataLost

__all__ = ["Fleet"]

ROUND: Final = 0.5
"""Seconds that one round of questions takes at most. The answer of a slower collector counts in a
later round."""

_FIRST_PAUSE: Final = 0.01
_LAST_PAUSE: Final = 0.1
_QUESTIONS_PER_SECOND: Final = 2000
"""Between two rounds there is a pause, which grows while there is no news. With many collectors it
is longer, so that an idle query does not keep a processor busy."""

_UNKNOWN_PAUSE: Final = 1.0
"""Seconds between two questions for addresses while there are none."""

_MOST_ADDRESSES: Final = 1024
"""Addresses that files and names may give, as a pool takes of a name. Each is dialled, and takes a
descriptor of the process."""

_MOST_SHOWN: Final = 20
"""Collectors that an error names: Spark repeats its text a few times."""

_UNSURE_LEASE: Final = 60.0
"""Seconds. The lease of a reader whose name is in no checkpoint yet. If Spark ends before it is,
the query begins anew, and nobody comes back by this name."""

_ADVICE: Final = (
    ". See whether the collector runs, and whether this is its RSocket address (`rsocket-trio"
    " collect --listen tcp://...`): its Lumberjack address is only for senders"
)


class Fleet:
    """The collectors of a query. All methods are called in the thread with trio.

    Args:
        collectors: The addresses, and where more of them are.
        settings: The options of the query.
        hint: What else an error says about collectors that do not answer.
    """

    def __init__(
        self, collectors: Sequence[str], settings: SourceSettings, *, hint: Callable[[], str] = str
    ) -> None:
        self._hint: Final = hint
        self._settings: Final = settings
        self._reader = Reader(settings.consumer, str(uuid.uuid4()), _UNSURE_LEASE)
        self._members: Final[list[Member]] = []
        self._fixed: Final = [Address(each) for each in collectors if not is_list(each)]
        self._lists: Final = [watch(each) for each in collectors if is_list(each)]
        self._triggered = trio.Event()
        self._asked = trio.Event()
        self._reached = False
        self._gone: Final[dict[str, float]] = {}
        """Since when each of these spools is at no collector."""
        usual = math.inf if self._lists else 0.0
        self._gone_after: Final = usual if settings.gone_after is None else settings.gone_after
        self._changed = trio.Event()
        self._target: Offsets | None = None
        self._start = Offsets()
        self._committed: Offsets | None = None
        self._due = -math.inf  # when a batch may be smaller than `minRowsPerTrigger`
        self._news: Questions[int]
        self._begins: Questions[Need]
        self._looks: Questions[SpoolInfo]
        self._lags: Questions[SpoolInfo]
        self._lag: dict[str, float] = {}

    async def serve(self, *, task_status: trio.TaskStatus[Fleet]) -> None:
        """Keep the connections until this is cancelled."""
        async with trio.open_nursery() as nursery:
            self._news, self._begins = Questions[int](nursery), Questions[Need](nursery)
            self._looks = Questions[SpoolInfo](nursery)
            self._lags = Questions[SpoolInfo](nursery)
            self._name(self._fixed, nursery)
            if self._lists:
                nursery.start_soon(self._follow, nursery)
            task_status.started(self)

    # -- who the collectors are

    async def _follow(self, nursery: trio.Nursery) -> Never:
        """Ask for the addresses with each trigger; until there are some, each second."""
        found: list[list[Address]] = [[] for _ in self._lists]
        told = 0

        async def ask(index: int) -> None:
            nonlocal told
            found[index] = addresses_of(await self._lists[index].ask() or ())
            named = list(dict.fromkeys(at for each in found for at in each))
            if len(named) > _MOST_ADDRESSES and len(named) != told:
                told = len(named)
                logger.warning(
                    "the option collectors: of %d addresses only the first %d are used: %s",
                    told, _MOST_ADDRESSES, ", ".join(map(str, self._lists)),
                )  # fmt: skip
            self._name(dict.fromkeys([*self._fixed, *named[:_MOST_ADDRESSES]]), nursery)

        while True:
            # A name that has no answer for long does not hold up the addresses of a file.
            async with trio.open_nursery() as asking:
                for index in range(len(found)):
                    asking.start_soon(ask, index)
            self._asked.set()
            with trio.move_on_after(math.inf if any(found) else _UNKNOWN_PAUSE):
                await self._triggered.wait()
            self._triggered = trio.Event()

    async def _ask_who(self) -> None:
        """Let the addresses be asked for, and wait for the answer some time."""
        if self._lists:
            self._asked = trio.Event()
            self._triggered.set()
            with trio.move_on_after(ROUND):
                await self._asked.wait()

    def _name(self, named: Iterable[Address], nursery: trio.Nursery) -> None:
        """Connect to the collectors that are named, and to no others."""
        wanted = dict.fromkeys(named)
        for member in list(self._members):
            if member.at in wanted:
                del wanted[member.at]
                member.named = True
            elif member.named:
                logger.info("%s is not named any more", member.at)
                member.leave()
                if member.client is None:
                    self._members.remove(member)
        settings = self._settings
        for at in wanted:
            member = Member(at, settings.tls.context, settings.collector_timeout, settings.auth)
            self._members.append(member)
            nursery.start_soon(self._keep, member)
        self._notify()

    async def _keep(self, member: Member) -> None:
        await member.keep(self._notify)
        if member in self._members:
            self._members.remove(member)
        self._notify()

    # -- Spark's questions

    async def latest(self, start: Offsets, limit: Limit) -> Offsets:
        """Return how far the next batch reads; ``start``, if there is no news for some time.

        A new query starts without places. Its first batch has no events, but gives each spool its
        place. So the places are in Spark's checkpoint before the first event is read: Spark asks
        for the start of the first batch again and again, and forgets the answers.

        Raises:
            DataLost: Events of ``start`` are gone.
            CollectorsUnreachable: No collector was ever reached, or one that is needed.
        """
        self._go_on(start)
        await self._ask_who()
        if not start:
            return await self._first_places()
        began_at = trio.current_time()
        if self._settings.trim_on == "start":
            self._committed = start
        if not self._any_known():
            await self._wait_for(self._any_known)
            self._check_known()
        pause = _FIRST_PAUSE
        slowest = max(_LAST_PAUSE, len(self._members) / _QUESTIONS_PER_SECOND)
        while True:
            await self._round()
            end, waiting = await self._end(start, limit)
            # Spark ends AvailableNow when there is no news. So events that are known to be there
            # are news, as long as their collector may still answer.
            patience = self._settings.collector_timeout if waiting else self._settings.poll_timeout
            if (
                end != start
                or self._has_reached_target(start)
                or trio.current_time() >= began_at + patience
            ):
                await self._measure(end)
                return end
            with trio.move_on_after(pause):
                await self._changed.wait()
            pause = min(2 * pause, slowest)

    def _go_on(self, start: Offsets) -> None:
        """Take the name of this reader from Spark's checkpoint, if it is there."""
        self._start = start
        if start.instance is not None:
            settings = self._settings
            self._reader = Reader(settings.consumer, start.instance, settings.lease)

    async def commit(self, end: Offsets) -> None:
        """Tell the collectors that Spark has the events up to ``end``."""
        self._go_on(end)
        self._committed = end
        await self._round()

    async def prepare_available_now(self) -> None:
        """Remember what there is now; `latest` goes no further from then on."""
        await self._ask_who()
        await self._wait_for(self._all_connected)
        await self._round(self._settings.collector_timeout)
        self._target = self.heads()

    def heads(self) -> Offsets:
        """Return how far all spools go, as far as is known."""
        return Offsets({
            each: member.info.head for each, member in self._known().items() if member.info
        })  # fmt: skip

    def progress(self) -> dict[str, Any]:
        """Return how far all spools go, and how old the first event is that waits in each."""
        lag = {each: round(seconds, 3) for each, seconds in self._lag.items()}
        return self.heads().as_json() | ({"l": lag} if lag else {})

    async def _measure(self, end: Offsets) -> None:
        """Ask how old the first event is that a batch leaves, where it leaves some."""
        questions = {
            each: _look(member, lag_from=end[each])
            for each, member in self._held().items()
            if each in end and member.info is not None and member.info.head > end[each]
        }
        self._lag = {
            each: found.lag_seconds
            for each, found in (await self._lags.ask(questions, ROUND)).items()
            if found.spool_id == each and found.lag_seconds is not None
        }

    async def kept(self) -> tuple[dict[str, SpoolInfo], dict[str, Address]]:
        """Return what each spool holds, and the addresses.

        Raises:
            CollectorsUnreachable: A collector does not answer.
        """
        await self._ask_who()
        await self._wait_for(self._all_connected)
        if not self._all_connected():
            raise CollectorsUnreachable(
                f"not all collectors have answered within {self._settings.collector_timeout:g} s:"
                f" {self._states()}{self._advice()}"
            )
        await self._round(self._settings.collector_timeout)
        held = self._held()
        infos = {each: member.info for each, member in held.items() if member.info is not None}
        return infos, {each: member.at for each, member in held.items()}

    async def locate(self, spool_ids: Iterable[str]) -> dict[str, Address]:
        """Return the addresses of the collectors that have these spools.

        A spool that is gone has no address, if ``failOnDataLoss`` is false.

        Raises:
            DataLost: A spool is gone.
            CollectorsUnreachable: A collector did not answer.
        """
        wanted = set(spool_ids)
        await self._ask_who()
        await self._wait_for(lambda: wanted <= self._known().keys())
        known = self._known()
        missing = wanted - known.keys()
        if missing:
            if gone := self._gone_for_sure(missing):
                self._lost(self._gone_text(gone))
            if missing := missing - gone:
                raise CollectorsUnreachable(
                    f"the batch needs events of the spool {', '.join(sorted(missing))}, and no"
                    f" collector that answers has it: {self._states()}; start that collector"
                    " again"
                )
        return {each: known[each].at for each in wanted & known.keys()}

    # -- the parts

    def _has_reached_target(self, start: Offsets) -> bool:
        """Return whether AvailableNow has read all that there was: no news can come."""
        target = self._target
        return target is not None and all(start.get(each, -1) >= target[each] for each in target)

    def _check_known(self) -> None:
        if not self._any_known():
            raise CollectorsUnreachable(
                f"no collector has answered within {self._settings.collector_timeout:g} s:"
                f" {self._states()}{self._advice()}"
            )

    async def _first_places(self) -> Offsets:
        """Return where a new query begins: at all collectors that answer in time.

        A collector that answers later begins at its oldest event, as a new one.
        """
        await self._wait_for(self._all_connected)
        self._check_known()
        starting = self._settings.starting
        wanted = starting if isinstance(starting, Offsets) else Offsets()
        self._start = wanted
        await self._round(self._settings.collector_timeout)
        held = self._held()
        self._check_named(wanted, "startingOffsets")
        begins: dict[str, int | None] = {}
        if isinstance(starting, Since):
            found = await self.since(starting)
            begins |= {each: found[each] for each in held if each in found}
            # One that has not answered begins later.
            held = {each: held[each] for each in held if each in begins or not starting.has(each)}
        for spool_id, member in held.items():
            if spool_id in begins:
                continue
            place: int | None = wanted.get(spool_id)
            if starting == "latest" and member.info is not None:
                place = member.info.head
            if place is not None:
                known = wanted.epochs.get(spool_id) if member.asked is not None else None
                place = self._place(spool_id, member, Need(place, known)).offset
            begins[spool_id] = place
        places = await self._begin(held, begins, self._settings.collector_timeout)
        if not places:
            raise CollectorsUnreachable(
                f"no collector has told where the query begins: {self._states()}"
            )
        return self._offsets(places)

    async def since(self, wanted: Since) -> dict[str, int]:
        """Return the offsets that stand for times, of the collectors that answer in time.

        Raises:
            CollectorsUnreachable: A spool that is named is not there, or a collector is too old.
        """
        self._check_named(wanted.spools, wanted.option)
        held = self._held()
        questions = {
            each: _look(member, since=wanted.of(each))
            for each, member in held.items()
            if wanted.has(each)
        }
        patience = self._settings.collector_timeout
        places = {}
        for spool_id, found in (await self._looks.ask(questions, patience)).items():
            if found.since is None:
                raise CollectorsUnreachable(
                    f"{held[spool_id].at}: this collector finds no events by their time, as it"
                    f" has an older version of rsocket-trio: update it, or do without the option"
                    f" {wanted.option}"
                )
            if found.spool_id == spool_id:
                places[spool_id] = found.since
        return places

    def _check_named(self, spool_ids: Iterable[str], option: str) -> None:
        for spool_id in spool_ids:
            if spool_id not in self._held():
                raise CollectorsUnreachable(
                    f"{option} names the spool {spool_id}, and no collector has it:"
                    f" {self._states()}"
                )

    def _offsets(self, needs: Mapping[str, Need]) -> Offsets:
        """Return offsets as Spark keeps them, with the name of this reader."""
        return Offsets(
            {each: need.offset for each, need in needs.items()},
            {each: need.epoch for each, need in needs.items() if need.epoch is not None},
            self._reader.instance,
        )

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something is true, or ``collectorTimeoutMs`` is over."""
        with trio.move_on_after(self._settings.collector_timeout):
            while not condition():
                await self._changed.wait()

    def _all_connected(self) -> bool:
        connected = [member.client is not None for member in self._members]
        return bool(connected) and all(connected)

    def _any_known(self) -> bool:
        self._reached |= any(member.info is not None for member in self._members)
        return self._reached

    def _held(self) -> dict[str, Member]:
        """Return the collectors that are connected, by their spools."""
        return {
            member.info.spool_id: member
            for member in reversed(self._members)
            if member.client is not None and member.info is not None
        }

    def _known(self) -> dict[str, Member]:
        """Return the collectors by their spools, also those that were lost."""
        lost = {member.info.spool_id: member for member in self._members if member.info}
        return lost | self._held()

    async def _round(self, patience: float | None = None) -> None:
        """Ask all collectors that are connected."""
        committed = self._committed or Offsets()
        asked = self._start.epochs
        questions = {
            each: Question(
                member,
                asked.get(each),
                partial(
                    member.ask,
                    self._reader,
                    _need(committed, each) if each in committed else None,
                    asked.get(each),
                ),
            )
            for each, member in self._held().items()
        }
        await self._news.ask(questions, ROUND if patience is None else patience)

    async def _begin(
        self, held: Mapping[str, Member], places: Mapping[str, int | None], patience: float
    ) -> dict[str, Need]:
        """Return the places where spools begin, of those that answer in time."""
        questions = {
            each: Question(
                held[each], (each, place), partial(held[each].begin, self._reader, each, place)
            )
            for each, place in places.items()
        }
        return await self._begins.ask(questions, patience)

    async def _end(self, start: Offsets, limit: Limit) -> tuple[Offsets, bool]:
        """Return how far a batch reads, and whether a collector has more than it has told."""
        held = self._held()
        missing = start.keys() - held.keys()
        end = {each: _need(start, each) for each in start}
        for each in held:
            self._gone.pop(each, None)
        if gone := self._gone_for_sure(missing):
            self._lost(self._gone_text(gone))
            end = {each: end[each] for each in end if each not in gone}
        places: dict[str, Need] = {}
        available: dict[str, int] = {}
        new: dict[str, int | None] = {}
        unknown = False
        for spool_id, member in held.items():
            info = member.info
            if info is None or (self._target is not None and spool_id not in self._target):
                continue
            if spool_id not in start:
                # Its place comes first, in a batch without its events. So the place is in Spark's
                # checkpoint before an event is read.
                new[spool_id] = None
                continue
            was = _need(start, spool_id)
            if was.epoch is not None and member.asked != was.epoch:
                unknown = True  # whether it is the spool that the query has read
                continue
            place = end[spool_id] = self._place(spool_id, member, was)
            if place.offset < was.offset:
                continue  # This batch ends there, so the next one begins there.
            head = info.head if self._target is None else min(info.head, self._target[spool_id])
            if head > place.offset:
                places[spool_id] = Need(place.offset, info.epoch)
                available[spool_id] = head - place.offset
        end |= await self._begin(held, new, ROUND)
        if (
            sum(available.values()) < (limit.least or 0)
            and self._target is None  # AvailableNow has a last batch, however small it is.
            and trio.current_time() < self._due
        ):
            available = {}
        waiting = unknown or bool(available)
        if limit.size is not None and available:
            await self._reach(held, places, available, limit.size)
        if limit.rows is not None:
            available = share(available, limit.rows)
        for spool_id, count in available.items():
            if count:
                self._due = trio.current_time() + self._settings.max_delay
                end[spool_id] = Need(places[spool_id].offset + count, places[spool_id].epoch)
        # Without a place, this would be a new query, which begins at `startingOffsets`.
        return self._offsets(end) if end else start, waiting

    def _place(self, spool_id: str, member: Member, was: Need) -> Need:
        """Return where to go on in a spool.

        Args:
            spool_id: The spool.
            member: Its collector.
            was: Where the query is. The collector has been asked about its epoch.

        Raises:
            DataLost: The events at this offset are gone.
        """
        info, offset = member.info, was.offset
        if info is None or info.spool_id != spool_id:
            return was
        # First, as a spool forgets the epochs of deleted events.
        if offset < info.oldest:
            self._lost(
                f"{member.at}: the events {offset} to {info.oldest} of the spool {spool_id}"
                " were deleted before the query read them: the consumer"
                f" {self._settings.consumer!r} or this instance of it was forgotten, the query was"
                " away for longer than its lease (option leaseMs) while others of its consumer"
                " read on, its checkpoint is an older copy or has one that is used too, or it is"
                " new and the others are ahead of it"
            )
            return Need(info.oldest, info.epoch)
        epoch_end = offset if was.epoch is None else info.epoch_end
        if epoch_end is None or epoch_end < offset:
            self._lost(
                f"{member.at}: the spool {spool_id} was restored from an older copy: the"
                f" query has read up to offset {offset} of a history that it does not have, and"
                " events that were stored after the copy are lost"
            )
            # What the copy shares with the spool that the query has read is not read again, if it
            # is known; and nothing is skipped.
            shared = info.oldest if epoch_end is None else max(epoch_end, info.oldest)
            return Need(min(shared, offset), info.epoch)
        if offset > info.head:
            self._lost(
                f"{member.at}: the query has read up to offset {offset} of the spool"
                f" {spool_id}, and it ends at {info.head}: it was replaced by an older copy"
            )
            return Need(info.head, info.epoch)
        return was

    async def _reach(
        self,
        held: Mapping[str, Member],
        places: Mapping[str, Need],
        available: dict[str, int],
        size: int,
    ) -> None:
        """Limit what is available to equal parts of a number of bytes."""
        part = max(1, size // len(available))
        counts = dict(available)
        available.update(dict.fromkeys(counts, 0))  # without an answer
        begins = {each: places[each].offset for each in counts}

        questions = {
            each: _look(held[each], reach_from=first, reach_size=part)
            for each, first in begins.items()
        }
        for spool_id, found in (await self._looks.ask(questions, ROUND)).items():
            reach = found.reach or 0
            available[spool_id] = min(max(0, reach - begins[spool_id]), counts[spool_id])

    # -- losses

    def _gone_for_sure(self, missing: Iterable[str]) -> set[str]:
        """Return those of some spools that are gone, if it is known.

        A collector that does not answer now may have one of them, and not more. To go on without
        events skips all these spools, so each collector must have answered before. Where
        collectors come and go, one that is not named now may come back.
        """
        spools = set(missing)
        unreached = sum(member.client is None for member in self._members)
        if len(spools) <= unreached or (unreached and not self._settings.fail_on_data_loss):
            self._gone.clear()
            return set()
        now = trio.current_time()
        for each in spools - self._gone.keys():
            self._gone[each] = now
            if self._gone_after:
                text = (
                    "no collector has the spool %s; the query keeps its place, and waits for it: %s"
                )
                logger.warning(text, each, self._states())
        return {each for each in spools if now >= self._gone[each] + self._gone_after}

    def _gone_text(self, missing: Iterable[str]) -> str:
        return (
            f"no collector has the spool {', '.join(sorted(missing))}, from which the query has"
            f" read: {self._states()}. If its collector was removed, start it again and let the"
            " query read the rest; if its disk is lost, its events are lost"
        )

    def _lost(self, text: str) -> None:
        if self._settings.fail_on_data_loss:
            raise DataLost(f"{text}. To go on without these events, set failOnDataLoss to false")
        logger.warning("%s; the query goes on without these events", text)

    def _states(self) -> str:
        """Return where the collectors are: of many, those first that cannot be reached."""
        lists = [f"the collectors are those of {each}" for each in self._lists]
        members = sorted(self._members, key=lambda member: member.client is not None)
        rest = [f"and {len(members) - _MOST_SHOWN} more"] if len(members) > _MOST_SHOWN else []
        states = "; ".join([*lists, *(each.state for each in members[:_MOST_SHOWN]), *rest])
        hint = self._hint()
        return f"{hint} ({states})" if hint else states

    def _advice(self) -> str:
        return "" if self._hint() else _ADVICE


def _need(offsets: Offsets, spool_id: str) -> Need:
    return Need(offsets[spool_id], offsets.epochs.get(spool_id))


def _look(member: Member, **asked: Any) -> Question[SpoolInfo]:
    return Question(member, tuple(asked.values()), partial(member.look, **asked))
