"""Where targets come from, and what becomes of those that go."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionClosed,
    Payload,
    PoolOptions,
    Reconnect,
    Retry,
    connect_pool,
    parse_uri,
)
from rsocket_trio.pool import Target, dns, target_file
from rsocket_trio.pool.choosing import part_of
from tests.pool.fleet import ask, fleet, pool_of
from tests.pool.test_any_fleet import Source

URI = parse_uri("tls://orders.example:7878")


class Resolver(trio.abc.HostnameResolver):
    """Answers with some addresses, or an error."""

    def __init__(self):
        self.answer = []
        self.asked = 0

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002
        self.asked += 1
        await trio.lowlevel.checkpoint()
        if isinstance(self.answer, Exception):
            raise self.answer
        return [(socket.AF_INET, type, 6, "", (each, port)) for each in self.answer]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


@pytest.fixture
def resolver():
    resolver = Resolver()

    async def resolve():
        trio.socket.set_custom_hostname_resolver(resolver)

    resolver.begin = resolve
    return resolver


def names(targets):
    return [each.address for each in targets]


async def test_dns(resolver, autojump_clock, caplog):
    """All addresses; one that is missing once stays; an error and a long answer are bounded."""
    await resolver.begin()
    watch = dns(URI, every=30, max_addresses=3)
    resolver.answer = ["10.0.0.2", "10.0.0.1", "10.0.0.1"]
    assert await anext(watch) == (Target(URI, "10.0.0.1"), Target(URI, "10.0.0.2"))
    resolver.answer = ["10.0.0.2", "::3"]
    began = trio.current_time()
    assert names(await anext(watch)) == ["10.0.0.1", "10.0.0.2", "::3"]
    assert 24 <= trio.current_time() - began <= 32
    assert names(await anext(watch)) == ["10.0.0.2", "::3"]
    resolver.answer = socket.gaierror("away")
    asked = resolver.asked
    with trio.move_on_after(100):
        await anext(watch)
    assert resolver.asked - asked >= 3
    resolver.answer = [f"10.0.0.{number}" for number in range(1, 10)]
    assert names(await anext(watch)) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert "the last targets stay: away" in caplog.text
    assert "of 10 only 3 are used" in caplog.text


async def test_dns_is_asked_when_a_target_is_lost(resolver, autojump_clock):
    """Not only after ``every``, but once a second at most."""
    await resolver.begin()
    watch = dns(URI, every=1000)
    resolver.answer = ["10.0.0.1"]
    await anext(watch)
    resolver.answer = ["10.0.0.1", "10.0.0.2"]
    watch.hurry()
    with trio.fail_after(2):
        await anext(watch)


@pytest.mark.parametrize("wrong", ["unix:///run/app.sock", "nonsense"])
def test_dns_of_what_has_no_host(wrong):
    with pytest.raises(ValueError, match=r"host|scheme"):
        dns(wrong)


async def test_a_file(tmp_path, autojump_clock, caplog):
    """A replacement is read; what is no list, is away or too large keeps the last set."""
    file = tmp_path / "targets"
    file.write_text("tcp://a:1  # the first\n\ntcp://b:2\ntcp://a:1\n")
    watch = target_file(file, every=2, max_size=1000)
    first = await anext(watch)
    assert [str(each) for each in first] == ["tcp://a:1", "tcp://b:2"]

    async def unchanged(text):
        with trio.move_on_after(5) as scope:
            await anext(watch)
        assert scope.cancelled_caught
        assert text in caplog.text
        assert "the last targets stay" in caplog.text
        caplog.clear()

    file.write_text("tcp://a:1\nnonsense\n")
    await unchanged("scheme")
    file.write_bytes(b"\xff\xfe")
    await unchanged("decode")
    file.write_text("# too long\n" * 100)
    await unchanged("more than 1000 bytes")
    file.unlink()
    file.mkdir()
    descriptors = os.listdir("/dev/fd")
    await unchanged("no regular file")
    assert len(os.listdir("/dev/fd")) == len(descriptors)
    file.rmdir()
    await unchanged("No such file")
    os.mkfifo(file)  # which a writer would have to open
    await unchanged("no regular file")
    file.unlink()
    new = tmp_path / "new"
    new.write_text("tcp://c:3\n")
    new.rename(file)
    assert [str(each) for each in await anext(watch)] == ["tcp://c:3"]
    file.write_text("")
    assert await anext(watch) == ()


async def test_a_file_that_is_being_written(tmp_path, autojump_clock, caplog, monkeypatch):
    """Half of a list is a list of too few targets, which would be removed."""
    from rsocket_trio.pool import sources

    file = tmp_path / "targets"
    file.write_text("tcp://a:1\n")
    real = sources.os.fstat

    def grows(descriptor):
        found = real(descriptor)
        with file.open("a") as other:
            other.write("tcp://b:2\n")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(sources.os, "fstat", grows)
        with trio.move_on_after(1):
            await anext(target_file(file, every=0.5))
    assert "it was being written" in caplog.text


@pytest.mark.parametrize("make", [dns, target_file])
@pytest.mark.parametrize("options", [{"every": 0}, {"every": "often"}])
def test_wrong_settings(make, options):
    with pytest.raises((TypeError, ValueError), match="every"):
        make("tcp://a:1", **options)


async def test_targets_that_come_and_go(autojump_clock):
    """A stream on a target that is removed goes on, and ends with an error behind the grace."""
    async with fleet(3) as servers:
        source = Source(servers[:2])
        options = PoolOptions(choose="round_robin", grace=10)
        async with pool_of(source, options=options) as pool:
            await trio.sleep(1)
            async with (
                pool.request_stream(Payload(b"5")) as first,
                pool.request_stream(Payload(b"100")) as second,
            ):
                source.named = [servers[2]]
                source.changed()
                await trio.sleep(2)
                assert {await ask(pool) for _ in range(5)} == {"s2"}
                assert len([each async for each in first]) == 5
                await trio.sleep(0.5)
                assert sum(each.removed for each in pool.targets()) == 1
                with pytest.raises(ConnectionClosed, match="removed from the pool") as caught:
                    while True:
                        await second.receive()
                assert 9 <= trio.current_time() <= 13
                assert not caught.value.unprocessed
            await trio.sleep(5)
            assert [server.open for server in servers] == [0, 0, 1]
            assert len(pool.targets()) == 1


async def test_a_target_that_returns_while_it_drains(autojump_clock):
    """It has a new client; the number of those that drain is bounded, the oldest ends first."""
    async with fleet(1) as servers:
        source = Source(servers)
        async with pool_of(source, options=PoolOptions(max_targets=2)) as pool:
            async with trio.open_nursery() as nursery:
                ended = []

                async def reading(number):
                    try:
                        async with pool.request_stream(Payload(b"1000")) as items:
                            async for _ in items:
                                pass
                    except ConnectionClosed:
                        ended.append(number)

                for number in range(4):
                    await ask(pool)
                    nursery.start_soon(reading, number)
                    await trio.sleep(1)
                    source.named = []
                    pool._roster._reconcile([])
                    await trio.sleep(1)
                    source.named = list(servers)
                    source.changed()
                    await trio.sleep(1)
                assert ended == [0, 1]
                assert servers[0].open == 3
                nursery.cancel_scope.cancel()


async def test_many_that_go_at_once(autojump_clock):
    """As many may finish as there may be targets, however they were removed."""
    async with fleet(12) as servers:
        source = Source(servers[:4])
        options = PoolOptions(max_targets=4, choose="round_robin")
        async with pool_of(source, options=options) as pool, trio.open_nursery() as nursery:

            async def reading():
                with suppress(ConnectionClosed):
                    async with pool.request_stream(Payload(b"1000")) as items:
                        async for _ in items:
                            pass

            for number in range(4, 13, 4):
                await trio.sleep(2)
                for _ in range(4):
                    nursery.start_soon(reading)
                await trio.sleep(2)
                source.named = servers[number : number + 4] or servers[:4]
                source.changed()
            await trio.sleep(2)
            assert sum(each.removed for each in pool.targets()) == 4
            nursery.cancel_scope.cancel()


async def test_targets_that_come_and_go_at_once(autojump_clock):
    """Whatever a client has just begun when its target is removed: no session stays behind."""
    async with fleet(6) as servers:
        send, sets = trio.open_memory_channel(0)
        async with pool_of(sets) as pool:
            for number in range(100):
                await send.send([servers[number % 6], servers[(number + 1) % 6]])
                if number % 10 == 0:
                    await trio.sleep(0.3)
            await trio.sleep(50)
            assert len(pool.targets()) == 2
            assert sum(server.open for server in servers) == 2


async def test_a_source_of_empty_sets(autojump_clock):
    """One more of them does not keep the targets for longer."""
    async with fleet(1) as servers:

        async def sets():
            yield servers
            while True:
                await trio.sleep(30)
                yield []

        async with pool_of(sets()) as pool:
            await ask(pool)
            await trio.sleep(100)
            assert pool.targets() == []


async def test_a_source_that_never_waits(autojump_clock):
    """Others go on: the pool waits for a moment behind each set."""
    async with fleet(1) as servers:
        given = 0

        async def sets():
            nonlocal given
            while given < 10_000:
                given += 1
                yield servers

        async with pool_of(sets()) as pool:
            await trio.sleep(1)
            assert await ask(pool) == "s0"
        assert given <= 100


class Wrong:
    """A source that fails where it begins, and then where it ends."""

    def __init__(self, servers):
        self.servers = servers
        self.begun = 0

    def __aiter__(self):
        self.begun += 1
        if self.begun < 3:
            raise OSError("no resolver")
        return self._sets()

    async def _sets(self):
        try:
            yield self.servers
            await trio.sleep(1)
            yield []
        finally:
            raise OSError("no end")


async def test_a_source_that_fails_at_its_begin_or_its_end(autojump_clock, caplog):
    """The pool goes on, and leaving its block is no failure."""
    async with fleet(1) as servers:
        source = Wrong(servers)
        async with pool_of(source) as pool:
            assert await ask(pool) == "s0"
            await trio.sleep(100)
            assert await ask(pool) == "s0"
        assert source.begun > 4
    assert "no resolver" in caplog.text
    assert "no end" in caplog.text


async def test_two_pools_on_one_source(resolver, autojump_clock):
    """Each gets all sets, at the same time or one after the other."""
    await resolver.begin()
    resolver.answer = ["10.0.0.1"]
    watch = dns("tcp://orders.example:1", every=1)
    for _ in range(2):
        async with connect_pool(watch) as one, connect_pool(watch) as other:
            await trio.sleep(5)
            assert len(one.targets()) == len(other.targets()) == 1


async def test_an_error_that_lasts_is_in_the_log_once(resolver, autojump_clock, caplog):
    """And again if it comes back."""
    await resolver.begin()
    watch = dns(URI, every=1)
    resolver.answer = socket.gaierror("away")
    with trio.move_on_after(100):
        await anext(watch)
    assert caplog.text.count("away") == 1
    resolver.answer = ["10.0.0.1"]
    await anext(watch)
    resolver.answer = socket.gaierror("away")
    with trio.move_on_after(100):
        await anext(watch)
    assert caplog.text.count("away") == 2


async def test_an_empty_set(autojump_clock, caplog):
    """It is a fault of the source more often than the truth: the last targets stay for a while."""
    async with fleet(1) as servers:
        source = Source(servers)
        async with pool_of(source, options=PoolOptions(empty_after=60)) as pool:
            await ask(pool)
            for _ in range(2):
                source.named = []
                source.changed()
                await trio.sleep(50)
                await ask(pool)
                source.named = list(servers)
                source.changed()
                await trio.sleep(50)
            source.named = []
            source.changed()
            await trio.sleep(61)
            assert pool.targets() == []
            with trio.move_on_after(5) as scope:
                await ask(pool)
            assert scope.cancelled_caught
            source.named = list(servers)
            source.changed()
            await ask(pool)
    assert "names no targets; the last ones stay for 60 s" in caplog.text


async def test_a_source_that_fails_or_ends(autojump_clock, caplog):
    """The last set stays; a source is iterated over again, and one that has ended is not."""
    async with fleet(2) as servers:
        source = Source(servers[:1])
        async with pool_of(source) as pool:
            await ask(pool)
            source.fails = True
            source.changed()
            source.named = [servers[1]]
            await trio.sleep(5)
            assert await ask(pool) == "s1"
            source.named = [7]
            source.changed()
            await trio.sleep(5)
            assert await ask(pool) == "s1"
        assert "the resolver is away" in caplog.text
        assert "a target of a pool is" in caplog.text

        async def one():
            yield servers[:1]

        async with pool_of(one()) as pool:
            await trio.sleep(100)
            assert await ask(pool) == "s0"


class Away:
    """A source that has targets twice, and nothing in between."""

    def __init__(self, servers):
        self.servers = servers
        self.away = False
        self.asked = 0

    def __aiter__(self):
        self.asked += 1
        if self.away:
            raise OSError("the registry is away")
        return self._sets()

    async def _sets(self):
        if self.asked == 1:
            yield self.servers[:1]
            self.away = True
            raise OSError("the registry goes")
        yield self.servers


async def test_a_source_is_never_given_up(autojump_clock, caplog):
    """Behind its last attempt it is asked again each minute; the pool says how its source does."""
    async with fleet(2) as servers:
        source = Away(servers)
        reconnect = Reconnect(retry=Retry(initial_delay=0.1, max_attempts=3))
        async with pool_of(source, reconnect=reconnect) as pool:
            assert await ask(pool) == "s0"
            assert pool.statistics().source == "followed"
            await trio.sleep(200)
            assert pool.statistics().source == "failing"
            assert pool.statistics().source_failure == "OSError: the registry is away"
            assert 1 + 3 + 3 <= source.asked <= 1 + 3 + 4
            assert "asked again in 60 s" in caplog.text
            assert await ask(pool) == "s0"
            source.away = False
            await trio.sleep(61)
            assert (pool.statistics().source, pool.statistics().source_failure) == ("ended", "")
            assert {await ask(pool) for _ in range(50)} == {"s0", "s1"}
        async with pool_of(servers) as pool:
            assert pool.statistics().source == "fixed"


async def test_dns_that_does_not_answer_is_shown(resolver, autojump_clock):
    """It raises nothing, so that it can go on; the pool says it all the same."""
    await resolver.begin()
    resolver.answer = socket.gaierror("away")
    async with connect_pool(dns("tcp://orders.example:1", every=1)) as pool:
        with trio.move_on_after(5) as scope:
            await ask(pool)
        assert scope.cancelled_caught
        assert pool.statistics().source_failure == "away"
        resolver.answer = ["10.0.0.1"]
        await trio.sleep(5)
        assert pool.statistics().source == "followed"


def test_the_part_of_a_client():
    """It changes by one target when one goes, and all targets are in about equally many parts."""
    targets = [Target(parse_uri(f"tcp://host{number}:1")) for number in range(300)]
    parts = {name: part_of(targets, name, 30) for name in map(str, range(200))}
    for name, part in parts.items():
        assert len(part) == 30
        rest = [each for each in targets if each is not part[0]]
        assert len(set(part_of(rest, name, 30)) - set(part)) == 1
    numbers = [sum(each in part for part in parts.values()) for each in targets]
    assert min(numbers) >= 5
    assert max(numbers) <= 40  # 20 on average
    assert part_of([*targets[:3], targets[0]], "x", 30) == targets[:3]


async def test_a_large_fleet(autojump_clock):
    """A client has connections to its part only, and the same part after a restart."""
    async with fleet(12) as servers:
        options = PoolOptions(max_targets=3, client_id="me")
        parts = []
        for _ in range(2):
            async with pool_of(servers, options=options):
                await trio.sleep(1)
                parts.append([server.name for server in servers if server.open])
        assert len(parts[0]) == 3
        assert parts[0] == parts[1]


async def test_an_address_that_has_several():
    """One address is asked for, and its host is dialled at each address, under its own name."""
    from functools import partial

    from rsocket_trio import Responder, connect_pool, serve

    class Name(Responder):
        async def request_response(self, payload):
            return payload

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, Name(), "ws://127.0.0.1:0/app"))
        port = parse_uri(server.uris[0]).port
        async with connect_pool(f"ws://localhost:{port}/app") as pool:
            assert await ask(pool, b"x") == "x"
            [target] = {each.target for each in pool.targets() if each.answered}
            assert str(target) == f"ws://localhost:{port}/app (127.0.0.1)"
        nursery.cancel_scope.cancel()
