"""The responder's side of a sink: what it stages, commits, drops and refuses."""

from __future__ import annotations

import json
import os
import tracemalloc
from contextlib import suppress

import attrs
import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    BearerAuthentication,
    CustomError,
    Invalid,
    Metadata,
    Payload,
    Rejected,
    RequestFacts,
    Router,
    StreamError,
)
from rsocket_trio.metadata import MIME
from rsocket_trio.spark import SinkDirectoryError, SinkLimits, sink_receiver
from rsocket_trio.spark.sinks.messages import (
    COMMIT,
    STALE_BATCH,
    UNKNOWN_ATTEMPT,
    AbortRequest,
    CommitRequest,
    Opening,
    encode,
)
from rsocket_trio.spark.sinks.receiving import receiver as receiver_module
from rsocket_trio.spark.sinks.receiving.attempt import CHUNK_COUNT
from rsocket_trio.spark.sinks.receiving.sqlite_store import SqliteStore
from rsocket_trio.spark.sinks.receiving.staging import Staging
from rsocket_trio.spark.sinks.receiving.store import MemoryStore
from rsocket_trio.testing.in_memory import connected_pair
from tests.spark.sinks.helpers import (
    ROUTE,
    Application,
    abort,
    commit,
    opening,
    rows,
    sink,
    write,
)


@pytest.fixture(params=["memory", "disk"])
def place(request, tmp_path):
    """The options of a sink in memory, and of one in a directory."""
    return {} if request.param == "memory" else {"directory": tmp_path / "staged"}


async def test_rows_arrive_when_the_batch_is_committed(place):
    """All rows of the winners come, in the order of the partitions, and no others."""
    application = Application()
    async with sink(application, **place) as (requester, receiver):
        second = await write(requester, opening("b", partition=1), rows(3, 4))
        first = await write(requester, opening("a"), rows(1, 2))
        lost = await write(requester, opening("a again"), rows(1, 2))
        empty = await write(requester, opening("c", partition=2))
        assert (first.rows, second.rows, lost.rows, empty.rows) == (2, 2, 2, 0)
        assert application.batches == []
        assert receiver.statistics().attempts == 4
        reply = await commit(requester, ["b", "c", "a"], 4)
        assert (reply.rows, reply.repeated) == (4, False)
        assert application.batches == [("q", 0, [1, 2, 3, 4])]
        statistics = receiver.statistics()
        assert (statistics.attempts, statistics.staged_size, statistics.open_attempts) == (0, 0, 0)
        assert (statistics.committed_batches, statistics.committed_rows) == (1, 4)


async def test_the_second_commit_does_nothing_and_says_so(place):
    """A driver whose reply was lost asks again; and the tasks of a restarted query need no rows."""
    application = Application()
    async with sink(application, **place) as (requester, receiver):
        await write(requester, opening("a"), rows(1))
        await commit(requester, ["a"], 1)
        reply = await commit(requester, ["a"], 1)
        assert (reply.rows, reply.repeated) == (1, True)
        assert await write(requester, opening("a2", writer="w2"), rows(1)) is None
        assert (await commit(requester, ["a2"], 0, writer="w2")).repeated
        assert application.batches == [("q", 0, [1])]
        assert receiver.statistics().attempts == 0


async def test_the_next_process_remembers(tmp_path):
    """Staged attempts and committed batches are in the directory."""
    application = Application()
    async with sink(application, directory=tmp_path) as (requester, _):
        await write(requester, opening("a"), rows(1))
        await commit(requester, ["a"], 1)
        await write(requester, opening("b", batch=1), rows(2, 3))
    async with sink(application, directory=tmp_path) as (requester, receiver):
        assert receiver.statistics().attempts == 1
        assert await write(requester, opening("a3"), rows(1)) is None
        await commit(requester, ["b"], 2, batch=1)
    assert application.batches == [("q", 0, [1]), ("q", 1, [2, 3])]


async def test_many_chunks_come_back_in_order(place):
    """Rows that fill several chunks of the store, by size and by number."""
    application = Application()
    async with sink(application, **place) as (requester, _):
        values = [*range(20_000), "x" * 600_000, "y" * 600_000, 7]
        await write(requester, opening("a"), rows(*values))
        await commit(requester, ["a"], len(values))
        assert application.batches == [("q", 0, values)]


