"""AccessLog: a line for each call, on the outermost place of a router.

`tests/test_any_middleware.py` compares its lines with what happened, on every wire.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio
import trio.testing

from rsocket_trio import (
    AccessLog,
    Caller,
    CustomError,
    Forbidden,
    Invalid,
    Payload,
    Router,
    RSocketError,
    StreamError,
    Unauthenticated,
    connect,
)
from rsocket_trio.metadata import BearerAuthentication, Metadata, MetadataEntry
from rsocket_trio.testing import cancel_everywhere, connected_pair, served


async def admit(auth, facts):
    if auth is None:
        return getattr(facts, "principal", None)
    if auth.token == "secret of ada":
        return "ada\nadmin"
    raise Unauthenticated("secret reason")


def application(log):
    router = Router(middleware=[log], authenticate=admit)

    @router.request_response("double.{room}")
    async def double(room: str, data: int) -> int:
        if room == "secret-wait":
            async with trio.open_nursery() as nursery:  # it makes a group of the cancellation
                nursery.start_soon(trio.sleep_forever)
        if room == "secret-fails":
            raise ValueError("secret text")
        if room == "secret-says":
            raise CustomError("secret words", code=0x321)
        await trio.lowlevel.checkpoint()
        return data * 2

    @router.request_stream("numbers")
    async def numbers(data: int) -> AsyncIterator[int]:
        for n in range(data):
            yield n

    return router


def token(text):
    return Metadata(auth=BearerAuthentication(text))


async def test_lines_say_what_happened_and_no_secret(autojump_clock):
    """One for each call, with the template of the route, and never a text of the peer."""
    lines = []
    log = AccessLog(lambda line: lines.append(json.loads(line)), form="json", principal=str)
    async with connected_pair(application(log)) as requester:
        caller = Caller(requester)

        async def ask(route, data: object = 11, **options):
            try:
                with trio.move_on_after(5):
                    await caller.request_response(route, data, returns=int, **options)
            except StreamError:
                pass
            await trio.testing.wait_all_tasks_blocked()

        await ask("double.secret-room")
        await ask("double.secret-fails")
        await ask("double.secret-says")
        await ask("double.secret-wait")
        await ask("double.secret-room", "secret data")
        await ask("secret.route")
        await ask("double.secret-room", metadata=token("secret of ada"))
        await ask("double.secret-room", metadata=token("secret of nobody"))
        async with caller.request_stream("numbers", 3, returns=int) as items:
            assert [item async for item in items] == [0, 1, 2]
        await trio.testing.wait_all_tasks_blocked()
    assert "secret" not in str(lines)
    told = [
        (each["route"], each["outcome"], each.get("error"), each.get("principal")) for each in lines
    ]
    assert told == [
        ("double.{room}", "completed", None, None),
        ("double.{room}", "failed", "ValueError", None),
        ("double.{room}", "failed", "0x00000321", None),
        ("double.{room}", "cancelled", "explicit", None),
        ("double.{room}", "failed", "INVALID", None),
        ("", "failed", "INVALID", None),
        ("double.{room}", "completed", None, "ada\nadmin"),
        ("double.{room}", "failed", "UNAUTHENTICATED", None),
        ("numbers", "completed", None, None),
    ]
    assert (lines[-1]["items"], lines[-1]["size"], lines[-1]["size_in"]) == (3, 3, 1)
    assert lines[3]["seconds"] == pytest.approx(5)
    assert all(each["time"].endswith("Z") and each["peer"] == "memory" for each in lines)


async def test_a_line_stays_one_line():
    """Values with spaces, quotes, line ends and escape sequences are quoted and escaped."""
    lines = []
    log = AccessLog(lines.append, principal=lambda user: f'{user} \x1b[31m"\\ \u202e')
    async with connected_pair(application(log)) as requester:
        caller = Caller(requester)
        metadata = token("secret of ada")
        await caller.request_response("double.x", 11, returns=int, metadata=metadata)
    (line,) = lines
    assert line.isprintable()
    assert r'principal="ada\nadmin \x1b[31m\"\\ \u202e"' in line
    assert " route=double.{room} peer=memory " in line
    assert line.endswith(" outcome=completed")


async def test_what_strangers_cause_is_summed_up(autojump_clock):
    """Floods of unknown routes, wrong tokens and wrong data; other calls keep their lines."""
    lines = []
    log = AccessLog(lambda line: lines.append(json.loads(line)), form="json", period=60)
    async with connected_pair(application(log)) as requester:
        caller = Caller(requester)
        for n in range(100):
            for route, data, metadata in (
                (f"no.{n}", 1, None),
                ("double.x", 1, token(f"wrong {n}")),
                ("double.x", f"wrong {n}", None),
            ):
                with pytest.raises(StreamError):
                    await caller.request_response(route, data, returns=int, metadata=metadata)
        assert len(lines) == 30
        await caller.request_response("double.x", 1, returns=int)
        assert len(lines) == 31
        await trio.sleep(61)
        await caller.request_response("double.x", 1, returns=int)
    summed = {each["kind"]: each["count"] for each in lines if each.get("event") == "left out"}
    assert summed == {"no handler": 90, "login refused": 90, "not readable": 90}
    assert len(lines) == 35


async def test_connections_that_a_guard_refuses():
    """They are calls of nobody; a flood of them is summed up at the end of the program."""
    lines = []
    log = AccessLog(lines.append)

    async def forbid(auth, facts):
        raise Forbidden("secret reason")

    async with served(Router(authenticate=forbid, middleware=[log])) as dial:
        for _ in range(30):
            with pytest.raises(RSocketError):
                async with connect(dial) as requester:
                    await Caller(requester).request_response("x", returns=None)
        log.settle(all_of_it=True)
    assert len(lines) == 11
    assert lines[0].endswith(' event="connection refused" peer=memory error=FORBIDDEN')
    assert lines[-1].endswith(' event="left out" kind="connection refused" count=20')
    assert "secret" not in str(lines)


async def test_one_line_wherever_a_call_is_cancelled():
    """At each step of both ends; a line never comes twice, and never is missing."""
    begun, lines, ours = [], [], []

    async def count(call):
        begun.append(call)
        yield

    router = application(AccessLog(lines.append))
    outer = Router(middleware=[count])
    outer.include(router, middleware=[])

    async def scene():
        async with served(router) as dial:
            async with connect(dial, middleware=[AccessLog(ours.append)]) as requester:
                caller = Caller(requester)
                await caller.request_response("double.x", 11, returns=int)
                async with caller.request_stream("numbers", 3, returns=int) as items:
                    await anext(items)

    async def check():
        for told in (lines, ours):
            routes = [line.partition(" route=")[2].partition(" ")[0] for line in told]
            assert routes in ([], ["double.{room}"], ["double.x"],
                              ["double.{room}", "numbers"], ["double.x", "numbers"])  # fmt: skip
            told.clear()

    assert await cancel_everywhere(scene, check, every_task=True) > 20


async def test_streams_may_have_a_line_when_they_begin():
    lines = []
    log = AccessLog(lines.append, begins=True)
    async with connected_pair(application(log)) as requester:
        caller = Caller(requester)
        async with caller.request_stream("numbers", 3, returns=int) as items:
            await anext(items)
        await caller.request_response("double.x", 11, returns=int)
    assert [line.partition(" outcome=")[2] for line in lines] == ["open", "completed", "completed"]


async def test_beginnings_of_streams_that_a_guard_may_refuse(autojump_clock):
    """A stranger can cause no more of them than of refusals; a login has all of them."""
    lines = []
    log = AccessLog(lines.append, begins=True)
    async with connected_pair(application(log)) as requester:
        caller = Caller(requester)
        for _ in range(30):
            with pytest.raises(StreamError):
                async with caller.request_stream(
                    "numbers", 1, returns=int, metadata=token("wrong")
                ) as items:
                    await anext(items)
    log.settle(all_of_it=True)
    assert [line.count("outcome=open") for line in lines].count(1) == 10
    assert sum("login refused" in line or "UNAUTHENTICATED" in line for line in lines) == 11
    lines.clear()
    me = token("secret of ada")
    async with connected_pair(application(log), setup_metadata=me) as requester:
        for _ in range(30):
            async with Caller(requester).request_stream("numbers", 1, returns=int) as items:
                assert [each async for each in items] == [0]
    assert len(lines) == 60


async def test_one_in_so_many_calls(monkeypatch):
    """A chosen stream has both lines, and says how many it stands for; a failure has its own."""
    chosen = iter([0, 1, 1, 0, 1])
    monkeypatch.setattr(random, "randrange", lambda count: next(chosen) if count == 50 else 1 / 0)
    lines = []
    log = AccessLog(lines.append, begins=True, every=50)
    async with connected_pair(application(log)) as requester:
        caller = Caller(requester)
        for _ in range(2):
            async with caller.request_stream("numbers", 3, returns=int) as items:
                await anext(items)
        for route in ("double.secret-fails", "double.secret-fails", "double.x"):
            with suppress(StreamError):
                await caller.request_response(route, 11, returns=int)
    said = [line.partition(" outcome=")[2] for line in lines]
    failed = "failed error=ValueError"
    assert said == ["open every=50", "completed every=50", failed, f"{failed} every=50"]


async def test_a_writer_that_fails_harms_no_call(caplog):
    """Nor does a function for principals; the log says so."""

    def fail(_):
        raise OSError("no space")

    for log in (AccessLog(fail), AccessLog(print, principal=fail)):
        async with connected_pair(application(log)) as requester:
            caller = Caller(requester)
            metadata = token("secret of ada")
            assert (
                await caller.request_response("double.x", 11, returns=int, metadata=metadata) == 22
            )
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert texts == [
        "a line of the access log cannot be written",
        "principal= of an AccessLog failed",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"form": "xml"},
        {"burst": 0},
        {"period": 0},
        {"principal": "name"},
        {"write": "access.log"},
    ],
)
def test_arguments(options):
    name = next(iter(options))
    with pytest.raises((TypeError, ValueError), match=name):
        AccessLog(**({"write": print} | options))


async def test_data_that_cannot_be_read_are_refused_inside(autojump_clock):
    """The log is around the conversion of data, so its line says so."""
    lines = []
    async with connected_pair(application(AccessLog(lines.append))) as requester:
        with pytest.raises(Invalid):
            await Caller(requester).request_response("double.x", "no number", returns=int)
    assert lines[0].endswith(" outcome=failed error=INVALID")


@pytest.mark.parametrize(
    ("sent", "trace"),
    [
        ([b"00-" + b"5" * 32 + b"-" + b"7" * 16 + b"-01"], "5" * 32),
        ([b"cc-" + b"5" * 32 + b"-" + b"7" * 16 + b"-01-later"], "5" * 32),
        ([b"ff-" + b"5" * 32 + b"-" + b"7" * 16 + b"-01"], None),
        ([b"00-" + b"0" * 32 + b"-" + b"7" * 16 + b"-01"], None),
        ([b"00-" + b"5" * 32 + b"-" + b"0" * 16 + b"-01"], None),
        ([b"00-" + b"5" * 32 + b"-" + b"7" * 16 + b"-01"] * 2, None),
        ([b"secret\nsecret"], None),
        ([], None),
    ],
)
async def test_a_line_names_the_trace(sent, trace):
    """It is the id alone, and only of a header that W3C Trace Context calls valid."""
    lines = []
    log = AccessLog(lambda line: lines.append(json.loads(line)), form="json")
    async with connected_pair(application(log)) as requester:
        metadata = Metadata(
            route="double.a", extra=[MetadataEntry("traceparent", each) for each in sent]
        )
        await requester.request_response(Payload(b"1"), metadata=metadata)
    assert [line.get("trace") for line in lines] == [trace]


@pytest.mark.parametrize("kind", ["request_response", "request_stream", "request_channel"])
@pytest.mark.parametrize(
    "metadata",
    [
        b"\xfe\x00\x00\x06\x09double",  # the tag is longer than its entry
        b"\xfe\x00\x00\x07\x06double\xff",  # the next entry is cut off
        b"\xfe\x00\x00\x07\x06double\xfc\x00\x00\x03\x80\xff\xff",  # so is a name
    ],
)
async def test_a_request_whose_metadata_cannot_be_read_has_a_line(kind, metadata):
    """It is refused before its handler is known, and before a guard; what it says is in no line."""
    lines = []
    log = AccessLog(lambda line: lines.append(json.loads(line)), form="json")
    asked = Payload(b"1", metadata)
    async with connected_pair(application(log)) as requester:
        with pytest.raises(Invalid, match="the metadata of this request cannot be read"):
            if kind == "request_response":
                await requester.request_response(asked)
            else:
                source = [asked] if kind == "request_channel" else asked
                async with getattr(requester, kind)(source) as items:
                    await items.receive()
        await requester.fire_and_forget(asked)
        await trio.testing.wait_all_tasks_blocked()
    about = [(each["interaction"], each["route"], each["error"]) for each in lines]
    assert about == [(kind, "", "INVALID"), ("fire_and_forget", "", "INVALID")]
