"""Responders that serve elements by offset: `rsocket_trio.spark.replay`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import CustomError, Invalid, Payload, Router
from rsocket_trio.spark.replay import (
    NotReplayable,
    Offsets,
    RangeRequest,
    ReplayLines,
    ReplayList,
    ReplayOffsets,
    ReplaySource,
    replay_router,
)
from rsocket_trio.testing import connected_pair
from tests.programs import environment

offsets = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)).map(sorted)


@given(
    st.dictionaries(
        st.integers(0, 2**31 - 1),
        st.builds(lambda ends, id_: Offsets(*ends, id_), offsets, st.none() | st.text(max_size=9)),
    )
)
def test_offsets_are_read_as_they_were_written(partitions):
    """Keys are text, as large maps with other keys cost time. Integers are read as well."""
    reply = ReplayOffsets(partitions)
    assert ReplayOffsets.decode(reply.encode()) == reply
    as_numbers = {int(key): value for key, value in cbor2.loads(reply.encode()).items()}
    assert ReplayOffsets.decode(cbor2.dumps(as_numbers)) == reply


@given(st.integers(0, 2**31 - 1), offsets, st.none() | st.text(max_size=9))
def test_requests_are_read_as_they_were_written(partition, ends, identity):
    """With an identity or without one."""
    wanted = RangeRequest(partition=partition, start=ends[0], stop=ends[1], id=identity)
    assert RangeRequest.decode(cbor2.dumps(wanted.as_map())) == wanted


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text(), inner),
)
names = st.sampled_from(["p", "lo", "hi", "id", "earliest", "latest", 0, "0"])
strange = (
    st.binary()
    | plain.map(cbor2.dumps)
    | st.dictionaries(names, plain | st.dictionaries(names, plain)).map(cbor2.dumps)
)


@given(strange)
def test_any_bytes_are_read_or_refused(data):
    """A peer may send anything."""
    for kind in (ReplayOffsets, RangeRequest):
        try:
            found = kind.decode(data)
        except ValueError:
            continue
        assert isinstance(found, kind)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({0: {"earliest": 5, "latest": 4}}, "partition 0 are wrong: latest is 4"),
        ({0: {"earliest": 5}}, "partition 0 are wrong"),
        ({0: {"earliest": -1, "latest": 4}}, "partition 0 are wrong"),
        ({0: {"earliest": 0, "latest": 2**63}}, "partition 0 are wrong"),
        ({0: {"earliest": 0, "latest": 1, "id": "x" * 1001}}, "partition 0 are wrong"),
        ({"x": {"earliest": 0, "latest": 1}}, "'x' is no number of a partition"),
        ({-1: {"earliest": 0, "latest": 1}}, "'-1' is no number"),
        ([], "it is no map"),
        (dict.fromkeys(map(str, range(100_001)), 0), "more than 100000"),
    ],
)
def test_offsets_that_are_refused(value, message):
    """The reason says where it is wrong."""
    with pytest.raises(ValueError, match=message):
        ReplayOffsets.decode(cbor2.dumps(value))


async def ask(requester, partition=0, start=0, stop=0, identity=None, route="rows"):
    """The data of the elements of a range."""
    wanted = RangeRequest(partition=partition, start=start, stop=stop, id=identity)
    payload = Payload(cbor2.dumps(wanted.as_map()))
    async with requester.request_stream(payload, route=route) as items:
        return [item.data async for item in items]


async def known(requester) -> dict[int, tuple[int, int]]:
    reply = await requester.request_response(route="rows.offsets")
    partitions = ReplayOffsets.decode(reply.data).partitions
    return {number: (each.earliest, each.latest) for number, each in partitions.items()}


async def test_a_list_is_served_and_grows():
    """Elements that are added have the next offsets."""
    first = [b"a", Payload(b"b", b"m"), b"c"]
    async with connected_pair(replay_router("rows", ReplayList(first, []))) as requester:
        assert await known(requester) == {0: (0, 3), 1: (0, 0)}
        assert await ask(requester, 0, 1, 3) == [b"b", b"c"]
        assert await ask(requester, 0, 1, 1) == []
        first.append(b"d")
        assert await known(requester) == {0: (0, 4), 1: (0, 0)}
        assert await ask(requester, 0, 0, 4) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        ({"partition": 5, "stop": 1}, Invalid, None),
        ({"stop": 4}, CustomError, NotReplayable.NOT_YET),
        ({"stop": 1, "identity": "other"}, CustomError, NotReplayable.OTHER_ID),
    ],
)
async def test_ranges_that_are_not_there(arguments, error, code):
    """The requester gets a code and a reason."""
    source = ReplayList([b"a", b"b", b"c"], id="this")
    async with connected_pair(replay_router("rows", source)) as requester:
        with pytest.raises(error) as caught:
            await ask(requester, **arguments)
        assert code is None or caught.value.code == code
        assert await ask(requester, stop=1, identity="this") == [b"a"]


@pytest.mark.parametrize("data", [b"", b"\xff", cbor2.dumps({"p": 0, "lo": 3, "hi": 1})])
async def test_requests_that_cannot_be_read(data):
    """They are INVALID, and the connection goes on."""
    async with connected_pair(replay_router("rows", ReplayList([]))) as requester:
        with pytest.raises(Invalid, match="no request for a range"):
            async with requester.request_stream(Payload(data), route="rows") as items:
                await items.receive()
        assert await known(requester) == {0: (0, 0)}


class Short(ReplaySource):
    """Tells of elements that it does not have; its elements are no generator."""

    async def offsets(self) -> ReplayOffsets:
        return ReplayOffsets({0: Offsets(10, 15)})

    def elements(self, partition: int, start: int, stop: int) -> AsyncIterator[bytes]:
        return _Two()


class _Two:
    def __init__(self) -> None:
        self.left = 2

    def __aiter__(self):
        return self

    async def __anext__(self) -> bytes:
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return b"x"


async def test_a_source_that_ends_early_is_an_error():
    """A stream that is complete must have all elements of the range."""
    async with connected_pair(replay_router("rows", Short())) as requester:
        assert await ask(requester, start=10, stop=12) == [b"x", b"x"]
        with pytest.raises(CustomError, match="the last 3 elements are missing"):
            await ask(requester, start=10, stop=15)
        with pytest.raises(CustomError, match="begins at offset 10") as caught:
            await ask(requester, start=9, stop=12)
        assert caught.value.code == NotReplayable.TRIMMED


async def test_several_sources_in_one_router():
    """Their routes have prefixes, if that is wanted."""
    router = Router()
    router.include(replay_router("rows", ReplayList([b"a"])), prefix="one.")
    router.include(replay_router("rows", ReplayList([b"b"])))
    async with connected_pair(router) as requester:
        assert await ask(requester, stop=1) == [b"b"]
        assert await ask(requester, stop=1, route="one.rows") == [b"a"]


async def test_lines_of_files(tmp_path):
    """A line counts when its end is there."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nb\r\nunfinished")
    async with connected_pair(replay_router("rows", ReplayLines(one, two))) as requester:
        assert await known(requester) == {0: (0, 2), 1: (0, 0)}
        assert await ask(requester, 0, 0, 2) == [b"a", b"b"]
        with one.open("ab") as file:
            file.write(b" no more\n\n")
        two.write_bytes(b"".join(b"%d\n" % n for n in range(5000)))
        assert await known(requester) == {0: (0, 4), 1: (0, 5000)}
        assert await ask(requester, 0, 1, 4) == [b"b", b"unfinished no more", b""]
        for start, stop in [(0, 1), (1023, 1025), (1024, 2048), (7, 4999), (4999, 5000)]:
            assert await ask(requester, 1, start, stop) == [b"%d" % n for n in range(start, stop)]