async def test_a_handler_that_fails_gets_the_batch_again(place):
    """The commit fails in Spark, and nothing is lost. The text of a StreamError is told."""
    application = Application()
    async with sink(application, **place) as (requester, _):
        await write(requester, opening("a"), rows(1))
        application.error = RuntimeError("secret")
        with pytest.raises(ApplicationError) as caught:
            await commit(requester, ["a"], 1)
        assert "secret" not in str(caught.value)
        application.error = Rejected("the database is down")
        with pytest.raises(Rejected, match="the database is down"):
            await commit(requester, ["a"], 1)
        assert not (await commit(requester, ["a"], 1)).repeated
        assert application.batches == [("q", 0, [1])]


async def test_a_commit_that_is_cancelled_can_be_repeated(place):
    """A driver gives up while the handler still works; then it asks again."""
    begun = trio.Event()
    calls: list[int] = []

    async def on_commit(batch):
        calls.append(batch.batch)
        begun.set()
        if len(calls) == 1:
            await trio.sleep_forever()

    async with sink(on_commit, **place) as (requester, _):
        await write(requester, opening("a"), rows(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit, requester, ["a"], 1)
            await begun.wait()
            nursery.cancel_scope.cancel()
        assert not (await commit(requester, ["a"], 1)).repeated
        assert calls == [0, 0]


async def test_two_commits_at_once_call_the_handler_once(place):
    """The second one waits for the first one."""
    begun, go_on = trio.Event(), trio.Event()
    calls: list[int] = []
    replies = []

    async def on_commit(batch):
        calls.append(batch.batch)
        begun.set()
        await go_on.wait()

    async with sink(on_commit, **place) as (requester, _):
        await write(requester, opening("a"), rows(1))

        async def ask():
            replies.append((await commit(requester, ["a"], 1)).repeated)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await begun.wait()
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()
        assert sorted(replies) == [False, True]
        assert calls == [0]


async def test_an_abort_drops_the_attempts_of_its_writer(place):
    """Those of another try, and of other batches, stay."""
    application = Application()
    async with sink(application, **place) as (requester, receiver):
        await write(requester, opening("a"), rows(1))
        await write(requester, opening("b", writer="w2"), rows(1))
        await write(requester, opening("c", query="q2"), rows(1))
        await abort(requester)
        assert receiver.statistics().attempts == 2
        with pytest.raises(CustomError) as caught:
            await commit(requester, ["a"], 1)
        assert caught.value.code == UNKNOWN_ATTEMPT
        assert "Start the query again" in caught.value.message
        await abort(requester, query="nothing")
        await commit(requester, ["b"], 1, writer="w2")
        assert application.batches == [("q", 0, [1])]


async def test_an_abort_after_the_commit_does_nothing(place):
    """Spark aborts when it does not know that its commit was done."""
    application = Application()
    async with sink(application, **place) as (requester, _):
        await write(requester, opening("a"), rows(1))
        await commit(requester, ["a"], 1)
        await abort(requester)
        assert (await commit(requester, ["a"], 1)).repeated


async def test_an_abort_during_the_commit_waits_for_the_next_one(place):
    """A driver that gave up the commit aborts; the handler that still runs has its rows."""
    begun, go_on = trio.Event(), trio.Event()
    found = []

    async def on_commit(batch):
        begun.set()
        await go_on.wait()
        found.extend([row["v"] async for row in batch.rows()])

    async with sink(on_commit, **place) as (requester, _):
        await write(requester, opening("a"), rows(1, 2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit, requester, ["a"], 2)
            await begun.wait()
            await abort(requester)
            go_on.set()
    assert found == [1, 2]


async def test_a_late_attempt_of_a_committed_batch_ends(place):
    """A speculative task that is still writing is refused, and its rows are dropped."""
    application = Application()
    async with sink(application, **place) as (requester, receiver):
        await write(requester, opening("a"), rows(1))
        go_on = trio.Event()

        async def late():
            yield Payload(encode(opening("late")))
            await go_on.wait()
            yield Payload(rows(1)[0])

        async with requester.request_channel(late(), route=ROUTE) as replies:
            await replies.receive()
            await commit(requester, ["a"], 1)
            go_on.set()
            with pytest.raises(Rejected, match="dropped"):
                await replies.receive()
        assert receiver.statistics().attempts == receiver.statistics().staged_size == 0


async def test_older_batches_are_refused(place):
    """A checkpoint that went back, or an old driver, cannot lose or double rows in silence."""
    async with sink(Application(), **place) as (requester, _):
        await write(requester, opening("a", batch=5), rows(1))
        await commit(requester, ["a"], 1, batch=5)
        for attempt in (write(requester, opening("b", batch=4)), commit(requester, [], 0, batch=4)):
            with pytest.raises(CustomError) as caught:
                await attempt
            assert caught.value.code == STALE_BATCH
            assert "txnId" in caught.value.message


@pytest.mark.parametrize(
    ("winners", "count", "text"),
    [
        (["a", "a"], 2, "same partition"),
        (["a", "twin"], 2, "same partition"),
        (["a"], 2, "have 1 rows here, and the driver says 2"),
        (["a", "json"], 2, "format or schema"),
    ],
)
async def test_commits_that_do_not_fit_are_refused(winners, count, text):
    """And they do no harm: the right commit works after them."""
    application = Application()
    async with sink(application) as (requester, _):
        await write(requester, opening("a"), rows(1))
        await write(requester, opening("twin"), rows(1))
        await write(requester, opening("json", partition=1, format="json"), [b"{}"])
        with pytest.raises(Invalid, match=text):
            await commit(requester, winners, count)
        assert not application.batches
        await commit(requester, ["a"], 1)


@pytest.mark.parametrize(
    "changes", [{"query": "q2"}, {"batch": 1}, {"writer": "w2"}], ids=lambda each: str([*each])
)
async def test_winners_belong_to_the_commit(changes):
    """An attempt of another query, batch or try is not known."""
    async with sink(Application()) as (requester, _):
        await write(requester, opening("a"), rows(1))
        with pytest.raises(CustomError, match="1 of the 1 attempts"):
            await commit(requester, ["a"], 1, **changes)


async def test_attempts_that_end_early_are_dropped(place):
    """A task that is cancelled, fails, or vanishes, leaves nothing."""
    router = Router()
    async with sink_receiver(router, ROUTE, Application(), **place) as receiver:
        for name in ("cancelled", "failed", "lost"):
            with trio.CancelScope() as scope, pytest.MonkeyPatch.context():
                try:
                    async with connected_pair(router) as requester:

                        async def source(name=name):
                            yield Payload(encode(opening(name)))
                            for each in rows(*range(10)):
                                yield Payload(each)
                            if name == "failed":
                                raise RuntimeError("the task failed")
                            await trio.sleep_forever()

                        async with requester.request_channel(source(), route=ROUTE) as replies:
                            await replies.receive()
                            await trio.testing.wait_all_tasks_blocked()
                            if name == "cancelled":
                                continue
                            if name == "lost":
                                scope.cancel()
                            await trio.sleep_forever()
                except RuntimeError:
                    assert name == "failed"
        while receiver.statistics().open_attempts:
            await trio.sleep(0.001)
        statistics = receiver.statistics()
        assert (statistics.attempts, statistics.staged_size) == (0, 0)


async def test_an_attempt_that_still_receives_cannot_win(place):
    """Otherwise a part of its rows would be the batch."""
    application = Application()
    async with sink(application, **place) as (requester, _):

        async def source():
            yield Payload(encode(opening("open")))
            yield Payload(rows(1)[0])
            await trio.sleep_forever()

        async with requester.request_channel(source(), route=ROUTE) as replies:
            await replies.receive()
            await trio.testing.wait_all_tasks_blocked()
            for count in (0, 1):
                with pytest.raises(CustomError, match="not staged"):
                    await commit(requester, ["open"], count)
        assert application.batches == []


# -- hostile clients and limits -----------------------------------------------------------------


async def refused(requester, first: Opening | bytes, payloads=()) -> StreamError:
    """Return the error of a channel that is refused."""
    data = first if isinstance(first, bytes) else encode(first)

    async def source():
        yield Payload(data)
        for each in payloads:
            yield Payload(each)

    with pytest.raises(StreamError) as caught:
        async with requester.request_channel(source(), route=ROUTE) as replies:
            async for _ in replies:
                pass
    return caught.value


async def test_other_first_payloads_are_refused():
    """The connection and the sink go on."""
    async with sink(Application()) as (requester, receiver):
        for data in (b"", b"row", b"\xff", encode(opening("a", v=2)), encode(opening(""))):
            assert isinstance(await refused(requester, data), Invalid)
        assert receiver.statistics().attempts == 0
        assert (await write(requester, opening("a"), rows(1))).rows == 1


async def test_other_commits_are_refused():
    """A commit of another version, or none at all."""
    async with sink(Application()) as (requester, _):
        other = CommitRequest(query="q", batch=0, writer="w", winners=[], rows=0, v=9)
        for data in (b"", b"\x80", encode(other)):
            with pytest.raises(Invalid):
                await requester.request_response(Payload(data), route=ROUTE + COMMIT)


async def test_an_identity_is_used_once():
    """Two attempts with one identity would mix their rows."""
    async with sink(Application()) as (requester, _):
        await write(requester, opening("a"), rows(1))
        assert "identity of its own" in str(await refused(requester, opening("a")))


LIMITED = [
    (SinkLimits(max_rows=3), rows(1, 2, 3), rows(1, 2, 3, 4), "max_rows"),
    (SinkLimits(max_payload_size=10), [bytes(10)], [bytes(11)], "max_payload_size"),
    (SinkLimits(max_attempt_size=1200), [bytes(10)], [bytes(200)], "max_attempt_size"),
    (SinkLimits(max_staged_size=1200), [bytes(10)], [bytes(200)], "max_staged_size"),
]


@pytest.mark.parametrize(
    ("limits", "good", "bad", "name"), LIMITED, ids=[name for *_, name in LIMITED]
)
async def test_rows_are_limited(limits, good, bad, name, place):
    """The text names the limit; the rows of the attempt are dropped."""
    async with sink(Application(), limits=limits, **place) as (requester, receiver):
        error = await refused(requester, opening("bad"), bad)
        assert f"SinkLimits.{name}" in str(error)
        assert receiver.statistics().staged_size == 0
        assert (await write(requester, opening("good"), good)).rows == len(good)


async def test_endless_rows_end():
    """A task without an end is stopped by the limit, and not by the disk."""

    def endless():
        while True:
            yield b"x"

    limits = SinkLimits(max_rows=50_000)
    async with sink(Application(), limits=limits) as (requester, receiver):
        assert isinstance(await refused(requester, opening("a"), endless()), Invalid)
        assert receiver.statistics().staged_size == 0


async def test_schemas_are_limited():
    """And a schema counts as staged, because it is in memory."""
    limits = SinkLimits(max_schema_size=5000, max_staged_size=6000)
    async with sink(Application(), limits=limits) as (requester, _):
        assert "max_schema_size" in str(await refused(requester, opening("a", schema="x" * 5001)))
        await write(requester, opening("b", schema="x" * 4000))
        assert "max_staged_size" in str(await refused(requester, opening("c", schema="x" * 4000)))


async def test_attempts_are_limited():
    """Those that wait for a commit, and those that receive rows."""
    limits = SinkLimits(max_attempts=3, max_open_attempts=1)
    async with sink(Application(), limits=limits) as (requester, receiver):

        async def slow():
            yield Payload(encode(opening("slow")))
            await trio.sleep_forever()

        async with requester.request_channel(slow(), route=ROUTE) as replies:
            await replies.receive()
            error = await refused(requester, opening("second"))
            assert isinstance(error, Rejected)
            assert "max_open_attempts" in str(error)
        while receiver.statistics().open_attempts:
            await trio.sleep(0.001)
        for name in "abc":
            await write(requester, opening(name, query=name))
        assert "max_attempts" in str(await refused(requester, opening("d")))


async def test_the_leftovers_of_a_killed_driver_make_room(place):
    """A query that is restarted often fills its own staging room, and goes on all the same."""
    limits = SinkLimits(max_staged_size=4000, max_attempts=3)
    application = Application()
    async with sink(application, limits=limits, **place) as (requester, receiver):
        await write(requester, opening("other", query="q2"), rows(0))
        for number in range(20):  # each time the driver is killed before the commit
            await write(requester, opening(f"a{number}", writer=f"w{number}"), rows("x" * 1000))
        assert receiver.statistics().staged_size <= 4000
        await commit(requester, ["a19"], 1, writer="w19")
        await commit(requester, ["other"], 1, query="q2")
        assert [query for query, _, _ in application.batches] == ["q", "q2"]


async def test_silent_tasks_end(autojump_clock):
    """A task that sends nothing does not keep its place."""
    async with sink(Application(), limits=SinkLimits(max_idle=60)) as (requester, receiver):

        async def silent():
            yield Payload(encode(opening("silent")))
            await trio.sleep(50)
            yield Payload(rows(1)[0])
            await trio.sleep_forever()

        begun = trio.current_time()
        with pytest.raises(Rejected, match="max_idle"):
            async with requester.request_channel(silent(), route=ROUTE) as replies:
                async for _ in replies:
                    pass
        assert 109 < trio.current_time() - begun < 112
        assert receiver.statistics().attempts == 0


async def test_old_attempts_are_dropped(monkeypatch, autojump_clock):
    """Attempts of drivers that are gone do not stay for ever. A clock that is set drops none."""
    wall = 1e9
    monkeypatch.setattr(
        receiver_module, "Staging", lambda store, limits: Staging(store, limits, lambda: wall)
    )
    limits = SinkLimits(max_age=36)
    async with sink(Application(), limits=limits) as (requester, receiver):
        await write(requester, opening("a"), rows(1))
        wall += 10**7
        await trio.sleep(30)
        await write(requester, opening("b", query="q2"), rows(1))
        assert receiver.statistics().attempts == 2
        wall -= 10**8
        await trio.sleep(10)
        await write(requester, opening("c", query="q3"), rows(1))
        assert receiver.statistics().attempts == 2
        with pytest.raises(CustomError, match="too old"):
            await commit(requester, ["a"], 1)
        await commit(requester, ["b"], 1, query="q2")


async def test_attempts_of_the_process_before(tmp_path, autojump_clock):
    """Their age is what the clock says at the start, and no less than nothing."""
    wall = 1e9
    store = SqliteStore(tmp_path / "sink")
    first = Staging(store, SinkLimits(max_age=150), lambda: wall)
    for name in ("old", "new", "ahead"):
        wall = {"old": 1e9, "new": 1e9 + 80, "ahead": 2e9}[name]
        attempt = await first.begin("", opening(name, query=name))
        await attempt.complete()
        first.end(attempt)
    store.close()
    wall = 1e9 + 160
    store = SqliteStore(tmp_path / "sink")
    again = Staging(store, SinkLimits(max_age=150), lambda: wall)
    await again.load()
    wall = 0
    left = []
    for _ in range(3):
        await trio.sleep(62)
        again._clean()
        left.append(sorted(each.facts.attempt for each in again.index.all()))
    assert left == [["ahead", "new"], ["ahead"], []]
    store.close()


async def test_queries_are_forgotten_in_the_order_of_their_commits(place):
    """Memory is bounded; a query that commits stays."""
    application = Application()
    async with sink(application, limits=SinkLimits(max_queries=2), **place) as (requester, _):

        async def whole(query: str, batch: int) -> None:
            name = f"{query}{batch}"
            await write(requester, opening(name, query=query, batch=batch), rows(name))
            await commit(requester, [name], 1, query=query, batch=batch)

        await whole("old", 0)
        await whole("stays", 0)
        await whole("stays", 1)
        await whole("new", 0)
        assert await write(requester, opening("x", query="stays", batch=1)) is None
        assert await write(requester, opening("y", query="old", batch=0)) is not None


# -- owners and guards ----------------------------------------------------------------------------


@attrs.frozen
class User:
    name: str


async def by_token(auth, facts):
    if auth is None and facts.principal is not None:
        return facts.principal
    if not isinstance(auth, BearerAuthentication):
        raise Rejected("authentication is needed")
    return auth.token


async def user_by_token(auth, facts):
    principal = await by_token(auth, facts)
    return User(principal) if isinstance(principal, str) else principal


def client(router: Router, name: str):
    metadata = Metadata(auth=BearerAuthentication(name)).encode(MIME.COMPOSITE_METADATA)
    return connected_pair(router, setup=Payload(b"", metadata))


@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize(
    ("authenticate", "options"),
    [
        (by_token, {}),
        (by_token, {"owner": str.upper}),
        (user_by_token, {"owner": lambda u: u.name}),
    ],
    ids=["derived", "function", "object"],
)
async def test_owners_are_apart(authenticate, options, included):
    """Another principal's query, attempts and commits cannot be touched; none needs to be told.

    Nor if the router around that of the sink authenticates.
    """
    application = Application()
    router = Router(authenticate=authenticate)
    own = Router() if included else router
    if included:
        router.include(own)
    async with (
        sink_receiver(own, ROUTE, application, **options) as receiver,
        client(router, "ada") as ada,
        client(router, "eve") as eve,
    ):
        await write(ada, opening("a"), rows(1))
        await abort(eve)
        with pytest.raises(CustomError) as caught:
            await commit(eve, ["a"], 1)
        assert caught.value.code == UNKNOWN_ATTEMPT
        await write(eve, opening("a", batch=9), rows(2))  # the same identity, of another owner
        await commit(eve, ["a"], 1, batch=9)
        assert (await commit(ada, ["a"], 1)).rows == 1
        assert [batch for _, batch, _ in application.batches] == [9, 0]
        assert receiver.statistics().attempts == 0


async def test_a_principal_without_a_name_is_refused(caplog):
    """One that is no str would be one owner with all others; the log says what to do."""
    router = Router(authenticate=user_by_token)
    async with sink_receiver(router, ROUTE, Application()), client(router, "ada") as ada:
        with pytest.raises(ApplicationError, match="this request was not admitted"):
            await commit(ada, [], 0)
    assert "the principal is User, not a str: give sink_receiver an owner=" in caplog.text


async def test_without_a_principal():
    """All requests are of one owner; with ``owner=`` they are refused, as nobody is their owner."""

    async def everybody(auth, facts):
        return None

    for router in (Router(), Router(authenticate=everybody)):
        application = Application()
        async with sink_receiver(router, ROUTE, application), connected_pair(router) as requester:
            await write(requester, opening("a"), rows(1))
            assert (await commit(requester, ["a"], 1)).rows == 1
        async with (
            sink_receiver(router, "other", application, owner=str),
            connected_pair(router) as requester,
        ):
            with pytest.raises(Rejected, match="authentication is needed"):
                await requester.request_response(Payload(b""), route="other" + COMMIT)


async def test_an_owner_does_not_make_others_forgotten():
    """Queries of others would commit their last batch twice."""
    application = Application()
    staging = Staging(MemoryStore(), SinkLimits(max_queries=3))

    async def whole(owner: str, query: str) -> None:
        request = CommitRequest(query=query, batch=0, writer="w", winners=[], rows=0)
        await staging.commit(owner, request, application)

    await whole("ada", "q")
    for number in range(10):
        await whole("eve", f"{number}")
    await whole("bob", "q")  # takes the place of one of the owner with the most
    remembered = [await staging.begin(owner, opening("x")) is None for owner in ("ada", "bob")]
    assert remembered == [True, True]
    kept = [await staging.begin("eve", opening("x", query=f"{n}")) is None for n in range(8, 10)]
    assert kept == [False, True]


async def test_guards_of_the_router_are_asked():
    """A sink without owners is as guarded as other routes."""

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts) and facts.route.name == ROUTE + COMMIT:
            raise Rejected("read only")

    router = Router(authenticate=authenticate)

    async with sink(Application(), router) as (requester, _):
        await write(requester, opening("a"), rows(1))
        with pytest.raises(Rejected, match="read only"):
            await commit(requester, ["a"], 1)


# -- batches --------------------------------------------------------------------------------------


async def test_rows_of_all_formats_are_dicts():
    """JSON rows and rows of Arrow, as CBOR rows."""
    pa = pytest.importorskip("pyarrow")
    found = []

    async def on_commit(batch):
        found.append((batch.format, [row async for row in batch.rows()], batch.row_count))
        assert [data async for data in batch]
        assert [row async for row in batch.rows()] == found[-1][1]  # as often as needed

    file = pa.BufferOutputStream()
    table = pa.table({"v": [1, 2]})
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    payloads = {
        "cbor": rows(1, 2),
        "json": [json.dumps({"v": each}).encode() for each in (1, 2)],
        "arrow": [file.getvalue().to_pybytes()],
    }
    async with sink(on_commit) as (requester, _):
        for number, (format_, data) in enumerate(payloads.items()):
            first = opening(format_, batch=number, format=format_)
            assert (await write(requester, first, data)).rows == 2
            await commit(requester, [format_], 2, batch=number)
    assert found == [(format_, [{"v": 1}, {"v": 2}], 2) for format_ in payloads]


def arrow_payload(column) -> bytes:
    """A stream of Arrow with one column."""
    import pyarrow as pa

    rows = pa.record_batch([column], names=["v"])
    file = pa.BufferOutputStream()
    with pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_batch(rows)
    return file.getvalue().to_pybytes()


async def test_a_few_bytes_of_arrow_do_not_take_much_memory():
    """A column of nulls has no bytes. Its rows become dicts as they are taken."""
    pa = pytest.importorskip("pyarrow")
    count = 300_000
    taken = 0

    async def on_commit(batch):
        nonlocal taken
        async for row in batch.rows():
            assert row == {"v": None}
            taken += 1

    async with sink(on_commit) as (requester, _):
        await write(requester, opening("a", format="arrow"), [arrow_payload(pa.nulls(count))])
        tracemalloc.start()
        try:
            await commit(requester, ["a"], count)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert taken == count
    assert peak < 4 * 2**20  # all of them take a hundred bytes each


async def test_rows_of_columns_with_one_name_fail_the_commit():
    """A dict would lose a column. The payloads have both."""
    pa = pytest.importorskip("pyarrow")
    table = pa.record_batch([pa.array([1]), pa.array([2])], names=["v", "v"])
    file = pa.BufferOutputStream()
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_batch(table)
    payload = file.getvalue().to_pybytes()
    found = []

    async def on_commit(batch):
        found.extend([data async for data in batch])
        await anext(batch.rows())

    async with sink(on_commit) as (requester, _):
        await write(requester, opening("a", format="arrow"), [payload])
        with pytest.raises(Invalid, match="two columns have the same name"):
            await commit(requester, ["a"], 1)
    assert found == [payload]


async def test_types_of_arrow_whose_values_share_bytes_fail_the_commit():
    """Spark does not write them."""
    pa = pytest.importorskip("pyarrow")
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([9], pa.int32()), pa.array(["x"]))
    views = pa.array(["x"], pa.string_view())
    async with sink(Application()) as (requester, _):
        for number, column in enumerate((runs, pa.StructArray.from_arrays([views], names=["s"]))):
            first = opening(f"a{number}", query=f"{number}", format="arrow")
            staged = await write(requester, first, [arrow_payload(column)])
            with pytest.raises(Invalid, match="which Spark does not write"):
                await commit(requester, [f"a{number}"], staged.rows, query=f"{number}")


