"""The phases of a connection: each part learns of the end once, and in a fixed order."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import ClosedByPeer, ConnectionClosed, ConnectionLost, RemoteProtocolError
from rsocket_trio.connection.lifecycle import Lifecycle
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, decode


class Watched(Lifecycle):
    """Notes the parts that it tells of the end."""

    def __init__(self, *, established=True):
        super().__init__(established=established, peer=lambda: "a peer")
        self.told = []
        self.on_end += [lambda *told: self.told.append(("first", *told)), self._second]
        self.on_drain.append(lambda error: self.told.append(("drain", error)))

    def _second(self, error, last_words):
        # A part may look at the state when it is told: the state is final, and no task has been
        # woken.
        assert self.failure is error
        assert not self.ended.is_set()
        self.told.append(("second", error, last_words))


def test_the_end_comes_once():
    """The first reason counts; all parts learn it in order, then waiting tasks are woken."""
    lifecycle = Watched()
    reason = ConnectionLost("gone")
    lifecycle.end(reason, last_words=b"frame")
    lifecycle.end(ConnectionLost("later"))
    assert lifecycle.told == [("first", reason, b"frame"), ("second", reason, b"frame")]
    assert lifecycle.failure is reason
    assert lifecycle.ended.is_set()


def test_acceptance_and_end_wake_tasks_that_wait_for_acceptance():
    """An acceptance is remembered; an end is not an acceptance."""
    accepted, ended = Watched(established=False), Watched(established=False)
    accepted.accepted()
    ended.close()
    assert accepted.acceptance.is_set()
    assert ended.acceptance.is_set()
    assert (accepted.established, ended.established) == (True, False)
    assert accepted.failure is None


@pytest.mark.parametrize(
    ("end", "kind", "words"),
    [
        (lambda it: it.close(), trio.ClosedResourceError, None),
        (lambda it: it.lost(OSError("cable")), ConnectionLost, None),
        (lambda it: it.give_up("silent"), ConnectionLost, b"silent"),
        (lambda it: it.protocol_error(RemoteProtocolError("junk")), ConnectionClosed, b"junk"),
    ],
    ids=["close", "lost", "give_up", "protocol_error"],
)
def test_the_reason_is_sent_to_some_peers_only(end, kind, words):
    """Only a peer that is silent, or breaks the rules, gets the reason."""
    lifecycle = Watched()
    end(lifecycle)
    assert type(lifecycle.failure) is kind
    _, _, frame = lifecycle.told[0]
    if words is None:
        assert frame is None
    else:
        assert decode(frame) == ErrorFrame(0, ErrorCode.CONNECTION_ERROR, words)


def test_causes_are_kept():
    """The error of the transport, or of the protocol, is the cause of the reason."""
    cable, junk = OSError("cable"), RemoteProtocolError("junk")
    lost, wrong = Watched(), Watched()
    lost.lost(cable)
    wrong.protocol_error(junk)
    assert lost.failure.__cause__ is cable
    assert wrong.failure.__cause__ is junk


@pytest.mark.parametrize(
    "cut",
    [
        lambda it: it.lost(OSError("cable")),
        lambda it: it.give_up("silent"),
        lambda it: it.peer_ended(),
    ],
    ids=["lost", "give_up", "peer_ended"],
)
def test_an_announced_end_stays_the_reason(cut):
    """What cuts a draining short is its cause only: a peer that stops did not crash."""
    lifecycle = Watched()
    announced = ClosedByPeer("stopping", code=ErrorCode.CONNECTION_CLOSE)
    lifecycle.drain(announced)
    cut(lifecycle)
    assert lifecycle.failure is announced
    assert isinstance(announced.__cause__, ConnectionLost)


def test_a_close_of_our_own_is_no_announced_end():
    """Who closes here gets the error of trio for that, also while the peer stops."""
    lifecycle = Watched()
    lifecycle.drain(ClosedByPeer("stopping", code=ErrorCode.CONNECTION_CLOSE))
    lifecycle.close()
    assert isinstance(lifecycle.failure, trio.ClosedResourceError)


def test_draining_refuses_new_streams():
    """Once the connection is idle, it ends with the reason of the draining."""
    lifecycle = Watched()
    idle = False
    lifecycle.is_idle = lambda: idle
    reason = ConnectionClosed("enough")
    lifecycle.check_drained()
    assert lifecycle.failure is None
    lifecycle.drain(reason)
    lifecycle.drain(ConnectionClosed("again"))
    assert lifecycle.told == [("drain", reason)]
    lifecycle.check_drained()
    assert lifecycle.failure is None
    idle = True
    lifecycle.check_drained()
    assert lifecycle.failure is reason


def test_draining_an_idle_connection_ends_it():
    """There is no stream to wait for."""
    lifecycle = Watched()
    lifecycle.is_idle = lambda: True
    reason = ConnectionClosed("enough")
    lifecycle.drain(reason)
    assert lifecycle.failure is reason


def test_a_closed_connection_is_not_drained():
    """No part is told of a draining after the end."""
    lifecycle = Watched()
    lifecycle.close()
    lifecycle.drain(ConnectionClosed("enough"))
    assert [what for what, *_ in lifecycle.told] == ["first", "second"]
    assert lifecycle.announced is None
