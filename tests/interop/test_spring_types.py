"""Typed handlers and callers with Spring, in both roles: each type of the table of spring.md.

``spring/src/peer/Typed.java`` has the handlers and the values, ``Orders.java`` the page's programs,
and ``Shop.java`` those of coming-from-spring.md.
"""

import enum
import re
import runpy
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import attrs
import pytest
import trio

import rsocket_trio
from rsocket_trio import Caller, Codecs, Router
from rsocket_trio.metadata.mime_types import MIME

pytestmark = pytest.mark.interop

PAGES = Path(__file__).parents[2] / "docs/howto"
PAGE = (PAGES / "spring.md").read_text(encoding="utf-8")
COMING = (PAGES / "coming-from-spring.md").read_text(encoding="utf-8")
JAVA = Path(__file__).parent / "spring/src/peer"
SPRING = Codecs.for_spring()


class Colour(enum.Enum):
    RED = "#f00"
    DARK_RED = "#800"


@attrs.frozen
class Line:
    sku_code: str
    quantity: int
    note: str | None = None


@attrs.frozen
class Everything:
    customer_name: str
    number: int
    large: int
    real: float
    paid: bool
    huge: int
    total_price: Decimal
    octets: bytes
    order_id: UUID
    day: date
    time: time
    local_moment: datetime
    instant: datetime
    moment: datetime
    duration: timedelta
    colour: Colour
    first_line: Line
    order_lines: list[Line]
    by_number: dict[int, str]
    tags: set[str]


NAIVE = datetime(2024, 5, 6, 7, 8, 9)
MOMENT = NAIVE.replace(tzinfo=UTC)
LINE, OTHER_LINE = Line("tea", 2), Line("milk", 1, "cold")
EVERYTHING = Everything(
    "Zoë",
    7,
    2**53 + 1,
    0.5,
    True,
    2**70,
    Decimal("12.50"),
    b"\0\xff",
    UUID(int=42),
    date(2024, 5, 6),
    time(7, 8, 9),
    NAIVE,
    MOMENT,
    MOMENT,
    timedelta(minutes=90),
    Colour.DARK_RED,
    LINE,
    [LINE, OTHER_LINE],
    {7: "seven"},
    {"new"},
)
DESCRIBED = "Line[skuCode=tea, quantity=2, note=null]"
LINES = f"[{DESCRIBED}, Line[skuCode=milk, quantity=1, note=cold]]"
# In Java; the annotation; the value; how Java describes it.
TYPES = {
    "String": (str, "foreign ü", "foreign ü"),
    "int": (int, 7, "7"),
    "long": (int, 2**53 + 1, "9007199254740993"),
    "double": (float, 0.5, "0.5"),
    "boolean": (bool, True, "true"),
    "BigInteger": (int, 2**70, "1180591620717411303424"),
    "BigDecimal": (Decimal, Decimal("12.50"), "12.50"),
    "byte[]": (bytes, b"\0\xff", "00ff"),
    "UUID": (UUID, UUID(int=42), "00000000-0000-0000-0000-00000000002a"),
    "LocalDate": (date, date(2024, 5, 6), "2024-05-06"),
    "LocalTime": (time, time(7, 8, 9), "07:08:09"),
    "LocalDateTime": (datetime, NAIVE, "2024-05-06T07:08:09"),
    "Instant": (datetime, MOMENT, "2024-05-06T07:08:09Z"),
    "OffsetDateTime": (datetime, MOMENT, "2024-05-06T07:08:09Z"),
    "Duration": (timedelta, timedelta(minutes=90), "PT1H30M"),
    "enum": (Colour, Colour.DARK_RED, "DARK_RED"),
    "record": (Line, LINE, DESCRIBED),
    "List<Line>": (list[Line], [LINE, OTHER_LINE], LINES),
    "Map<Integer, String>": (dict[int, str], {7: "seven"}, "{7=seven}"),
    "Set<String>": (set[str], {"new"}, "[new]"),
}
WHOLE = (
    Everything,
    EVERYTHING,
    (
        "Everything[customerName=Zoë, number=7, large=9007199254740993, real=0.5, paid=true, "
        "huge=1180591620717411303424, totalPrice=12.50, octets=00ff, "
        "orderId=00000000-0000-0000-0000-00000000002a, day=2024-05-06, time=07:08:09, "
        "localMoment=2024-05-06T07:08:09, instant=2024-05-06T07:08:09Z, "
        "moment=2024-05-06T07:08:09Z, duration=PT1H30M, colour=DARK_RED, "
        f"firstLine={DESCRIBED}, orderLines={LINES}, byNumber={{7=seven}}, tags=[new]]"
    ),
)
ALL = {**TYPES, "Everything": WHOLE}


