from __future__ import annotations

import subprocess
import sys

from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from rsocket_trio.frames import (
    ErrorFrame,
    ExtFrame,
    Frame,
    PayloadFrame,
    RequestStreamFrame,
    decode,
)
from rsocket_trio.testing import strategies


@given(strategies.frames())
@settings(max_examples=200)
def test_every_frame_can_be_encoded_and_decoded(frame):
    """The codec writes each frame of the strategies, and reads back the same frame."""
    assert decode(frame.encode()) == frame


def test_every_frame_type_is_drawn():
    """The strategies make every frame type."""
    drawn_only = settings(phases=[Phase.generate], max_examples=5000, database=None)
    for kind in Frame.__args__:
        find(
            strategies.frames(),
            lambda frame, kind=kind: isinstance(frame, kind),
            settings=drawn_only,
        )


@given(strategies.stream_frames(st.sampled_from([1, 3]), max_size=2))
@settings(max_examples=100)
def test_stream_frames_have_the_given_ids_and_sizes(frame):
    """The caller decides on the streams, and on the length of the data."""
    assert frame.stream_id in {1, 3}
    assert len(getattr(frame, "data", b"")) <= 2
    assert len(getattr(frame, "metadata", None) or b"") <= 2


@given(strategies.connection_frames())
@settings(max_examples=100)
def test_connection_frames_are_on_stream_zero(frame):
    """An ERROR among them has a code for stream 0."""
    assert frame.stream_id == 0
    assert not isinstance(frame, ErrorFrame | ExtFrame) or frame.code < 0x201


@given(strategies.stream_frames())
@settings(max_examples=100)
def test_values_are_legal(frame):
    """Credits are positive and a PAYLOAD is an item, a completion, or both."""
    if isinstance(frame, PayloadFrame):
        assert frame.next or frame.complete
    if isinstance(frame, RequestStreamFrame):
        assert frame.initial_request_n > 0


def test_empty_and_absent_metadata_are_both_drawn():
    """They are different cases, and both come up."""
    find(strategies.payloads(), lambda payload: payload.metadata is None)
    find(strategies.payloads(), lambda payload: payload.metadata == b"")


def test_without_hypothesis_the_extra_is_named():
    """Importing the strategies without hypothesis says what to install."""
    script = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import rsocket_trio.testing.frame_peer\n"
        "import rsocket_trio.testing.strategies\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'rsocket-trio[test]'" in done.stderr
