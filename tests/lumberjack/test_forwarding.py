"""Events of a spool are shipped, and the position in the spool follows the acknowledgements."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.lumberjack import (
    UnknownEncoding,
    connect,
    encode_pairs,
    serve,
    ship_from,
    store_in,
    stored_events,
)
from rsocket_trio.spool import Batch, Retention, open_spool
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from tests.lumberjack.receiving import ADDRESS
from tests.waiting import until


def batch(*events):
    return Batch(len(events), b"".join(b"%s\n" % each for each in events), encoding="json-lines")


async def fill(spool, batches, size=2):
    """Batches of two events; each event is its offset."""
    for number in range(batches):
        await spool.append(batch(*(b"%d" % (number * size + each) for each in range(size))))


class HeldShipper:
    """Notes what is sent; a test says when it is acknowledged."""

    def __init__(self):
        self.sent = []
        self.acknowledged = []

    async def send(self, events, *, task_status):
        done = trio.Event()
        self.sent.append(events)
        self.acknowledged.append(done)
        task_status.started()
        await done.wait()


async def test_everything_arrives_in_order(tmp_path):
    async with (
        open_spool(tmp_path / "here") as here,
        open_spool(tmp_path / "there") as there,
        trio.open_nursery() as nursery,
    ):
        await fill(here, 50)
        server = await nursery.start(serve, store_in(there), ADDRESS)
        async with connect(server.uris[0]) as shipper:
            await ship_from(here, shipper, follow=False)
        raw = [each async for stored in there.read(0) for each in stored_events(stored).raw]
        assert raw == [b"%d" % number for number in range(100)]
        assert here.positions() == {"shipper": 100}
        await server.aclose()


async def test_the_position_follows_the_acknowledgements_in_order(tmp_path):
    """A later batch that is acknowledged first does not move it, and makes no room."""
    shipper = HeldShipper()
    async with open_spool(tmp_path / "spool") as spool, trio.open_nursery() as nursery:
        await fill(spool, 5)
        nursery.start_soon(partial(ship_from, spool, shipper, consumer="out", max_in_flight=3))
        await until(lambda: len(shipper.sent) == 3)
        shipper.acknowledged[1].set()
        await trio.sleep(0.05)
        assert (len(shipper.sent), spool.positions()) == (3, {"out": 0})
        shipper.acknowledged[0].set()
        await until(lambda: spool.positions() == {"out": 4} and len(shipper.sent) == 5)
        assert shipper.sent[3:] == [[b"6", b"7"], [b"8", b"9"]]
        nursery.cancel_scope.cancel()


async def test_it_goes_on_where_the_last_one_ended(tmp_path):
    """Also within a stored batch."""
    async with open_spool(tmp_path / "spool") as spool:
        await fill(spool, 3, size=4)
        await spool.commit("out", 6)
        shipper = HeldShipper()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ship_from, spool, shipper, consumer="out"))
            await until(lambda: len(shipper.sent) == 2)
            assert shipper.sent == [[b"6", b"7"], [b"8", b"9", b"10", b"11"]]
            await spool.append(batch(b"12"))
            await until(lambda: len(shipper.sent) == 3)
            nursery.cancel_scope.cancel()
        assert spool.positions() == {"out": 6}


async def test_without_follow_it_ships_what_is_there_now(tmp_path):
    shipper = HeldShipper()
    async with open_spool(tmp_path / "spool") as spool:
        await ship_from(spool, shipper, follow=False)
        await fill(spool, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ship_from, spool, shipper, follow=False))
            await until(lambda: shipper.sent)
            await spool.append(batch(b"later"))
            shipper.acknowledged[0].set()
        assert (len(shipper.sent), spool.positions()) == (1, {"shipper": 2})


async def test_pairs_are_sent_as_mappings(tmp_path):
    """A receiver of version 2 takes only JSON."""
    pairs = encode_pairs([("line", "hello"), (b"host", b"\xff")])
    frame = b"1D\0\0\0\1" + pairs
    shipper = HeldShipper()
    async with open_spool(tmp_path / "spool") as spool, trio.open_nursery() as nursery:
        await spool.append(Batch(1, frame, encoding="lumberjack-1"))
        nursery.start_soon(partial(ship_from, spool, shipper, follow=False))
        await until(lambda: shipper.sent)
        assert shipper.sent == [[{"line": "hello", "host": "\ufffd"}]]
        shipper.acknowledged[0].set()


async def test_a_batch_of_another_program(tmp_path):
    """The error is not in a group, and what came before is acknowledged and committed."""

    class Quick:
        async def send(self, events, *, task_status):
            task_status.started()

    async with open_spool(tmp_path / "spool") as spool:
        await fill(spool, 1)
        await spool.append(Batch(1, b"?", encoding="mine"))
        with pytest.raises(UnknownEncoding, match="at offset 2 has the encoding 'mine'"):
            await ship_from(spool, Quick())


@pytest.mark.parametrize("started", [True, False])
async def test_an_event_that_cannot_be_sent(tmp_path, started):
    class Refuses:
        async def send(self, events, *, task_status):
            if started:
                task_status.started()
                await trio.sleep(0)
            raise LocalProtocolError("no")

    async with open_spool(tmp_path / "spool") as spool:
        await fill(spool, 3)
        with pytest.raises(LocalProtocolError, match="no"):
            await ship_from(spool, Refuses())
        assert spool.positions() == {"shipper": 0}


async def test_an_error_and_a_cancellation_at_once(tmp_path):
    """The error comes out, alone."""
    scope = trio.CancelScope()

    class Fails:
        async def send(self, events, *, task_status):
            task_status.started()
            scope.cancel()
            raise LocalProtocolError("no")

    caught = None
    async with open_spool(tmp_path / "spool") as spool:
        await fill(spool, 3)
        with scope:
            try:
                await ship_from(spool, Fails())
            except LocalProtocolError as error:
                caught = str(error)
    assert caught == "no"


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5])
async def test_a_wrong_number(tmp_path, wrong):
    async with open_spool(tmp_path / "spool") as spool:
        with pytest.raises((TypeError, ValueError), match="max_in_flight must be"):
            await ship_from(spool, HeldShipper(), max_in_flight=wrong)


async def test_cancelled_everywhere(tmp_path):
    """The next call ships the rest: every event at least once."""
    keep = Retention(max_age=3600)
    async with open_spool(tmp_path / "spool", retention=keep) as spool:
        await fill(spool, 4)
        seen = set()

        class Slow:
            async def send(self, events, *, task_status):
                task_status.started()
                await trio.lowlevel.checkpoint()
                seen.update(events)

        async def operation():
            await ship_from(spool, Slow(), follow=False)

        async def check():
            position = spool.positions().get("shipper", 0)
            assert {b"%d" % number for number in range(position)} <= seen
            await ship_from(spool, Slow(), follow=False)
            assert seen == {b"%d" % number for number in range(8)}
            seen.clear()
            await spool.commit("shipper", 0)

        assert await cancel_everywhere(operation, check, every_task=True) > 20
