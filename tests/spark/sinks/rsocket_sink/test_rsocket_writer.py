"""The writers of ``format("rsocket")``, driven as Spark drives them, but without Spark."""

from __future__ import annotations

import pickle
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import attrs
import pytest
import trio

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StringType, StructField, StructType  # noqa: E402

from rsocket_trio import (  # noqa: E402
    BearerAuthentication,
    Payload,
    Rejected,
    Router,
    SimpleAuthentication,
    serve,
)
from rsocket_trio.spark import SinkLimits, sink_receiver  # noqa: E402
from rsocket_trio.spark.sinks.errors import SinkError  # noqa: E402
from rsocket_trio.spark.sinks.messages import (  # noqa: E402
    CommitReply,
    CommitRequest,
    Opening,
    Staged,
    Welcome,
    decode,
    encode,
)
from rsocket_trio.spark.sinks.rsocket_sink import writer as module  # noqa: E402
from rsocket_trio.spark.sinks.rsocket_sink.task_facts import TaskFacts  # noqa: E402
from rsocket_trio.spark.sinks.rsocket_sink.writer import (  # noqa: E402
    WrittenAttempt,
    rsocket_stream_writer,
    rsocket_writer,
)
from tests.spark.sinks.helpers import Application  # noqa: E402

SCHEMA = StructType([StructField("v", LongType()), StructField("name", StringType())])
ARROW = pa.schema([("v", pa.int64()), ("name", pa.string())])


def batch(start: int, stop: int):
    """A record batch of Spark."""
    values = range(start, stop)
    return pa.record_batch(
        [pa.array(values), pa.array([f"name {each}" for each in values])], schema=ARROW
    )


class Spark:
    """Calls writers as Spark does.

    Attributes:
        router: The router of the responder.
        application: Gets committed batches.
        options: The options of a write.
        receiver: The sink of the responder.
    """

    def __init__(self, background, monkeypatch, directory) -> None:
        self.background = background
        self.monkeypatch = monkeypatch
        self.directory = directory
        self.router = Router()
        self.application = Application()
        self.receiver = None
        self.scope = None
        self.options: dict[str, str] = {}

    def serve(self, *, limits: SinkLimits | None = None, port: int = 0) -> None:
        limits = SinkLimits() if limits is None else limits

        async def run(task_status=trio.TASK_STATUS_IGNORED):
            with trio.CancelScope() as scope:
                async with (
                    sink_receiver(
                        self.router,
                        "alerts",
                        self.application,
                        directory=self.directory,
                        limits=limits,
                    ) as receiver,
                    trio.open_nursery() as nursery,
                ):
                    server = await nursery.start(serve, self.router, f"tcp://127.0.0.1:{port}")
                    task_status.started((str(server.uris[0]), receiver, scope))

        uri, self.receiver, self.scope = self.background.start(run)
        self.options = {"URI": uri, "route": "alerts", "timeoutMs": "5000"} | self.options

    def serve_router(self) -> None:
        async def run(task_status=trio.TASK_STATUS_IGNORED):
            async with trio.open_nursery() as nursery:
                server = await nursery.start(serve, self.router, "tcp://127.0.0.1:0")
                task_status.started(str(server.uris[0]))

        uri = self.background.start(run)
        self.options = {"uri": uri, "route": "alerts", "timeoutMs": "5000"} | self.options

    def task(self, writer, partition: int, batches, query: str | None = None, number: int = 0):
        """Run a task: the writer and its message are pickled, as between Spark's processes."""
        facts = TaskFacts(partition, query, None if query is None else number)
        with self.monkeypatch.context() as patch:
            patch.setattr(TaskFacts, "now", lambda: facts)
            message = pickle.loads(pickle.dumps(writer)).write(iter(batches))
        return pickle.loads(pickle.dumps(message))

    def batch_writer(self, **options):
        return rsocket_writer(self.options | options, SCHEMA, overwrite=False)

    def stream_writer(self, **options):
        return rsocket_stream_writer(self.options | options, SCHEMA, overwrite=False)


@pytest.fixture
def spark(background, monkeypatch):
    """A driver with its tasks, and a responder in memory."""
    made = Spark(background, monkeypatch, None)
    made.serve()
    return made


@pytest.fixture
def bare(background, monkeypatch):
    """A driver with its tasks, without a responder."""
    return Spark(background, monkeypatch, None)


