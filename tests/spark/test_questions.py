"""Questions to collectors, in virtual time: a late answer counts, and holds up no other one."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import trio

from rsocket_trio.spark.spool_source.questions import Question, Questions
from rsocket_trio.testing import cancel_everywhere


class Collector:
    """Answers how often it was asked, after some seconds."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.asked = 0

    def question(self, about=None):
        return Question(self, about, self.answer)

    async def answer(self):
        self.asked += 1
        number = self.asked
        await trio.sleep(self.seconds)
        return number


async def test_a_late_answer_counts(autojump_clock, nursery):
    """Rounds end without it, and do not ask again, until it is there."""
    quick, slow = Collector(0.1), Collector(1.2)
    asked = Questions(nursery)
    began = trio.current_time()
    found = []
    for _ in range(3):
        found.append(await asked.ask({"q": quick.question(), "s": slow.question()}, 0.5))
    assert found == [{"q": 1}, {"q": 2}, {"q": 3, "s": 1}]
    assert trio.current_time() - began == pytest.approx(1.2)
    assert slow.asked == 1
    assert await asked.ask({"s": slow.question()}, 2) == {"s": 2}


async def test_an_answer_about_something_else_does_not_count(autojump_clock, nursery):
    slow = Collector(1)
    asked = Questions(nursery)
    assert await asked.ask({"s": slow.question("first")}, 0.5) == {}
    assert await asked.ask({"s": slow.question("second")}, 0.9) == {}
    assert await asked.ask({"s": slow.question("second")}, 0.2) == {"s": 2}


async def test_no_questions(autojump_clock, nursery):
    """There is nothing to wait for."""
    began = trio.current_time()
    assert await Questions(nursery).ask({}, 5) == {}
    assert trio.current_time() == began


async def test_cancelled_rounds(nursery):
    """The questions go on to their ends, and can be asked again."""
    collector = Collector(0)
    asked = Questions(nursery)

    async def check():
        assert (await asked.ask({"key": collector.question()}, 30)).keys() == {"key"}

    assert await cancel_everywhere(lambda: asked.ask({"key": collector.question()}, 30), check) > 1
