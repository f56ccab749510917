"""The fields of the event of a record."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading

import pytest

from rsocket_trio.lumberjack.log_handler.json_text import encode_event
from rsocket_trio.lumberjack.log_handler.pairs import as_pairs
from rsocket_trio.lumberjack.log_handler.record import EventMaker, timestamp
from rsocket_trio.lumberjack.wire.frames import split_pairs


def record(message="hello %s", *args, **more):
    made = logging.LogRecord("shop.cart", logging.INFO, "/x/cart.py", 7, message, args, None, "add")
    made.created = 1_700_000_000.123
    vars(made).update(more)
    return made


def event_of(made, **fields):
    event = EventMaker(fields).event(made, made.getMessage())
    return json.loads(encode_event(event, 2**20))


def test_the_fields():
    made = record("hello %s", "you", order=17)
    event = event_of(made, service={"name": "shop"}, host={"name": "h"})
    assert event == {
        "@timestamp": "2023-11-14T22:13:20.123Z",
        "message": "hello you",
        "log": {
            "level": "info",
            "logger": "shop.cart",
            "origin": {"file": {"name": "cart.py", "line": 7}, "function": "add"},
        },
        "process": {
            "pid": os.getpid(),
            "name": "MainProcess",
            "thread": {"id": threading.get_ident(), "name": "MainThread"},
        },
        "ecs": {"version": "1.6.0"},
        "host": {"name": "h"},
        "service": {"name": "shop"},
        "order": 17,
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1.9999, "1970-01-01T00:00:01.999Z"),
        (1.001, "1970-01-01T00:00:01.001Z"),
        (1_700_000_000.289, "2023-11-14T22:13:20.289Z"),
        (1_700_000_000.9999999, "2023-11-14T22:13:21.000Z"),
    ],
)
def test_timestamps(seconds, text):
    assert timestamp(seconds) == text


def test_each_millisecond_is_the_right_one():
    for number in range(1000):
        assert timestamp(1_700_000_000 + number / 1000).endswith(f"20.{number:03d}Z")


def test_an_exception():
    try:
        raise json.JSONDecodeError("no", "text", 1)
    except ValueError:
        made = record(exc_info=sys.exc_info())
    error = event_of(made)["error"]
    assert error["type"] == "json.decoder.JSONDecodeError"
    assert error["message"] == "no: line 1 column 2 (char 1)"
    assert error["stack_trace"].startswith("Traceback (most recent call last):\n")
    assert "test_an_exception" in error["stack_trace"]
    assert made.exc_text is None


def test_a_traceback_that_was_made_before_is_used():
    try:
        raise ValueError("secret")
    except ValueError:
        made = record(exc_info=sys.exc_info(), exc_text="as it was")
    assert event_of(made)["error"]["stack_trace"] == "as it was"


def test_no_exception():
    assert "error" not in event_of(record(exc_info=(None, None, None)))
    assert event_of(record(stack_info="Stack"))["error"] == {"stack_trace": "Stack"}


def test_an_exception_that_has_no_text():
    class Silent(Exception):
        def __str__(self):
            raise KeyError("no text")

    try:
        raise Silent
    except Silent:
        made = record(exc_info=sys.exc_info())
    error = event_of(made)["error"]
    assert error["type"].endswith("Silent")
    assert error["message"]


def test_a_traceback_that_cannot_be_formatted():
    """A handler of logging never raises for what an application gives it."""
    error = event_of(record(exc_info=(ValueError, ValueError("no"), "no traceback")))["error"]
    assert error["message"] == "no"
    assert error["stack_trace"] == "<a traceback that cannot be formatted: AttributeError>"


def test_extras_do_not_replace_fields():
    event = event_of(
        record(log="mine", error="e", host=1, service=2, extra=3, plain=4), service={"name": "s"}
    )
    assert event["log"]["logger"] == "shop.cart"
    assert event["service"] == {"name": "s"}
    assert event["plain"] == 4
    assert event["extra"] == {"log": "mine", "error": "e", "host": 1, "service": 2, "extra": 3}


def test_pairs_of_version_1():
    text = encode_event({"a": {"b": {"c": "d"}, "n": 1}, "l": [1, "é"], "none": None}, 1000)
    assert dict(split_pairs(as_pairs(text, 10))) == {
        b"a.b.c": b"d", b"a.n": b"1", b"l": '[1, "é"]'.encode(),
    }  # fmt: skip
    assert len(split_pairs(as_pairs(text, 2))) == 2