@pytest.mark.parametrize("format_", ["cbor", "json", "arrow"])
def test_a_batch_write(spark, format_):
    """The rows of all partitions arrive with the commit, in each format."""
    writer = spark.batch_writer(payloadFormat=format_, batchBytes="2000")
    messages = [
        spark.task(writer, 0, [batch(0, 100), batch(100, 150)]),
        spark.task(writer, 1, []),
        spark.task(writer, 2, [batch(150, 400)]),
    ]
    assert [each.rows for each in messages] == [150, 0, 250]
    assert spark.application.batches == []
    writer.commit(messages)
    [(_, number, values)] = spark.application.batches
    assert (number, values) == (0, [*range(400)])
    writer.commit(messages)
    assert len(spark.application.batches) == 1


def test_two_batch_writes_are_two_queries(spark):
    """Without an identity, each write is new."""
    for _ in range(2):
        writer = spark.batch_writer()
        writer.commit([spark.task(writer, 0, [batch(0, 2)])])
    assert len(spark.application.batches) == 2


def test_txn_id_makes_a_batch_write_idempotent(spark):
    """A job that is started again writes nothing, and does not fail."""
    for version, expected in ((3, 1), (3, 1), (4, 2)):
        writer = spark.batch_writer(txnId="nightly", txnVersion=str(version))
        batches = iter([batch(0, 2), batch(2, 3)])
        message = spark.task(writer, 0, batches)
        writer.commit([message])
        assert len(spark.application.batches) == expected
    assert {query for query, _, _ in spark.application.batches} == {"nightly"}
    with pytest.raises(SinkError, match="older than batch 4"):
        spark.task(spark.batch_writer(txnId="nightly", txnVersion="2"), 0, [])


def test_the_input_is_read_to_its_end_though_the_batch_is_committed(spark):
    """Operators before the sink keep state, so they have to see all rows."""
    writer = spark.stream_writer()
    writer.commit([spark.task(writer, 0, [batch(0, 1)], "q")], 0)
    taken = []

    def batches():
        for number in range(5):
            taken.append(number)
            yield batch(number, number + 1)

    facts = TaskFacts(0, "q", 0)
    with spark.monkeypatch.context() as patch:
        patch.setattr(TaskFacts, "now", lambda: facts)
        assert writer.write(batches()).rows == 0
    assert taken == [0, 1, 2, 3, 4]


def test_spark_may_be_slow_though_the_batch_is_committed(spark):
    """The responder has nothing to do meanwhile, and may even be stopped."""
    writer = spark.stream_writer(timeoutMs="200")
    writer.commit([spark.task(writer, 0, [batch(0, 1)], "q")], 0)

    def batches():
        spark.background.call(spark.scope.cancel)
        for number in range(6):
            time.sleep(0.1)
            yield batch(number, number + 1)

    assert spark.task(writer, 0, batches(), "q").rows == 0


def test_a_stream_write_with_a_retried_task(spark):
    """The driver's writer is another object than that of the tasks, and takes all from messages."""
    for number in range(3):
        tasks, driver = spark.stream_writer(), spark.stream_writer()
        spark.task(tasks, 0, [batch(0, 10)], "query id", number)  # its message is lost
        with pytest.raises(RuntimeError, match="upstream"):
            spark.task(tasks, 1, failing(), "query id", number)
        messages = [
            spark.task(tasks, 0, [batch(0, 10)], "query id", number),
            spark.task(tasks, 1, [batch(10, 20)], "query id", number),
        ]
        driver.commit(messages, number)
    assert spark.application.batches == [("query id", each, [*range(20)]) for each in range(3)]
    assert spark.receiver.statistics().attempts == 0


def failing():
    """An iterator of Spark that fails."""
    yield batch(0, 5)
    raise RuntimeError("upstream")


def test_the_names_of_a_batch_write_go_together(bare):
    """With the name of the query alone, the second write of a program would do nothing."""
    options = {"uri": "tcp://127.0.0.1:1", "route": "alerts"}
    for one in ({"txnId": "nightly"}, {"txnVersion": "3"}):
        with pytest.raises(ValueError, match="both of the options txnId and txnVersion"):
            rsocket_writer(options | one, SCHEMA, overwrite=False)
    with pytest.raises(ValueError, match="a stream counts its batches"):
        rsocket_stream_writer(options | {"txnVersion": "3"}, SCHEMA, overwrite=False)