async def test_small_rows_in_memory_cost_what_the_limits_count():
    """An object for each row would cost three times as much."""
    payloads = [bytes((number % 250, 1)) for number in range(50_000)]
    async with sink(Application()) as (requester, receiver):
        await write(requester, opening("warm"), payloads[:9000])
        before = receiver.statistics().staged_size
        tracemalloc.start()
        try:
            await write(requester, opening("a", partition=1), payloads)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < receiver.statistics().staged_size - before


async def test_an_attempt_that_is_dropped_while_it_stores_rows():
    """The next row is refused; no row is kept, and nothing else fails."""
    staging = Staging(MemoryStore(), SinkLimits())

    async def add(attempt):
        with suppress(Rejected):
            await attempt.add(rows(1)[0])

    for _ in range(50):  # trio chooses who runs first
        attempt = await staging.begin("", opening("a"))
        for data in rows(*range(CHUNK_COUNT - 1)):
            await attempt.add(data)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(add, attempt)
            nursery.start_soon(staging.abort, "", AbortRequest(query="q", batch=0, writer="w"))
        with pytest.raises(Rejected, match="was dropped"):
            await attempt.add(rows(1)[0])
        staging.end(attempt)
    await staging.abort("", AbortRequest(query="q", batch=0, writer="w"))
    assert staging.index.size == 0
    assert not staging.store._chunks