@pytest.fixture(params=[MIME.CBOR, MIME.JSON])
def mime_type(request):
    return request.param


@asynccontextmanager
async def serving(responder):
    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsocket_trio.serve, responder, "tcp://127.0.0.1:0")
        yield server.uris[0]
        nursery.cancel_scope.cancel(reason="the test is over")


def typed_router():
    """A router with a handler for each type, and the values that they got."""
    router, seen = Router(codecs=SPRING, explain=True), []

    def add(route, annotation):
        @router.request_response(route)
        async def echo(value: annotation) -> annotation:
            seen.append(value)
            return value

    for route, (annotation, _, _) in ALL.items():
        add(route, annotation)

    @router.request_stream("words")
    async def words(text: str) -> AsyncIterator[str]:
        for word in text.split(" "):
            yield word

    @router.request_channel("each")
    async def each(values: AsyncIterator[Everything]) -> AsyncIterator[Everything]:
        async for value in values:
            seen.append(value)
            yield value

    return router, seen


async def texts(spring, call):
    """What Spring says of the values of an interaction, in its order."""
    said = []
    while (event := await spring.event(call))["event"] == "next":
        said.append(event["text"])
    assert event["event"] == "complete", event
    return said


async def test_we_call_spring(using_spring, mime_type):
    """Each type as the argument and the result of a handler of Spring's: it gets the same value."""
    async with using_spring() as spring:
        server = await spring.serve()
        async with rsocket_trio.connect(server.uri, data_mime_type=mime_type) as requester:
            caller = Caller(requester, codecs=SPRING)
            for route, (annotation, value, text) in ALL.items():
                answer = await caller.request_response(route, value, returns=annotation)
                assert (type(answer), answer) == (type(value), value), route
                await spring.seen(text)
            words = caller.request_stream("words", "a ü foreign", returns=str)
            async with words as stream:
                assert [word async for word in stream] == ["a", "ü", "foreign"]
            values = [EVERYTHING, EVERYTHING]
            async with caller.request_channel("each", values, returns=Everything) as stream:
                assert [value async for value in stream] == values


async def test_spring_calls_us(using_spring, mime_type):
    """Each type as the argument and the result of a handler of ours, as RSocketRequester sends."""
    router, seen = typed_router()
    async with serving(router) as uri, using_spring() as spring:
        connection = await spring.connect(uri, mime=mime_type)

        async def typed(route, sample, interaction):
            call = await connection.start("typed", route, sample=sample, interaction=interaction)
            return await texts(spring, call)

        for route, (_, value, text) in ALL.items():
            assert await typed(route, route, "response") == [text], route
            assert (type(seen[-1]), seen[-1]) == (type(value), value), route
        assert await typed("words", "String", "stream") == ["foreign", "ü"]
        assert await typed("each", "Everything", "channel") == [WHOLE[2]] * 2
        assert seen[-2:] == [EVERYTHING, EVERYTHING]


async def test_without_the_option(using_spring, mime_type):
    """Spring's text is refused with words that name the option."""
    router = Router(explain=True)

    @router.request_response("echo")
    async def echo(text: str) -> str:
        return text

    async with serving(router) as uri, using_spring() as spring:
        connection = await spring.connect(uri, mime=mime_type)
        call = await connection.start("typed", "echo", sample="String", interaction="response")
        event = await spring.event(call)
        hint = "it looks like plain text, which Codecs(raw_text=True) reads"
        # In CBOR the f is the head of a text of six letters, and three bytes follow.
        assert hint in event["message"]


async def test_mistakes_have_the_names_that_spring_knows(using_spring, mime_type):
    """Its client gets INVALID with the place in its own names."""

    @attrs.frozen
    class Other:
        sku_code: int

    router = Router(codecs=SPRING, explain=True)

    @router.request_response("line")
    async def line(line: Other) -> None: ...

    async with serving(router) as uri, using_spring() as spring:
        connection = await spring.connect(uri, mime=mime_type)
        call = await connection.start("typed", "line", sample="record", interaction="response")
        event = await spring.event(call)
        assert event["message"].endswith("line.skuCode: expected int, got str")
        assert event["type"] == "InvalidException"