def test_two_streams_of_one_name_lose_no_rows(spark):
    """The second one has other rows with the same number, so it fails, and does not skip them."""
    first = spark.stream_writer(txnId="alerts")
    message = spark.task(first, 0, [batch(0, 4)], "first", 0)
    first.commit([message], 0)
    second = spark.stream_writer(txnId="alerts")
    with pytest.raises(SinkError, match="committed by another query"):
        spark.task(second, 0, [batch(4, 8)], "second", 0)
    with pytest.raises(SinkError, match="committed by another query"):
        second.commit([attrs.evolve(message, source="second")], 0)
    first.commit([spark.task(first, 0, [batch(0, 4)], "first", 0)], 0)
    assert spark.application.batches == [("alerts", 0, [0, 1, 2, 3])]


def test_the_replayed_batch_after_a_lost_commit_log(spark, caplog):
    """Killed between our commit and Spark's commit log: the batch comes again, in other parts."""
    first = spark.stream_writer()
    first.commit([spark.task(first, 0, [batch(0, 4)], "q", 7)], 7)
    again = spark.stream_writer()
    messages = [spark.task(again, each, [batch(0, 2)], "q", 7) for each in range(2)]
    assert [each.rows for each in messages] == [0, 0]
    spark.stream_writer().commit(messages, 7)
    assert spark.application.batches == [("q", 7, [0, 1, 2, 3])]
    assert not caplog.records


def test_a_repeated_batch_with_other_rows_is_logged(spark, caplog):
    """Two writes have the same names by mistake, or a source gives other rows the second time."""
    for stop in (4, 9):
        writer = spark.batch_writer(txnId="nightly", txnVersion="1")
        writer.commit([spark.task(writer, 0, [batch(0, stop)])])
    assert spark.application.batches == [("nightly", 1, [0, 1, 2, 3])]
    [record] = caplog.records
    assert record.getMessage() == (
        "batch 1 of query nightly was committed before with 4 rows: the 9 rows of this time are "
        "not written. Two writes may have the same txnId and txnVersion"
    )


def test_an_abort_drops_the_rows(spark):
    """Failed tasks have no message; the others name the try."""
    tasks = spark.stream_writer()
    message = spark.task(tasks, 0, [batch(0, 4)], "q", 1)
    spark.stream_writer().abort([None, None], 1)
    assert spark.receiver.statistics().attempts == 1
    spark.stream_writer().abort([None, message], 1)
    assert spark.receiver.statistics().attempts == 0
    writer = spark.batch_writer()
    spark.task(writer, 0, [batch(0, 4)])
    writer.abort([None])
    assert spark.receiver.statistics().attempts == 0


def test_an_abort_does_not_hide_the_failure_of_the_job(bare, caplog):
    """Spark reports the first failure, so an abort that fails only logs."""
    options = {"uri": "tcp://127.0.0.1:1", "route": "alerts"}
    rsocket_writer(options, SCHEMA, overwrite=False).abort([])
    assert "Connection refused" in caplog.text


def test_a_commit_without_all_messages_is_refused(spark):
    """It would lose the rows of a partition."""
    writer = spark.batch_writer()
    with pytest.raises(SinkError, match="told nothing"):
        writer.commit([spark.task(writer, 0, [batch(0, 4)]), None])
    stream = spark.stream_writer()
    with pytest.raises(SinkError, match="batch 1, not batch 2"):
        stream.commit([spark.task(stream, 0, [batch(0, 4)], "q", 1)], 2)
    stream.commit([], 3)  # no partitions
    with pytest.raises(SinkError, match="told nothing"):
        stream.commit([None], 3)


def test_a_lost_directory_says_what_to_do(spark):
    """The responder has lost the staged rows: the driver's commit fails, and says so."""
    writer = spark.batch_writer()
    message = spark.task(writer, 0, [batch(0, 4)])
    writer.abort([])
    with pytest.raises(SinkError, match="Start the query again"):
        writer.commit([message])


def test_a_responder_that_comes_late(bare):
    """Tasks and commits wait for a responder that is being started again."""
    bare.serve()
    uri = bare.options["URI"]
    bare.background.call(bare.scope.cancel)
    bare.router = Router()

    def later():
        time.sleep(0.5)
        bare.serve(port=int(uri.rpartition(":")[2]))

    import threading

    thread = threading.Thread(target=later)
    thread.start()
    writer = bare.batch_writer()
    message = bare.task(writer, 0, [batch(0, 4)])
    thread.join()
    writer.commit([message])
    assert len(bare.application.batches) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems answer with a refusal")
