"""Attempts to connect, within a time."""

from __future__ import annotations

import pytest

from rsocket_trio.spark.options import Options
from rsocket_trio.spark.rsocket_source.connecting import connected
from rsocket_trio.spark.rsocket_source.failures import ReadFailed
from rsocket_trio.spark.rsocket_source.settings import read_settings


@pytest.mark.parametrize("within", [0.0, -0.1])
async def test_the_time_is_over_before_an_attempt(within):
    """A busy machine wakes a task late; then the error is the usual one."""
    settings = read_settings(Options({"uri": "tcp://127.0.0.1:1", "route": "rows"}))
    with pytest.raises(ReadFailed, match=r"no connection to tcp://127\.0\.0\.1:1"):
        async with connected(settings, within=within):
            raise AssertionError("there is no such responder")
