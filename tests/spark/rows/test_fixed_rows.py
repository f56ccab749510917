"""Records of a fixed size as columns: every type, both byte orders, packed and one by one."""

from __future__ import annotations

import struct
from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import Payload
from rsocket_trio.spark.rows.decoded import MalformedElement
from rsocket_trio.spark.rows.fixed_rows import FixedRows
from rsocket_trio.spark.rows.maker import PUBLISHER_FACTS, RowMaker
from rsocket_trio.spark.rows.packed import PackedElements
from rsocket_trio.spark.rows.settings import RowSettings

SCHEMA = pa.schema({
    "a": pa.int8(),
    "b": pa.int16(),
    "c": pa.int32(),
    "d": pa.int64(),
    "e": pa.float64(),
})  # fmt: skip
LAYOUT = "bhiqd"
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**7), 2**7 - 1),
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
    ),
    max_size=20,
)


def decoded(rows: FixedRows, payloads: list[bytes] | PackedElements):
    (only,) = rows.decode(payloads)
    return only


@given(rows=ROWS, order=st.sampled_from([("big", ">"), ("little", "<")]))
def test_records_are_what_struct_packs(rows, order):
    """One by one and in a block, both byte orders."""
    name, sign = order
    records = [struct.pack(sign + LAYOUT, *row) for row in rows]
    reader = FixedRows(SCHEMA, name)
    assert reader.size == struct.calcsize(">" + LAYOUT)
    wanted = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    block = b"".join(records)
    for payloads in (
        records,
        PackedElements(block, reader.size),
        PackedElements(memoryview(block), reader.size),
        PackedElements(bytearray(block), reader.size),
    ):
        found = decoded(reader, payloads)
        assert found.rows.to_pylist() == wanted
        assert not found.malformed


@pytest.mark.parametrize(("order", "sign"), [("big", ">"), ("little", "<")])
def test_one_column_of_each_other_type(order, sign):
    """A column alone takes other ways than one among several."""
    for type_, code, value in (
        (pa.int8(), "b", -5),
        (pa.int64(), "q", -5),
        (pa.float32(), "f", 0.5),
        (pa.date32(), "i", 1),
        (pa.timestamp("us"), "q", 1_000_000),
    ):
        reader = FixedRows(pa.schema({"x": type_}), order)
        found = decoded(
            reader, PackedElements(struct.pack(f"{sign}2{code}", value, value), reader.size)
        )
        wanted = {
            pa.date32(): date(1970, 1, 2),
            pa.timestamp("us"): datetime(1970, 1, 1, 0, 0, 1),
        }.get(type_, value)
        assert found.rows.column("x").to_pylist() == [wanted] * 2


def test_an_element_of_another_size_is_malformed():
    """It is a row of nulls; the others are as they were sent."""
    reader = FixedRows(pa.schema({"x": pa.int16(), "y": pa.int16()}), "big")
    found = decoded(reader, [b"\0\1\0\2", b"\0\1\0", b"", b"\0\3\0\4"])
    assert found.rows.to_pylist() == [
        {"x": 1, "y": 2},
        {"x": None, "y": None},
        {"x": None, "y": None},
        {"x": 3, "y": 4},
    ]
    assert found.malformed == {
        1: "a record has 4 bytes, and this element has 3",
        2: "a record has 4 bytes, and this element has 0",
    }


def test_a_block_of_another_size_is_malformed():
    """Each of its elements is."""
    reader = FixedRows(pa.schema({"x": pa.int16()}), "big")
    assert set(decoded(reader, PackedElements(b"123456", 3)).malformed) == {0, 1}


def test_a_column_without_a_width_is_refused():
    """The error names the column."""
    with pytest.raises(ValueError, match=r"the column name \(string\) has no fixed width"):
        FixedRows(pa.schema({"x": pa.int16(), "name": pa.string()}), "big")


def test_packed_elements_are_a_sequence():
    """Of elements, made as they are asked for."""
    packed = PackedElements(b"aabbcc", 2)
    assert len(packed) == 3
    assert list(packed) == [b"aa", b"bb", b"cc"]
    assert packed[-1] == b"cc"
    assert list(packed[1:]) == [b"bb", b"cc"]
    assert list(packed[2:1]) == []
    with pytest.raises(IndexError):
        packed[3]
    with pytest.raises(ValueError, match="without gaps"):
        packed[::2]
    with pytest.raises(ValueError, match="5 bytes are no whole number of elements of 2 bytes"):
        PackedElements(b"abcde", 2)


def maker(schema: pa.Schema, payload_format: str = "fixed", mode: str = "PERMISSIVE") -> RowMaker:
    return RowMaker(RowSettings(payload_format, mode, "_corrupt_record"), schema, PUBLISHER_FACTS)


def test_rows_of_a_block_with_facts():
    """Beside decoded columns, the names of facts begin with an underscore."""
    schema = pa.schema({"x": pa.int16(), "_offset": pa.int64(), "_partition": pa.int32()})
    (batch,) = maker(schema).rows(PackedElements(b"\0\1\0\2", 2), 10, partition=3)
    assert batch.to_pylist() == [
        {"x": 1, "_offset": 10, "_partition": 3},
        {"x": 2, "_offset": 11, "_partition": 3},
    ]


def test_other_formats_take_blocks_too():
    """They get the elements one by one."""
    schema = pa.schema({"data": pa.binary(), "offset": pa.int64()})
    (batch,) = maker(schema, "binary").rows(PackedElements(b"abcd", 2), 0, partition=0)
    assert batch.column("data").to_pylist() == [b"ab", b"cd"]


def test_a_malformed_record_in_failfast():
    """The error says which element it is, and why."""
    strict = maker(pa.schema({"x": pa.int16()}), mode="FAILFAST")
    with pytest.raises(MalformedElement, match="offset 6 of partition 0 is malformed: a record"):
        list(strict.rows([Payload(b"\0\1"), Payload(b"\0")], 5, partition=0))