def test_an_address_that_does_not_answer(bare):
    """Each attempt to connect has its own time: a packet may be lost, and a host may come back."""
    with socket.socket() as listener, socket.socket() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting.connect(listener.getsockname())  # now its queue is full: Linux drops the others
        bare.options = {"uri": f"tcp://127.0.0.1:{listener.getsockname()[1]}", "route": "alerts"}
        writer = bare.batch_writer(timeoutMs="1000", connectTimeoutMs="100")
        with pytest.raises(SinkError, match=r"within 1 s: .* not connected within 0\.1 s"):
            bare.task(writer, 0, [batch(0, 4)])


def test_tasks_wait_for_their_turn(bare):
    """A responder that takes one attempt at a time refuses others for now."""
    bare.serve(limits=SinkLimits(max_open_attempts=1))
    import threading

    found = []
    writer = bare.batch_writer()

    def slowly(start: int):
        yield batch(start, start + 1)
        time.sleep(0.2)
        yield batch(start + 1, start + 2)

    # The facts of a task are replaced in one thread only, so here they are the same for all.
    with bare.monkeypatch.context() as patch:
        patch.setattr(TaskFacts, "now", lambda: TaskFacts(0, None, None))
        threads = [
            threading.Thread(target=lambda n=n: found.append(writer.write(slowly(n))))
            for n in (0, 2, 4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(20)
    assert [each.rows for each in found] == [2, 2, 2]


def test_a_responder_that_hangs(bare):
    """No task hangs for ever: it says where, and which option to change."""

    @bare.router.request_channel("alerts")
    async def hang(items: trio.abc.ReceiveChannel[Payload]) -> trio.abc.ReceiveChannel[Payload]:
        from rsocket_trio.spark.sinks.messages import Opening, Welcome, decode, encode

        async def answer():
            first = decode((await items.receive()).data, Opening)
            if first.query != "before":
                yield Payload(encode(Welcome(attempt=first.attempt)))
            await trio.sleep_forever()

        return answer()

    bare.serve_router()
    with pytest.raises(SinkError, match="timeoutMs"):
        bare.task(bare.batch_writer(timeoutMs="300"), 0, [batch(0, 5000)])
    with pytest.raises(SinkError, match=r"within 2 s"):
        bare.task(
            bare.batch_writer(timeoutMs="2000", txnId="before", txnVersion="0"), 0, [batch(0, 5000)]
        )


def test_spark_may_be_slow(spark):
    """The timeout is for the responder, and not for the operators before the sink."""

    def slowly():
        yield batch(0, 1)
        time.sleep(2.5)
        yield batch(1, 2)

    assert spark.task(spark.batch_writer(timeoutMs="1000"), 0, slowly()).rows == 2


def test_back_pressure_reaches_spark(bare):
    """A responder that takes few rows makes Spark wait: its batches are not read ahead."""
    taken = []
    go_on = trio.Event()

    @bare.router.request_channel("alerts")
    async def slow(items: trio.abc.ReceiveChannel[Payload]) -> trio.abc.ReceiveChannel[Payload]:
        async def answer():
            first = decode((await items.receive()).data, Opening)
            yield Payload(encode(Welcome(attempt=first.attempt)))
            await go_on.wait()
            count = 0
            async for _ in items:
                count += 1
            yield Payload(encode(Staged(attempt=first.attempt, rows=count)))

        return answer()

    def batches():
        for number in range(10):
            taken.append(number)
            if number == 3:  # one is being sent, one waits, one is being handed over
                pytest.fail("Spark was read ahead")
            yield batch(0, 1000)
            if number == 2:
                return

    bare.serve_router()
    import threading

    timer = threading.Timer(0.5, lambda: bare.background.call(go_on.set))
    timer.start()
    assert bare.task(bare.batch_writer(), 0, batches()).rows == 3000
    assert taken == [0, 1, 2]


def test_a_responder_that_loses_rows(bare):
    """The task compares the counts."""

    @bare.router.request_channel("alerts")
    async def lossy(items: trio.abc.ReceiveChannel[Payload]) -> trio.abc.ReceiveChannel[Payload]:
        async def answer():
            first = decode((await items.receive()).data, Opening)
            yield Payload(encode(Welcome(attempt=first.attempt)))
            async for _ in items:
                pass
            yield Payload(encode(Staged(attempt=first.attempt, rows=3)))

        return answer()

    bare.serve_router()
    with pytest.raises(SinkError, match="staged 3 rows of partition 0, and Spark has sent 4"):
        bare.task(bare.batch_writer(), 0, [batch(0, 4)])


def test_a_responder_that_does_not_wait_for_the_rows(bare):
    """It says that it has all rows, and their number so far, before Spark has given the first."""

    @bare.router.request_channel("alerts")
    async def early(items: trio.abc.ReceiveChannel[Payload]) -> AsyncIterator[Payload]:
        async def answer():
            first = decode((await items.receive()).data, Opening)
            yield Payload(encode(Welcome(attempt=first.attempt)))
            yield Payload(encode(Staged(attempt=first.attempt, rows=0)))

        return answer()

    def slow():
        time.sleep(0.2)
        yield batch(0, 4)

    bare.serve_router()
    with pytest.raises(SinkError, match="before Spark has sent all"):
        bare.task(bare.batch_writer(), 0, slow())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"query": "other"}, "for another batch"),
        ({"batch": 7}, "for another batch"),
        ({"rows": 3}, "has committed 3 rows of batch 0, and Spark has written 4"),
    ],
    ids=["query", "batch", "rows"],
)
def test_a_responder_that_commits_something_else(bare, change, text):
    """The driver reads the answer to its commit."""

    @bare.router.request_response("alerts.commit")
    async def commit(payload: Payload) -> Payload:
        asked = decode(payload.data, CommitRequest)
        reply = CommitReply(query=asked.query, batch=asked.batch, rows=asked.rows, repeated=False)
        return Payload(encode(attrs.evolve(reply, **change)))

    bare.serve_router()
    written = WrittenAttempt(
        query="q", source="", batch=0, partition=0, attempt="a", writer="w", rows=4
    )
    with pytest.raises(SinkError, match=text):
        bare.batch_writer().commit([written])


