"""docs/rsio.md defines rsio: its octets, codes, limits and rules are those of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rsocket_trio.rsio.limits import RsioLimits
from rsocket_trio.rsio.rules.events import StreamViolation, Violation
from rsocket_trio.rsio.wire.dump import MessageCutter, as_fields
from rsocket_trio.rsio.wire.messages import MessageType
from rsocket_trio.rsio.wire.varint import MalformedVarint, encode_varint, read_varint
from rsocket_trio.rsio.wire.violations import ViolationCode
from tests.rsio.golden import MALFORMED, MESSAGES
from tests.rsio.pairs import give, opened_pair

PAGE = (Path(__file__).parents[2] / "docs" / "rsio.md").read_text(encoding="utf-8")


def rows_under(header):
    """The rows of the table that has this first line, as lists of cells."""
    assert PAGE.count(f"\n{header}\n") == 1, header
    table = PAGE.partition(f"\n{header}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.split("\n")[1:]]


def octets(cell):
    """The octets in a cell."""
    return bytes.fromhex(re.search(r"`([0-9a-f ]+)`", cell)[1])


def test_the_types_of_messages():
    """The table has each message with its type."""
    rows = rows_under("| type | message | fields | sent by |")
    found = {
        row[1]: int(row[0], 16) for row in rows if row[0].startswith("0x") and "to" not in row[0]
    }
    names = {re.sub("_", "", each.name).lower(): each.value for each in MessageType}
    assert {name.lower(): code for name, code in found.items()} == names


def test_the_examples():
    """Each example is the message that it says, and those of the vectors are there."""
    cutter = MessageCutter()
    rows = rows_under("| message | octets |")
    for title, cell in rows:
        (frame,) = cutter(octets(cell))
        assert title.split()[0].rstrip(",") == as_fields(frame)["message"]
    shown = {octets(cell) for _, cell in rows}
    assert sum(bytes.fromhex(each["hex"]) in shown for each in MESSAGES) > 10


def test_the_numbers():
    """Each varint of the page is its value, or malformed."""
    for value, cell in rows_under("| value | varint |"):
        data = octets(cell)
        if value.startswith("malformed"):
            with pytest.raises(MalformedVarint):
                read_varint(data)
        else:
            number = eval(value.replace("^", "**"), {})
            assert encode_varint(number) == data


def test_the_codes():
    """The table has each code of a violation, once."""
    rows = rows_under("| code | what is wrong | known at |")
    assert [row[0] for row in rows] == list(dict.fromkeys(row[0] for row in rows))
    assert {row[0] for row in rows} == set(ViolationCode)


def test_malformed_input():
    """Each example has its violation, at the octet that the page says."""
    known = {each["hex"]: each.get("code") for each in MALFORMED}
    for cell, code, at in rows_under("| octets | code | octet that shows it, from 0 |"):
        data = octets(cell)
        client, server = opened_pair()
        receiver = server
        if data[0] == 0x20:
            give(client, server.subscribe("any", 1)[1])
            server.subscribe("any", 1)  # The stream has the id 1.
        elif code == "packed-empty":
            for _ in range(3):
                server.subscribe("any", 1)
            give(server, bytes.fromhex("200204"))
        elif code == "hello-expected":
            receiver = type(server)("server")
        for octet in data[: int(at)]:
            assert give(receiver, bytes([octet])) == []
        (violation,) = give(receiver, data[int(at) : int(at) + 1])
        assert isinstance(violation, Violation | StreamViolation)
        assert violation.code == code == known.get(data.hex(), code)


def size_of(text):
    """The number in a cell."""
    number = int(text.split()[0])
    return number * 2**20 if "MiB" in text else number * 2**10 if "KiB" in text else number


def test_the_limits():
    """The limits of the page are the defaults."""
    limits = RsioLimits()
    found = {
        row[0].split(";")[0]: row for row in rows_under("| what | default | if it is exceeded |")
    }
    expected = {
        "the name of a publisher": limits.max_publisher_size,
        "a text": limits.max_text_size,
        "the extensions in a hello": limits.max_extensions,
        "the content of a message of an extension": limits.max_extension_size,
        "an element, elementSize, count times elementSize": limits.max_element_size,
        "one part": limits.max_part_size,
        "split elements of a stream that are not finished": limits.max_open_elements,
        "the octets of all elements of a connection that are not finished": limits.max_parts_memory,
        "streams that a peer has open with our publishers": limits.max_subscriptions,
        "streams that we have cancelled and the peer has not ended": limits.max_cancelled,
    }
    assert {name: size_of(found[name][1]) for name in expected} == expected
    assert f"cut their own at {limits.sent_text_size}" in PAGE
    assert f"above {limits.split_size // 2**10} KiB" in PAGE


def test_the_rules():
    """All 58 rules of the draft and all 22 of the binding are there, in order."""
    found = [row[0] for row in rows_under("| rule | source | what holds |")]
    assert found == [f"RSIO-{number:02}" for number in range(1, 59)]
    found = [row[0] for row in rows_under("| rule | what holds |")]
    assert found == [f"B{number:02}" for number in range(1, 23)]
