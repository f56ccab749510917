"""Questions to collectors, in virtual time: a late answer counts, and holds up no other one."""

from __future__ import annotations

from functools import partial

import trio

from rsocket_trio.spark.spool_source.questions import Questions
from rsocket_trio.testing import cancel_everywhere


async def test_a_late_answer_counts(autojump_clock, nursery):
    """The round ends without it. Later rounds do not wait for it, and do not ask again."""
    answers, ended = [], []

    async def answer(name, seconds):
        await trio.sleep(seconds)
        answers.append(name)

    asked = Questions(nursery, lambda: ended.append(trio.current_time() - began))
    began = trio.current_time()
    questions = {"quick": partial(answer, "quick", 0.1), "slow": partial(answer, "slow", 3)}
    await asked.ask(questions, 0.5)
    assert trio.current_time() - began == 0.5
    assert answers == ["quick"]
    for turn in range(1, 4):
        await asked.ask(questions, 0.5)
        assert round(trio.current_time() - began, 3) == 0.5 + turn / 10
    assert answers == 4 * ["quick"]
    await trio.sleep(3)
    assert answers == [*(4 * ["quick"]), "slow"]
    await asked.ask({"slow": partial(answer, "slow again", 0.2)}, 0.5)
    assert answers[-1] == "slow again"
    assert [round(each, 3) for each in ended] == [0.1, 0.6, 0.7, 0.8, 3.0, 4.0]


async def test_no_questions(autojump_clock, nursery):
    """There is nothing to wait for."""
    began = trio.current_time()
    await Questions(nursery, lambda: None).ask({}, 5)
    assert trio.current_time() == began


async def test_cancelled_rounds(nursery):
    """The questions go on to their ends, and can be asked again."""
    asked = Questions(nursery, lambda: None)
    answers: list[str] = []

    async def answer():
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        answers.append("here")

    async def check():
        while asked._open:
            await trio.lowlevel.checkpoint()
        answers.clear()
        await asked.ask({"key": answer}, 30)
        assert answers == ["here"]

    assert await cancel_everywhere(lambda: asked.ask({"key": answer}, 30), check) > 3