def test_responders_that_are_no_sinks(bare):
    """Another handler of the route answers with something else."""

    @bare.router.request_channel("alerts")
    async def echo(items: trio.abc.ReceiveChannel[Payload]) -> trio.abc.ReceiveChannel[Payload]:
        return items

    @bare.router.request_channel("nothing")
    async def nothing(items: trio.abc.ReceiveChannel[Payload]) -> trio.abc.ReceiveChannel[Payload]:
        await items.receive()
        send, receive = trio.open_memory_channel(0)
        send.close()
        return receive

    bare.serve_router()
    for route, text in (
        ("alerts", "no sink"),
        ("nothing", "without a Welcome"),
        ("elsewhere", "INVALID"),
    ):
        with pytest.raises(SinkError, match=text):
            bare.task(bare.batch_writer(route=route), 0, [batch(0, 4)])


def test_rows_that_are_refused_fail_the_task(bare):
    """The text of the responder names its limit."""
    bare.serve(limits=SinkLimits(max_rows=10))
    with pytest.raises(SinkError, match="more than 10 rows"):
        bare.task(bare.batch_writer(), 0, [batch(0, 11)])


def test_a_connection_that_is_lost(spark):
    """The task fails, and Spark may run it again."""

    def batches():
        yield batch(0, 10)
        spark.background.call(spark.scope.cancel)
        yield batch(10, 10_000)

    with pytest.raises(SinkError, match=r"lost|closed"):
        spark.task(spark.batch_writer(), 0, batches())


def test_fire_and_forget(bare):
    """Each row is a request, without staging and commit."""
    found = []

    @bare.router.fire_and_forget("alerts")
    async def alert(row: dict[str, object]) -> None:
        await trio.sleep(0.01)
        found.append(row["v"])

    bare.serve_router()
    writer = bare.batch_writer(interaction="fire_and_forget", lingerMs="2000")
    messages = [spark_message(bare, writer, each) for each in range(2)]
    assert [each.rows for each in messages] == [5000, 5000]
    writer.commit(messages)
    writer.abort(messages)
    assert sorted(found) == sorted([*range(5000)] * 2)
    stream = bare.stream_writer(interaction="fire_and_forget")
    stream.commit([bare.task(stream, 0, [batch(0, 1)], "q", 0)], 0)


