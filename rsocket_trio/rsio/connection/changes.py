"""What extensions make of elements: `changed`."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["changed"]


def changed(change: Callable[[bytes], object], element: bytes) -> bytes:
    """Return what an extension makes of an element.

    Raises:
        TypeError: That is not bytes.
        BaseException: What the extension raises.
    """
    made = change(element)
    if not isinstance(made, bytes | bytearray | memoryview):
        raise TypeError(f"an extension must make bytes of an element, not {type(made).__name__}")
    return bytes(made)
