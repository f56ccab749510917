"""What becomes of a connection: who is told what, in which order, and that it happens once."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import ConnectionClosed, ConnectionLost, RemoteProtocolError
from rsocket_trio.connection.lifecycle import Lifecycle
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, decode


class Watched(Lifecycle):
    """Notes whom it tells what."""

    def __init__(self, *, established=True):
        super().__init__(established=established, peer=lambda: "somebody")
        self.told = []
        self.on_end += [lambda *told: self.told.append(("first", *told)), self._second]
        self.on_drain.append(lambda error: self.told.append(("drain", error)))

    def _second(self, error, last_words):
        # Whoever is told may look: the state is as it will be, and nobody has been woken.
        assert self.failure is error
        assert not self.ended.is_set()
        self.told.append(("second", error, last_words))


def test_the_end_comes_once():
    """The first reason counts; all are told it in order, and then those who wait are woken."""
    lifecycle = Watched()
    reason = ConnectionLost("gone")
    lifecycle.end(reason, last_words=b"frame")
    lifecycle.end(ConnectionLost("later"))
    assert lifecycle.told == [("first", reason, b"frame"), ("second", reason, b"frame")]
    assert lifecycle.failure is reason
    assert lifecycle.ended.is_set()


def test_who_waits_for_acceptance_is_woken_by_either():
    """By the acceptance, which is remembered; and by an end, which is none."""
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
def test_ways_to_end(end, kind, words):
    """Only a peer that is of no use, or talks nonsense, is told why."""
    lifecycle = Watched()
    end(lifecycle)
    assert type(lifecycle.failure) is kind
    _, _, frame = lifecycle.told[0]
    if words is None:
        assert frame is None
    else:
        assert decode(frame) == ErrorFrame(0, ErrorCode.CONNECTION_ERROR, words)


def test_causes_are_kept():
    """What broke the transport, or the rules, is the cause of the reason."""
    cable, junk = OSError("cable"), RemoteProtocolError("junk")
    lost, wrong = Watched(), Watched()
    lost.lost(cable)
    wrong.protocol_error(junk)
    assert lost.failure.__cause__ is cable
    assert wrong.failure.__cause__ is junk


def test_draining():
    """No new streams; the connection ends, with the reason of the draining, once it is idle."""
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


def test_draining_what_is_idle_ends_it():
    """There is nothing to wait for."""
    lifecycle = Watched()
    lifecycle.is_idle = lambda: True
    reason = ConnectionClosed("enough")
    lifecycle.drain(reason)
    assert lifecycle.failure is reason


def test_what_is_over_is_not_drained():
    """Nobody is told of a draining after the end."""
    lifecycle = Watched()
    lifecycle.close()
    lifecycle.drain(ConnectionClosed("enough"))
    assert [what for what, *_ in lifecycle.told] == ["first", "second"]
    assert lifecycle.draining is None