@pytest.mark.parametrize("format_", ["cbor", "json"])
async def test_payloads_without_rows_fail_the_commit(format_):
    """The driver learns which partition it is."""
    async with sink(Application()) as (requester, _):
        no_rows = (b"\xff\xff", b"[1]", b"1", b"[" * 10_000, b'{"v":NaN}')
        for number, data in enumerate(no_rows):
            await write(requester, opening(f"a{number}", query=f"{number}", format=format_), [data])
            with pytest.raises(Invalid):
                await commit(requester, [f"a{number}"], 1, query=f"{number}")


async def test_an_empty_batch_is_handed_over():
    """A batch without partitions, or without rows, is a batch."""
    application = Application()
    async with sink(application) as (requester, _):
        assert (await commit(requester, [], 0)).rows == 0
        await write(requester, opening("a", batch=1))
        await commit(requester, ["a"], 0, batch=1)
    assert application.batches == [("q", 0, []), ("q", 1, [])]


async def test_a_closed_sink_refuses():
    """The routes of a router stay, but the store is closed."""
    router = Router()
    async with sink_receiver(router, ROUTE, Application()):
        pass
    async with connected_pair(router) as requester:
        assert "closed" in str(await refused(requester, opening("a")))
        with pytest.raises(Rejected, match="closed"):
            await commit(requester, [], 0)
        with pytest.raises(Rejected, match="closed"):
            await abort(requester)


