"""Tools for tests: in-memory pairs, scripted peers, faults, a conformance suite for transports.

`strategies` needs hypothesis and `pytest_plugin` needs pytest, so import these modules by name.
"""

from ..transports.memory import memory_transport_pair
from .cancel_everywhere import cancel_everywhere
from .faulty import FaultyStream, FaultyTransport
from .frame_peer import FramePeer
from .in_memory import connected_pair, frame_peer_client, frame_peer_server
from .leaks import assert_no_leaks
from .peer import KnownAnswers
from .transport_suite import MakePair, check_transport

__all__ = [
    "FaultyStream",
    "FaultyTransport",
    "FramePeer",
    "KnownAnswers",
    "MakePair",
    "assert_no_leaks",
    "cancel_everywhere",
    "check_transport",
    "connected_pair",
    "frame_peer_client",
    "frame_peer_server",
    "memory_transport_pair",
]
