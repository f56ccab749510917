"""metadata_push: the metadata that fit into one frame."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames import MetadataPushFrame
from rsocket_trio.interactions.metadata_push import check_metadata_push


def test_metadata_that_fill_a_frame_fit():
    """One byte more does not fit, and METADATA_PUSH has no fragments."""
    largest = bytes(94)
    assert len(MetadataPushFrame(largest).encode()) == 100
    check_metadata_push(largest, 100)
    with pytest.raises(LocalProtocolError, match="at most 94 bytes, as it is one frame, not 95"):
        check_metadata_push(largest + b"!", 100)
