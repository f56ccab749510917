"""What a handler leaves behind in its task harms no other connection."""

from __future__ import annotations

import pytest
import trio

from tests.lumberjack.receiving import full_window, served, shared
from tests.misuses import MISUSES, TOUCHED, assert_clean


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("misuse", MISUSES)
async def test_a_handler_that_misuses_its_task(misuse, autojump_clock, caplog):
    """Its own batch may fail, and its connection with it; others are acknowledged."""
    wrong = []

    async def handler(batch):
        if len(batch) == 1:
            await misuse()
            return
        try:
            assert_clean()
            await trio.sleep(0.1)
            assert_clean()
        except AssertionError as error:
            wrong.append(error)

    of_all = shared(handler)
    async with served(of_all) as innocent, served(of_all) as guilty:
        for _ in range(3):
            await guilty.sender.send(full_window(1))
            await innocent.sender.send(full_window(2))
            assert await innocent.sender.ack() == (2, 2)
            if guilty.over.is_set():
                break
    assert wrong == []
    assert not TOUCHED.get()
    assert "please report" not in caplog.text