# -- directories ----------------------------------------------------------------------------------


async def test_directories_are_checked(tmp_path):
    """A directory in use, of something else, or of a newer version is refused."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpg").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/sink.sqlite3").write_bytes(b"not a database, and long enough" * 100)
    for name, text in (("photos", "cat.jpg"), ("damaged", "cannot be opened")):
        with pytest.raises(SinkDirectoryError, match=text):
            async with sink_receiver(Router(), ROUTE, Application(), directory=tmp_path / name):
                pass
    directory = tmp_path / "used"
    async with sink_receiver(Router(), ROUTE, Application(), directory=directory):
        with pytest.raises(SinkDirectoryError, match="in use by process"):
            async with sink_receiver(Router(), ROUTE, Application(), directory=directory):
                pass
    import sqlite3

    database = sqlite3.connect(directory / "sink.sqlite3")
    database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(SinkDirectoryError, match="update rsocket_trio"):
        async with sink_receiver(Router(), ROUTE, Application(), directory=directory):
            pass
    database = sqlite3.connect(directory / "sink.sqlite3")
    database.execute("CREATE TRIGGER t AFTER INSERT ON commits BEGIN DELETE FROM chunks; END")
    database.close()
    with pytest.raises(SinkDirectoryError, match="has a trigger named 't'"):
        async with sink_receiver(Router(), ROUTE, Application(), directory=directory):
            pass
    (directory / "sink.sqlite3").unlink()
    os.mkfifo(directory / "sink.sqlite3")
    with pytest.raises(SinkDirectoryError, match="is no file"):
        async with sink_receiver(Router(), ROUTE, Application(), directory=directory):
            pass


async def test_arguments_are_checked():
    """A mistake in the program is an error at its place."""
    router = Router()
    with pytest.raises(TypeError, match="SinkLimits"):
        async with sink_receiver(router, ROUTE, Application(), limits={}):
            pass
    with pytest.raises(TypeError, match="on_commit"):
        async with sink_receiver(router, ROUTE, None):
            pass
    for field in ("max_rows", "max_age", "max_idle", "max_queries"):
        with pytest.raises(ValueError, match=field):
            SinkLimits(**{field: 0})


async def test_a_disk_that_fails_is_a_refusal(tmp_path, monkeypatch, caplog):
    """The peer is told that it may try again, and the log says why."""
    import sqlite3

    from rsocket_trio.spark.sinks.receiving.sqlite_store import SqliteStore

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    application = Application()
    async with sink(application, directory=tmp_path) as (requester, receiver):
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "append", full)
            error = await refused(requester, opening("a"), rows(1))
            assert isinstance(error, Rejected)
            assert "disk is full" not in str(error)
            assert "disk is full" in caplog.text
        assert receiver.statistics().attempts == 0
        await write(requester, opening("b"), rows(1))
        await commit(requester, ["b"], 1)
        assert application.batches == [("q", 0, [1])]


async def test_a_disk_that_fails_after_the_handler(tmp_path, monkeypatch):
    """The handler has the rows, so the next try only remembers the batch."""
    import sqlite3

    from rsocket_trio.spark.sinks.receiving.sqlite_store import SqliteStore

    def locked(*_):
        raise sqlite3.OperationalError("database is locked")

    application = Application()
    async with sink(application, directory=tmp_path) as (requester, _):
        await write(requester, opening("a"), rows(1))
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "commit", locked)
            for _ in range(2):
                with pytest.raises(Rejected):
                    await commit(requester, ["a"], 1)
        await write(requester, opening("again", writer="restarted"), rows(1))
        assert (await commit(requester, ["again"], 1, writer="restarted")).rows == 1
        assert application.batches == [("q", 0, [1])]
        await write(requester, opening("b", batch=1), rows(2))
        await commit(requester, ["b"], 1, batch=1)
        assert application.batches == [("q", 0, [1]), ("q", 1, [2])]
