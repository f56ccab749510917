"""The service of all ends, and its messages.

A message is a google.protobuf.BytesValue: one field of bytes. The programs in Python handle it as
bytes, so that neither stack's figures contain protobuf. The programs in Go decode and encode it.
"""

from __future__ import annotations

from typing import Final

from benchmarks.control import ITEM_SIZE

__all__ = ["ITEM", "SERVICE", "unwrap", "wrap"]

SERVICE: Final = "benchmark.Echo"
"""Its methods: Unary returns its request; Items streams as many items as its request says, in
digits; Echo returns each message of a stream."""


def wrap(value: bytes) -> bytes:
    """Return the message with this value, which has less than 128 bytes."""
    return b"\x0a%c%b" % (len(value), value)


def unwrap(message: bytes) -> bytes:
    """Return the value of a message that `wrap` has made."""
    return message[2:]


ITEM: Final = wrap(b"x" * (ITEM_SIZE - 2))
"""A message of 128 bytes."""
