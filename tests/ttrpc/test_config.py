"""What `TtrpcConfig` and `TtrpcLimits` refuse."""

from __future__ import annotations

import math

import attrs
import pytest

from rsocket_trio.ttrpc import AnyMessage, TtrpcConfig, TtrpcLimits, connect
from rsocket_trio.ttrpc.wire.frames import MAX_BODY

TIMES = ("overflow_patience", "connect_timeout", "half_close_timeout", "close_timeout")


@pytest.mark.parametrize("name", [each.name for each in attrs.fields(TtrpcLimits)])
@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1", None])
def test_limits_are_counts(name, wrong):
    with pytest.raises((TypeError, ValueError), match=name):
        TtrpcLimits(**{name: wrong})
    others = {"max_control_size": 1} if name == "max_unsent_control_size" else {}
    assert getattr(TtrpcLimits(**{name: 1}, **others), name) == 1


def test_the_longest_message_is_that_of_the_protocol():
    assert TtrpcLimits(max_message_size=MAX_BODY).max_message_size == MAX_BODY
    with pytest.raises(ValueError, match="max_message_size"):
        TtrpcLimits(max_message_size=MAX_BODY + 1)


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, "1", None, True])
def test_times_are_seconds(name, wrong):
    with pytest.raises((TypeError, ValueError), match=name):
        TtrpcConfig(**{name: wrong})
    assert getattr(TtrpcConfig(**{name: math.inf}), name) == math.inf


def test_every_time_is_tested():
    others = {"limits", "overflow"}
    assert {each.name for each in attrs.fields(TtrpcConfig)} == {*TIMES, *others}


@pytest.mark.parametrize(
    "wrong", [{"overflow": "drop"}, {"overflow": None}, {"limits": 5}, {"limits": TtrpcLimits}]
)
def test_other_wrong_values(wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        TtrpcConfig(**wrong)


async def test_a_config_is_a_config():
    with pytest.raises(TypeError, match="config must be a TtrpcConfig, not TtrpcLimits"):
        async with connect("unix:///nowhere", config=TtrpcLimits()):
            pass


@pytest.mark.parametrize("wrong", [("t", "text"), (b"t", b""), ("t", None)])
def test_a_message_of_any_type_is_a_text_and_bytes(wrong):
    with pytest.raises(TypeError, match=r"AnyMessage\.(type_url|value) must be"):
        AnyMessage(*wrong)
