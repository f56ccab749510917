"""Admission to a session on resumption: the decision of the responder."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Rejected, RejectedResume, RejectedSetup, Responder
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, KeepaliveFrame, PayloadFrame, RequestResponseFrame
from rsocket_trio.testing.peer import KnownAnswers
from tests.resumable_server import NO_SESSION, OK, RESUME, Server, setup


class Watchful(Responder):
    """Decides about resumption as the test says."""

    def __init__(self, decide):
        self.decide = decide
        self.asked = []

    async def accept_resume(self, facts):
        self.asked.append(facts)
        await self.decide(facts)

    async def request_response(self, payload):
        return payload


async def admit(facts): ...


async def test_a_responder_may_decide(nursery):
    """`Responder.accept_resume` replaces the default, each time."""
    watchful = Watchful(admit)
    server = Server(nursery, watchful)
    async with server.session(listener="one"):
        pass
    assert await server.resume(listener="two") == OK
    assert await server.resume(listener="three", peer="there") == OK
    assert [facts.setup.transport.listener for facts in watchful.asked] == ["one", "one"]
    assert [facts.transport.listener for facts in watchful.asked] == ["two", "three"]
    assert watchful.asked[0].principal is None
    nursery.cancel_scope.cancel()


async def test_the_responder_of_the_connection_decides(nursery):
    """The responder that the acceptor returned decides, also if it is not the acceptor."""
    watchful = Watchful(admit)

    async def accept(setup, requester):
        return watchful

    server = Server(nursery, accept)
    async with server.session():
        pass
    assert await server.resume() == OK
    assert len(watchful.asked) == 1
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RejectedResume("no"), ErrorCode.REJECTED_RESUME, b"no"),
        (RejectedResume("now", code=0x101), ErrorCode.CONNECTION_ERROR, b"now"),
        (RejectedResume("odd", code=0x301), ErrorCode.REJECTED_RESUME, b"odd"),
        (Rejected("no"), ErrorCode.REJECTED_RESUME, b"no"),
        (RejectedSetup("no"), ErrorCode.REJECTED_RESUME, b"no"),
        (KeyError("secret"), ErrorCode.REJECTED_RESUME, b"the acceptor failed"),
        (GeneratorExit(), ErrorCode.REJECTED_RESUME, b"the acceptor failed"),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("grouped", [False, True])
async def test_refusals_reach_the_client(nursery, error, code, text, grouped, caplog):
    """The client gets the text that is meant for it; the session goes on on its connection."""

    async def refuse(facts):
        if grouped:
            async with trio.open_nursery():
                raise error
        raise error

    server = Server(nursery, Watchful(refuse))
    async with server.session() as owner:
        assert await server.resume() == ErrorFrame(0, code, text)
        await owner.expect_alive()
        await owner.send(RequestResponseFrame(1, data=b"still here"))
        assert (await owner.receive(PayloadFrame)).data == b"still here"
    assert ("secret" in caplog.text) is isinstance(error, KeyError)
    nursery.cancel_scope.cancel()


async def test_a_late_decision_is_a_refusal(nursery, autojump_clock, caplog):
    """A decision that does not come in time refuses the client."""

    async def ponder(facts):
        await trio.sleep_forever()

    server = Server(nursery, Watchful(ponder), config=ConnectionConfig(setup_timeout=3))
    async with server.session() as owner:
        start = trio.current_time()
        answer = await server.resume()
        assert answer.data == b"the acceptor did not answer in time"
        assert 3 <= trio.current_time() - start < 5
        await owner.expect_alive()
    assert "did not answer within 3 s" in caplog.text
    nursery.cancel_scope.cancel()


async def test_no_change_before_the_admission(nursery):
    """Until the decision nothing changes, and frames behind the RESUME are not read."""
    go = trio.Event()

    async def ponder(facts):
        await go.wait()

    class Counting(Watchful):
        count = 0

        async def request_response(self, payload):
            self.count += 1
            return payload

    counting = Counting(ponder)
    server = Server(nursery, counting)
    async with server.session() as owner:
        async with server.dial() as other:
            await other.send(RESUME, RequestResponseFrame(1, data=b"x"))
            await other.expect_nothing()
            assert counting.count == 0
            await owner.expect_alive()
            go.set()
            # The position counts the frames that were received until the admission.
            assert await other.receive() == OK
            assert (await other.receive(PayloadFrame)).data == b"x"
            await owner.expect_closed()
    nursery.cancel_scope.cancel()


async def test_a_session_that_ends_during_the_decision(nursery):
    """A decision about one session does not hold for another session of the same token."""
    go = trio.Event()

    async def ponder(facts):
        await go.wait()

    server = Server(nursery, Watchful(ponder))
    async with server.dial() as other:
        async with server.session() as owner:
            await other.send(RESUME)
            await other.expect_nothing()
            await owner.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE))
            await owner.expect_closed()
        await trio.testing.wait_all_tasks_blocked()
        async with server.session() as successor:
            go.set()
            assert await other.receive() == NO_SESSION
            await successor.expect_alive()
    nursery.cancel_scope.cancel()


async def test_a_session_that_is_not_accepted_yet_cannot_be_resumed(nursery):
    """A client that is not admitted yet has no session to resume."""
    go = trio.Event()

    async def accept(setup, requester):
        await go.wait()
        return KnownAnswers()

    server = Server(nursery, accept)
    async with server.dial() as owner:
        await owner.send(setup(), KeepaliveFrame(respond=True))
        await owner.expect_nothing()
        assert await server.resume() == NO_SESSION
        go.set()
        await owner.receive(KeepaliveFrame)
        assert await server.resume() == OK
    nursery.cancel_scope.cancel()