def test_a_column_of_routes(bare):
    """Each row goes to its route, without that column; one without a route to the option's."""
    found = []

    def serve_route(route):
        @bare.router.fire_and_forget(route)
        async def handler(row: dict[str, object]) -> None:
            found.append((route, row))

    for each in ("a", "b", "rest"):
        serve_route(each)
    bare.serve_router()
    routed = pa.record_batch([pa.array([1, 2, 3]), pa.array(["a", None, "b"])], schema=ARROW)
    options = {"interaction": "fire_and_forget", "lingerMs": "2000", "routeColumn": "name"}
    bare.task(bare.batch_writer(**options, route="rest"), 0, [routed])
    assert sorted(found) == [("a", {"v": 1}), ("b", {"v": 3}), ("rest", {"v": 2})]
    with pytest.raises(SinkError, match="null or nothing in the column 'name'"):
        bare.task(bare.batch_writer(**options, route=""), 0, [routed])
    bad = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    for name, text in (
        (pa.array(["a", "ü" * 128, None]), "has 256 bytes in the column 'name'"),
        (bad, "no text in the column 'name'"),
    ):
        wrong = pa.record_batch([pa.array([1, 2, 3]), name], schema=ARROW)
        with pytest.raises(SinkError, match=text):
            bare.task(bare.batch_writer(**options, route="rest"), 0, [wrong])
    assert len(found) == 3, "no row of such a batch is sent"
    with pytest.raises(ValueError, match="is none: there are v, name"):
        bare.batch_writer(**options | {"routeColumn": "v"})
    with pytest.raises(ValueError, match="needs the interaction fire_and_forget"):
        bare.batch_writer(routeColumn="name")


def spark_message(spark, writer, partition):
    """The message of a task with 5000 rows."""
    return spark.task(writer, partition, [batch(0, 2500), batch(2500, 5000)])


@pytest.mark.parametrize(
    ("options", "auth"),
    [
        ({"auth.token": "s3cret"}, BearerAuthentication("s3cret")),
        (
            {"auth.username": "ada", "auth.password": "pw"},
            SimpleAuthentication("ada", "pw"),
        ),
    ],
)
def test_authentication(bare, options, auth):
    """The SETUP of all connections has it. It is not shown."""
    seen = []

    async def authenticate(given, facts):
        seen.append(given)
        if getattr(facts, "principal", None) is None and given != auth:
            raise Rejected("authentication is needed")
        return "ada"

    bare.router = Router(authenticate=authenticate)
    bare.serve()
    with pytest.raises(SinkError, match="authentication is needed"):
        bare.task(bare.batch_writer(), 0, [])
    writer = bare.batch_writer(**options)
    writer.commit([bare.task(writer, 0, [batch(0, 1)])])
    assert auth in seen
    assert "s3cret" not in repr(writer._settings)
    assert "pw" not in repr(writer._settings)


WRONG = [
    ({"uri": None}, "uri is required"),
    ({"route": None}, "route is required"),
    ({"uri": "nonsense"}, "option uri"),
    ({"payloadFormat": "xml"}, "payloadFormat"),
    ({"payloadFromat": "json"}, "did you mean payloadFormat"),
    ({"interaction": "request_stream"}, "interaction"),
    ({"batchBytes": "0"}, "batchBytes"),
    ({"txnId": "x" * 257}, "txnId"),
    ({"txnVersion": "-1"}, "txnVersion"),
    ({"route": "é" * 125}, "at most 248 bytes"),
    ({"tls.insecure": "true"}, "need a uri with tls:// or wss://"),
    ({"auth.username": "ada"}, "go together"),
    ({"auth.token": "t", "auth.username": "a", "auth.password": "p"}, "not both"),
]


@pytest.mark.parametrize(("change", "text"), WRONG, ids=[text for _, text in WRONG])
def test_options_are_checked(change, text):
    """A wrong option is an error before the job starts."""
    options = {"uri": "tcp://127.0.0.1:1", "route": "alerts"} | change
    given = {name: value for name, value in options.items() if value is not None}
    for make in (rsocket_writer, rsocket_stream_writer):
        with pytest.raises(ValueError, match=text):
            make(given, SCHEMA, overwrite=False)


def test_overwriting_is_refused():
    """The responder's rows are not a table that could be replaced."""
    options = {"uri": "tcp://127.0.0.1:1", "route": "alerts"}
    with pytest.raises(ValueError, match="cannot overwrite"):
        rsocket_writer(options, SCHEMA, overwrite=True)


def test_the_facts_of_a_task_need_a_task():
    """Outside of Spark's tasks there is a clear error."""
    with suppress(ImportError), pytest.raises(RuntimeError, match="in tasks of Spark only"):
        TaskFacts.now()


def test_the_writer_of_a_stream_needs_the_names_of_the_batch(spark):
    """A Spark that tells no query id must not mix the batches of two queries."""
    with pytest.raises(SinkError, match="has not told"):
        spark.task(spark.stream_writer(), 0, [])
    assert module.__all__
