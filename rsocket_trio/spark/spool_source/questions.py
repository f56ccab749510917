"""Questions to collectors that outlive the patience of the caller: `Questions`.

Spark's call waits for a short time only, so that one slow collector does not hold up the others. A
question that was cancelled then would never be answered by a collector that is always slower than
this. So it goes on, and its answer counts in the next call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import attrs
import trio

from .member import Member

__all__ = ["Question", "Questions"]

_T = TypeVar("_T")
_Key = TypeVar("_Key", bound=Hashable)


class Question(NamedTuple, Generic[_T]):
    """A question to a collector.

    Attributes:
        member: The collector.
        about: What is asked. An answer about something else does not count.
        ask: Asks it; None is no answer. It does not raise, and gives up some time.
    """

    member: Member
    about: Hashable
    ask: Callable[[], Awaitable[_T | None]]


@attrs.define(eq=False)
class _Asked(Generic[_T]):
    """A question that was asked, and its answer, if there is one."""

    about: Hashable
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: _T | None = None


class Questions(Generic[_T]):
    """Questions of one kind: each collector has one of them at a time.

    Args:
        nursery: Where they are asked.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery: Final = nursery
        self._asked: Final[dict[Member, _Asked[_T]]] = {}

    async def ask(self, questions: Mapping[_Key, Question[_T]], patience: float) -> dict[_Key, _T]:
        """Ask, and return the answers that come in time.

        Args:
            questions: The questions by any key.
            patience: Seconds to wait.

        Checkpoint: always.
        If cancelled: the questions go on.
        """
        asked = {key: self._begin(question) for key, question in questions.items()}
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(patience):
            for each in asked.values():
                await each.answered.wait()
        found: dict[_Key, _T] = {}
        for key, each in asked.items():
            if each.answered.is_set():
                if each.answer is not None:
                    found[key] = each.answer
                if self._asked.get(questions[key].member) is each:
                    del self._asked[questions[key].member]
        return found

    def _begin(self, question: Question[_T]) -> _Asked[_T]:
        asked = self._asked.get(question.member)
        if asked is not None:
            has_failed = asked.answered.is_set() and asked.answer is None
            if asked.about == question.about and not has_failed:
                return asked
            asked.scope.cancel(reason="another question is asked")
        asked = self._asked[question.member] = _Asked(question.about)
        self._nursery.start_soon(_answer, asked, question.ask)
        return asked


async def _answer(asked: _Asked[_T], ask: Callable[[], Awaitable[_T | None]]) -> None:
    with asked.scope:
        asked.answer = await ask()
        asked.answered.set()