async def test_a_file_that_is_made_anew_has_another_identity(tmp_path):
    """So old offsets do not get new elements. A growing file keeps its identity."""
    path = tmp_path / "rows"
    source = ReplayLines(path)
    path.write_bytes(b"a\nb\n")
    before = (await source.offsets()).partitions[0]
    path.write_bytes(b"a\nb\nc\n")
    assert (await source.offsets()).partitions[0] == Offsets(0, 3, before.id)
    async with connected_pair(replay_router("rows", source)) as requester:
        path.write_bytes(b"other\nb\nc\n")
        with pytest.raises(CustomError) as caught:
            await ask(requester, 0, 0, 3, before.id)
        assert caught.value.code == NotReplayable.OTHER_ID
    # A new process finds the same identity.
    assert (await ReplayLines(path).offsets()) == (await source.offsets())
    path.unlink()
    assert (await source.offsets()).partitions[0] == Offsets(0, 0)


async def test_a_file_that_changes_while_it_is_read(tmp_path):
    """Its offsets are known already, and its lines are others now."""
    path = tmp_path / "rows"
    path.write_bytes(b"a\n" * 3000)
    source = ReplayLines(path)
    await source.offsets()
    items = source.elements(0, 0, 3000)
    assert await anext(items) == b"a"
    path.write_bytes(b"b\n")
    with pytest.raises(CustomError) as caught:
        [item async for item in items]
    assert caught.value.code == NotReplayable.OTHER_ID


async def test_a_line_without_end_takes_no_memory(tmp_path):
    """Lines have a limit."""
    path = tmp_path / "rows"
    path.write_bytes(b"a\n" + b"x" * 100)
    source = ReplayLines(path, max_line_size=50)
    with pytest.raises(ValueError, match="longer than 50 bytes"):
        await source.offsets()


def test_responders_need_no_pyspark():
    """A program that serves elements imports neither PySpark nor pyarrow."""
    program = (
        "import sys; sys.modules.update(pyspark=None, pyarrow=None);"
        "from rsocket_trio.spark.replay import replay_router, ReplayList;"
        "replay_router('rows', ReplayList([b'a']))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment(), timeout=60)
