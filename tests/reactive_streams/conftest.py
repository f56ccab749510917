"""What the tests of Reactive Streams share."""

from __future__ import annotations

import pytest

from rsocket_trio.reactive_streams.emission import TURN


@pytest.fixture(autouse=True)
def fresh_turn():
    """Let no test begin where another one has used up the turn: its loops would pause at once."""
    TURN.spent = 0
