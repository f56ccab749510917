"""Allow-lists: who may connect, who is refused, and what a question costs the others."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.allowed import Allow, admit, check_allowed
from rsocket_trio.sockets.byte_stream import TransportInfo
from rsocket_trio.sockets.socket_facts import PeerCredentials
from tests.sockets.echoing import ask, echo_server, reach
from tests.waiting import until

ME = os.geteuid()


def info(**extra: object) -> TransportInfo:
    return TransportInfo(scheme="test", peer="10.0.0.1:5", extra=extra)


def user(uid: int, gid: int = 77) -> TransportInfo:
    return info(peer_credentials=PeerCredentials(pid=9, uid=uid, gid=gid))


STRANGER = ME + 1000


@pytest.mark.parametrize(
    ("allow", "admitted", "refused"),
    [
        (Allow(uids=[5, 6]), [user(5), user(6)], [user(7), user(0), user(STRANGER)]),
        (Allow(gids={77}), [user(STRANGER)], [user(STRANGER, gid=78)]),
        (Allow(same_user=True), [user(ME)], [user(STRANGER)]),
        (Allow(root=True), [user(0)], [user(STRANGER)]),
        (Allow(same_user=True, uids=[5]), [user(5), user(ME)], [user(6)]),
        (Allow(cids=[2]), [info(peer_cid=2)], [info(peer_cid=3), info(peer_cid=None), user(2)]),
    ],
)
def test_one_list_is_enough(allow: Allow, admitted, refused) -> None:
    """A peer that no list names is refused."""
    assert [allow(each) for each in admitted] == [True] * len(admitted)
    assert [allow(each) for each in refused] == [False] * len(refused)


EVERYBODY_KNOWN = Allow(uids=range(100), gids=range(100), same_user=True, root=True, cids=[1, 2, 3])


@pytest.mark.parametrize(
    "facts",
    [
        info(),
        info(peer_credentials=None),
        info(peer_credentials=(9, 0, 0)),
        info(peer_cid=None),
        info(peer_certificate={"subject": ()}),
    ],
)
def test_what_is_not_known_is_refused(facts: TransportInfo) -> None:
    """TCP tells no user; a kernel may not tell one either."""
    assert not EVERYBODY_KNOWN(facts)


def test_wrong_lists() -> None:
    """A list that admits nobody is a mistake, as are names of users."""
    with pytest.raises(ValueError, match="nobody may connect: give uids"):
        Allow()
    for wrong in (-1, 2**32 - 1, True):
        with pytest.raises(ValueError, match=r"in Allow\.uids is not an id of a user"):
            Allow(uids=[wrong])
    for name in ("uids", "gids", "cids"):
        for wrong in (["root"], [1.0], 0, "root"):
            with pytest.raises(TypeError, match=f"Allow.{name} must be"):
                Allow(**{name: wrong})
    with pytest.raises(TypeError, match=r"Allow\.same_user must be of type bool"):
        Allow(same_user="yes")  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(TypeError, match="allow must be an Allow or a function, not list"):
        check_allowed([0])
    for right in (None, Allow(root=True), bool):
        check_allowed(right)


async def test_own_functions() -> None:
    """They may be async; an answer that is no bool is a mistake, and admits nobody."""

    async def later(facts: TransportInfo) -> bool:
        await trio.lowlevel.checkpoint()
        return facts is one

    one, other = user(1), info()
    await admit(later, one)
    await admit(partial(lambda wanted, facts: facts is wanted, one), one)
    with pytest.raises(ConnectFailed, match=r"the peer 10\.0\.0\.1:5 may not connect"):
        await admit(later, other)
    with pytest.raises(ConnectFailed, match="process 9 of user 1, group 77, may not connect"):
        await admit(lambda _: False, one)
    with pytest.raises(ConnectFailed, match="a process that the kernel does not tell may not"):
        await admit(lambda _: False, info(peer_credentials=None))
    with pytest.raises(ConnectFailed, match="the peer may not"):
        await admit(lambda _: False, TransportInfo(scheme="memory"))
    for wrong in (None, 1, "yes"):
        with pytest.raises(TypeError, match="allow must return a bool"):
            await admit(lambda _, wrong=wrong: wrong, one)  # type: ignore[misc]  # the mistake


async def is_refused(address: str) -> bool:
    async with await reach(address) as client:
        return await client.stream.receive_some() == b""


async def test_a_server_asks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A peer that is not on the list is closed before its first byte is read, with one line."""
    path = str(tmp_path / "socket")
    async with echo_server(path, allow=Allow(same_user=True)), await reach(path) as client:
        assert await ask(client) == b"ping"
    async with echo_server(path, allow=Allow(uids=[STRANGER])) as server:
        assert await is_refused(path)
        assert not server.infos
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"of user {os.getuid()}, group {os.getgid()}, may not connect" in record.getMessage()
    assert ": closed a connection: process " in record.getMessage()


async def test_a_server_on_tcp_lets_nobody_in() -> None:
    """An allow-list that cannot know the user refuses."""
    async with echo_server("tcp://127.0.0.1:0", allow=EVERYBODY_KNOWN) as server:
        assert await is_refused(str(server.uri))
        assert not server.infos


async def test_a_slow_question_delays_no_other_connection(tmp_path: Path) -> None:
    """Each connection asks in a task of its own, within the time of its handshake."""
    path = str(tmp_path / "socket")
    asked: list[TransportInfo] = []

    async def first_never(facts: TransportInfo) -> bool:
        asked.append(facts)
        if len(asked) == 1:
            await trio.sleep_forever()
        return True

    async with echo_server(path, allow=first_never), await reach(path):
        await until(lambda: asked)
        async with await reach(path) as second:
            assert await ask(second) == b"ping"


async def test_no_answer_is_no(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """The time of the handshake ends the question."""
    path = str(tmp_path / "socket")

    async def never(_: TransportInfo) -> bool:
        await trio.sleep_forever()
        return True

    async with echo_server(path, allow=never) as server:
        assert await is_refused(path)
        assert not server.infos


async def test_a_crashing_question_admits_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends that connection; the server goes on."""
    path = str(tmp_path / "socket")
    async with echo_server(path, allow=lambda _: 1 // 0) as server:
        for _ in range(2):
            assert await is_refused(path)
        assert not server.infos
    assert {"ZeroDivisionError"} == {each.exc_info[0].__name__ for each in caplog.records}


async def test_a_panic_in_the_question_admits_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What extensions raise is no `Exception`; the server goes on all the same."""

    class Panic(BaseException):
        pass

    def panic(_: TransportInfo) -> bool:
        raise Panic

    path = str(tmp_path / "socket")
    async with echo_server(path, allow=panic) as server:
        for _ in range(2):
            assert await is_refused(path)
        assert not server.infos
    assert {"RuntimeError"} == {each.exc_info[0].__name__ for each in caplog.records}
