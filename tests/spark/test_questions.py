"""Questions to collectors that are slower than the caller waits."""

from __future__ import annotations

import math

import pytest
import trio

pytest.importorskip("pyspark")

from rsocket_trio.spark.spool_source.addresses import Address
from rsocket_trio.spark.spool_source.member import Member
from rsocket_trio.spark.spool_source.questions import Question, Questions
from rsocket_trio.testing import cancel_everywhere


class Asked:
    """Questions that take some seconds each, and how many were asked and answered."""

    def __init__(self, seconds, answer=7):
        self.member = Member(Address(""), lambda: None, math.inf)
        self.seconds = seconds
        self.answer = answer
        self.asked = self.answered = 0

    def about(self, about=None):
        return Question(self.member, about, self._ask)

    async def _ask(self):
        self.asked += 1
        await trio.sleep(self.seconds)
        self.answered += 1
        return self.answer


async def test_a_late_answer_counts_in_a_later_call(nursery, autojump_clock):
    """And a slow collector does not hold up a quick one."""
    questions, slow, quick = Questions[int](nursery), Asked(2.5), Asked(0)
    both = {"slow": slow.about(), "quick": quick.about()}
    assert await questions.ask(both, 1) == {"quick": 7}
    assert await questions.ask(both, 1) == {"quick": 7}
    assert trio.current_time() == pytest.approx(2)
    assert await questions.ask(both, 1) == {"slow": 7, "quick": 7}
    assert trio.current_time() == pytest.approx(2.5)
    assert (slow.asked, quick.asked) == (1, 3)


async def test_an_answer_to_another_question_does_not_count(nursery, autojump_clock):
    """The old question is cancelled: there is one for each collector."""
    questions, asked = Questions[int](nursery), Asked(1.5)
    assert await questions.ask({"": asked.about("old")}, 1) == {}
    assert await questions.ask({"": asked.about("new")}, 1) == {}
    await trio.sleep(1)
    assert (asked.asked, asked.answered) == (2, 1)
    assert await questions.ask({"": asked.about("new")}, 1) == {"": 7}
    assert asked.asked == 2


async def test_no_answer_is_asked_again(nursery, autojump_clock):
    questions, asked = Questions[int](nursery), Asked(1.5, None)
    assert await questions.ask({"": asked.about()}, 1) == {}
    await trio.sleep(1)
    asked.answer = 8
    assert await questions.ask({"": asked.about()}, 2) == {"": 8}
    assert asked.asked == 2


async def test_a_cancelled_caller_leaves_the_question(nursery):
    questions, asked = Questions[int](nursery), Asked(0)

    async def check():
        assert await questions.ask({"": asked.about()}, math.inf) == {"": 7}

    assert await cancel_everywhere(check, check) > 1
    assert await questions.ask({}, 1) == {}
