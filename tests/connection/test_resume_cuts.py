"""A session whose connection is cut at any byte delivers the same as an uncut one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

_SPEC = importlib.util.spec_from_file_location(
    "resume_network", Path(__file__).with_name("resume_network.py")
)
net = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(net)


def run(cuts):
    return trio.run(net.run_with_cuts, cuts, clock=trio.testing.MockClock(autojump_threshold=0))


WHOLE, _, (SENT, RECEIVED) = run([])


def test_the_uncut_run_is_correct():
    """The other runs are compared with this one."""
    assert len(WHOLE["responses"]) == 8
    assert WHOLE["stream"] == [b"%d " % number * 30 for number in range(15)]
    assert WHOLE["channel"] == [b"%d" % number * 50 for number in range(10)]
    assert WHOLE["told"] == [b"%d" % number * 20 for number in range(10)]
    assert WHOLE["counted"] == [b"%d " % number * 30 for number in range(12)]


@pytest.mark.parametrize("sent", [True, False], ids=["sent", "received"])
def test_one_cut_anywhere(sent):
    """One cut, every 13 bytes of the stream, in either direction: no payload is lost or doubled."""
    for at in range(1, (SENT if sent else RECEIVED) - 300, 13):
        heard, resumed, _ = run([(sent, at)])
        assert heard == WHOLE, f"cut after {at} bytes"
        assert resumed == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(23, 1500)), min_size=2, max_size=25))
def test_many_cuts_anywhere(cuts):
    """Many cuts at any bytes, in either direction: the same payloads are delivered."""
    heard, resumed, _ = run(cuts)
    assert heard == WHOLE
    assert resumed


@pytest.mark.parametrize("seed", range(5))
def test_cuts_within_the_handshake_too(seed):
    """Cuts of a few bytes hit RESUME and RESUME_OK as well, and cost another attempt."""
    heard, resumed, _ = run(net.random_cuts(seed, 30, 60))
    assert heard == WHOLE
    assert resumed >= 15
