"""How far a batch goes that has a limit of bytes, as the collectors tell: `Reaches`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import attrs

from ...errors import RSocketError
from ...log_policy import logger
from .member import Member
from .questions import Questions

__all__ = ["Reaches"]


@attrs.frozen
class _Reach:
    """How many events from a place on take no more than a number of bytes."""

    place: int
    size: int
    events: int


class Reaches:
    """Asks collectors how many events make a number of bytes.

    Args:
        questions: Where the questions run.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions: Final = questions
        self._answers: Final[dict[str, _Reach]] = {}

    async def limited(
        self,
        held: Mapping[str, Member],
        places: Mapping[str, int],
        available: Mapping[str, int],
        size: int,
        seconds: float,
    ) -> dict[str, int]:
        """Return how many events of each spool a batch takes.

        Args:
            held: The collectors by their spools.
            places: Where the batch begins.
            available: How many events there are.
            size: The limit, of which each spool has an equal part.
            seconds: How long to wait for answers. A spool without one has no events; its answer
                counts in the next call.

        Checkpoint: always.
        If cancelled: no answer is lost.
        """
        part = max(1, size // len(available))
        questions = {
            (held[each], "reach"): partial(self._ask, each, held[each], places[each], part)
            for each in available
            if self._answer(each, places[each], part) is None
        }
        await self._questions.ask(questions, seconds)
        limited = dict.fromkeys(available, 0)
        for spool_id, count in available.items():
            answer = self._answer(spool_id, places[spool_id], part)
            if answer is not None:
                limited[spool_id] = min(answer.events, count)
                del self._answers[spool_id]  # There can be more events when it is asked again.
        return limited

    def _answer(self, spool_id: str, place: int, size: int) -> _Reach | None:
        """Return an answer that holds for a batch."""
        found = self._answers.get(spool_id)
        return None if found is None or found.place != place or found.size > size else found

    async def _ask(self, spool_id: str, member: Member, place: int, size: int) -> None:
        self._answers[spool_id] = _Reach(place, size, await self.reach_of(member, place, size))

    async def reach_of(self, member: Member, place: int, size: int) -> int:
        """Return how many events from a place on take so many bytes; 0 without an answer."""
        client = member.client
        if client is None:
            return 0
        try:
            info = await client.info(reach_from=place, reach_size=size)
        except RSocketError as error:
            logger.warning("%s: the collector refused a request: %s", member.uri, error)
            return 0
        return 0 if info.reach is None else max(0, info.reach - place)