def blocks(language, page=PAGE):
    """The blocks of a page in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_table_of_types():
    """The page has each type that is tested, and no other."""
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", PAGE, re.MULTILINE)
    names = {
        java: {"enum": "enum.Enum", "record": "attrs class, dataclass"}.get(
            java, annotation.__name__ if isinstance(annotation, type) else str(annotation)
        )
        for java, (annotation, _, _) in TYPES.items()
    }
    names |= {"List<Line>": "list[Line]", "Map<Integer, String>": "dict[int, str]"}
    names |= {"Set<String>": "set[str]"}
    assert dict(rows) == names


@pytest.mark.parametrize(("page", "file"), [(PAGE, "Orders.java"), (COMING, "Shop.java")])
def test_the_programs_in_java(page, file):
    """Each one of the page is in the file, which is compiled and run below."""
    code = (JAVA / file).read_text(encoding="utf-8").replace("  static class", "  class")
    found = [textwrap.indent(block, "  ") for block in blocks("java", page)]
    assert len(found) == 3
    for block in found:
        for part in block.split("\n\n"):
            assert part.strip("\n") in code


@pytest.mark.parametrize("page", [PAGE, COMING])
async def test_the_pages_client_and_springs_server(page, using_spring, capsys, tmp_path):
    """The client in Python of a page prints the same with Spring's server as with ours."""
    _, client = blocks("python", page)
    [wanted] = blocks("text", page)
    async with using_spring() as spring:
        server = await spring.serve()
        program = tmp_path / "client.py"
        program.write_text(client.replace("tcp://127.0.0.1:7878", server.uri))
        await trio.to_thread.run_sync(runpy.run_path, str(program))
    assert capsys.readouterr().out == wanted


ORDERED = [
    "Hello, Ada",
    (
        "Order[orderId=00000000-0000-0000-0000-00000000002a, orderedOn=2024-05-06, "
        "totalPrice=12.50, status=PAID, "
        "orderLines=[Line[sku=tea, quantity=2], Line[sku=milk, quantity=1]]]"
    ),
    "Line[sku=tea, quantity=2]",
    "Line[sku=milk, quantity=1]",
]


@pytest.mark.parametrize(
    ("page", "client", "wanted"),
    [(PAGE, "orders", ORDERED), (COMING, "shop", ["10.0", "2.5", "3.5", "4.5"])],
)
async def test_springs_client_and_the_pages_server(page, client, wanted, using_spring, monkeypatch):
    """The client in Java of a page gets its answers from the server in Python of the page."""
    served = []
    monkeypatch.setattr(trio, "run", lambda _, router, __: served.append(router))
    exec(compile(blocks("python", page)[0], "server.py", "exec"), {"__name__": "server"})
    async with serving(served[0]) as uri, using_spring() as spring:
        connection = await spring.connect(uri, mime=MIME.CBOR)
        said = await texts(spring, await connection.start(client, "none"))
    assert said == wanted


async def test_spring_refuses_our_data(using_spring):
    """With an error of its application, and the connection lives."""
    async with using_spring() as spring:
        server = await spring.serve()
        async with rsocket_trio.connect(server.uri, data_mime_type=MIME.CBOR) as requester:
            caller = Caller(requester, codecs=SPRING)
            with pytest.raises(rsocket_trio.ApplicationError, match="UUID"):
                await caller.request_response("UUID", {"no": "uuid"}, returns=UUID)
            assert await caller.request_response("String", "alive", returns=str) == "alive"


async def test_what_changes_on_the_way(using_spring, mime_type):
    """As the page says: Jackson makes UTC of an offset, and an empty text is no data."""
    async with using_spring() as spring:
        server = await spring.serve()
        async with rsocket_trio.connect(server.uri, data_mime_type=mime_type) as requester:
            caller = Caller(requester, codecs=SPRING)
            east = datetime(2024, 5, 6, 9, 8, 9, tzinfo=timezone(timedelta(hours=2)))
            answer = await caller.request_response("OffsetDateTime", east, returns=datetime)
            await spring.seen("2024-05-06T07:08:09Z")
            assert (answer, answer.utcoffset()) == (east, timedelta(0))
            with pytest.raises(rsocket_trio.ApplicationError, match="Payload content is missing"):
                await caller.request_response("String", "", returns=str)
