"""Connections to responders that are not there."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.spark.failures import ReadFailed
from rsocket_trio.spark.options import Options
from rsocket_trio.spark.rsocket_source.connecting import connected
from rsocket_trio.spark.rsocket_source.settings import read_settings


async def test_a_long_wait_is_not_silent(tmp_path, autojump_clock, caplog):
    """One warning says what is tried for a minute; the error comes at its end."""
    settings = read_settings(Options({"uri": f"unix://{tmp_path}/no.sock"}))
    with pytest.raises(ReadFailed, match=r"within 60 s .*No such file"):
        async with connected(settings):
            pass
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "No such file or directory; trying again for up to" in record.message
    assert trio.current_time() <= 61


async def test_a_short_wait_says_nothing(tmp_path, autojump_clock, caplog):
    """A responder that restarts is back within two seconds, often."""
    settings = read_settings(Options({"uri": f"unix://{tmp_path}/no.sock", "timeoutMs": "1500"}))
    with pytest.raises(ReadFailed):
        async with connected(settings):
            pass
    assert not caplog.records


async def test_the_time_may_be_over(tmp_path, autojump_clock):
    """After a wait that ended late. The error is that of a connection, also then."""
    settings = read_settings(Options({"uri": f"unix://{tmp_path}/no.sock"}))
    with pytest.raises(ReadFailed, match="no connection"):
        async with connected(settings, within=-0.001):
            pass
