"""Tools for tests: in-memory pairs, scripted peers, faults, a conformance suite for transports.

`strategies` needs hypothesis and `pytest_plugin` needs pytest, so import these modules by name.

The modules, in reading order:

- ``in_memory``: connections between two ends in one process
- ``memory``: how much memory something takes
- ``frame_peer``: a peer that sends and receives single frames
- ``frame_log``: remembers the frames that pass, and counts demand
- ``faulty``: streams and transports with faults
- ``fault_proxy``: a proxy with faults between two programs
- ``serving``: an application on free ports
- ``programs``: runs any program beside a test
- ``cancel_everywhere``: cancels code at each of its checkpoints
- ``leaks``: whether connections leave anything behind
- ``transport_suite``: a conformance suite for transports
- ``peer``: an RSocket server with known answers
- ``ttrpc_peer``: a ttrpc server with known answers
- ``rsio_peer``: publishers of rsio with known elements
- ``rsio_reflection``: the one of them that subscribes to the peer
- ``rsio_usage``: counts their subscriptions
- ``rsio_conformance``: the rules of rsio/0 as tests of any implementation
- ``strategies``: strategies of hypothesis for frames and payloads
- ``pytest_plugin``: fixtures for pytest
"""

from ..transports.memory import memory_transport_pair
from .cancel_everywhere import cancel_everywhere
from .fault_proxy import Fault, FaultProxy, ProxiedFrame, Script, fault_proxy
from .faulty import FaultyStream, FaultyTransport
from .frame_log import End, FrameLog, Passed, recorded
from .frame_peer import FramePeer
from .in_memory import PairOptions, connected_pair, frame_peer_client, frame_peer_server, served
from .leaks import assert_no_leaks
from .peer import KnownAnswers
from .programs import Program, started
from .serving import ServeOptions, serving
from .transport_suite import MakePair, check_transport

__all__ = [
    "End",
    "Fault",
    "FaultProxy",
    "FaultyStream",
    "FaultyTransport",
    "FrameLog",
    "FramePeer",
    "KnownAnswers",
    "MakePair",
    "PairOptions",
    "Passed",
    "Program",
    "ProxiedFrame",
    "Script",
    "ServeOptions",
    "assert_no_leaks",
    "cancel_everywhere",
    "check_transport",
    "connected_pair",
    "fault_proxy",
    "frame_peer_client",
    "frame_peer_server",
    "memory_transport_pair",
    "recorded",
    "served",
    "serving",
    "started",
]
