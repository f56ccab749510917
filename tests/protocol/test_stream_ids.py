"""Stream ids: parity, order, exhaustion and re-use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import StreamIdsExhausted
from rsocket_trio.protocol.stream_ids import MAX_STREAM_ID, StreamIds, is_peers


@pytest.mark.parametrize(("client", "expected"), [(True, [1, 3, 5, 7]), (False, [2, 4, 6, 8])])
def test_ids_rise_without_gaps(client, expected):
    """A client counts 1, 3, 5; a server 2, 4, 6, also if streams end meanwhile."""
    ids = StreamIds(client)
    assert [ids.next(()) for _ in range(4)] == expected


@pytest.mark.parametrize(("client", "last"), [(True, 2**31 - 1), (False, 2**31 - 2)])
def test_all_ids_used_up(client, last):
    """After the last id of our parity there is none, also at the next call."""
    ids = StreamIds(client, start=last)
    assert ids.next(()) == last
    for _ in range(2):
        with pytest.raises(StreamIdsExhausted, match="new connection"):
            ids.next(())


@pytest.mark.parametrize("reuse", [False, True])
def test_another_connection_is_asked_for_in_time(reuse):
    """The callback comes once, and with enough ids left; ids that are re-used need none."""
    told = []
    ids = StreamIds(True, reuse=reuse, start=MAX_STREAM_ID - 2**24)
    ids.on_nearly_used_up = lambda: told.append(1)
    ids.next(())
    assert told == []
    assert [ids.next(()), ids.next(())] == [MAX_STREAM_ID - 2**24 + 2, MAX_STREAM_ID - 2**24 + 4]
    assert told == ([] if reuse else [1])


@pytest.mark.parametrize(("client", "first"), [(True, 1), (False, 2)])
def test_reuse_begins_again_and_skips_ids_in_use(client, first):
    """Re-use wraps to the first id, steps by 2 and passes over open streams."""
    ids = StreamIds(client, reuse=True, start=MAX_STREAM_ID - (not client))
    ids.next(())
    assert ids.next({first}) == first + 2
    assert ids.next({first, first + 2, first + 4}) == first + 6


def test_reuse_goes_around_again():
    """A second lap begins where the first did, and ids given back in between are found."""
    ids = StreamIds(True, reuse=True, last=5)
    assert [ids.next(()) for _ in range(8)] == [1, 3, 5, 1, 3, 5, 1, 3]
    assert ids.next({5}) == 1


@pytest.mark.parametrize("start", [1, 3, 5, 7])
def test_all_ids_in_use(start):
    """With every id in use only a new connection helps; an id that is freed is found again."""
    ids = StreamIds(True, reuse=True, start=start, last=5)
    while start <= 5:
        ids.next(())
        start += 2
    with pytest.raises(StreamIdsExhausted, match="in use"):
        ids.next({1, 3, 5})
    assert ids.next({1, 5}) == 3


@given(st.booleans(), st.lists(st.integers(0, 20)), st.integers(5, 12))
def test_an_id_in_use_is_never_given_out(client, endings, last):
    """In any order of ends: an id is of our parity, in range and not in use."""
    ids = StreamIds(client, reuse=True, last=last)
    in_use = []
    for ending in endings:
        try:
            stream_id = ids.next(in_use)
        except StreamIdsExhausted:
            assert set(in_use) == set(range(1 if client else 2, last + 1, 2))
        else:
            assert stream_id not in in_use
            assert 0 < stream_id <= last
            assert not is_peers(stream_id, client)
            in_use.append(stream_id)
        if ending < len(in_use):
            del in_use[ending]


@pytest.mark.parametrize(
    ("stream_id", "at_client", "at_server"),
    [(0, False, False), (1, False, True), (2, True, False), (MAX_STREAM_ID, False, True)],
)
def test_the_ids_of_the_peer(stream_id, at_client, at_server):
    """A server's peer has the odd ids, a client's the even ones; 0 belongs to no peer."""
    assert is_peers(stream_id, client=True) is at_client
    assert is_peers(stream_id, client=False) is at_server


def test_an_id_that_is_given_back_is_taken_again():
    """A request that has not left leaves no gap."""
    ids = StreamIds(True)
    assert [ids.next(()), ids.next(())] == [1, 3]
    ids.give_back(3)
    assert [ids.next(()), ids.next(())] == [3, 5]
