"""The thread in which a connection lives: `get_ident`, `not_at_home`, `Home`.

An object of trio belongs to one run, and a run to one thread. A task that waits for a connection of
another run would be woken in the wrong run, which crashes the tasks of the connection. So a
connection remembers its thread. Where its users come in, it compares that with `get_ident`, which
is the cheapest question of all: some 40 ns.
"""

from __future__ import annotations

from threading import get_ident

__all__ = ["Home", "get_ident", "not_at_home"]


def not_at_home(what: str) -> RuntimeError:
    """Return the error for a caller in another thread than that of the connection.

    Args:
        what: The object that it uses, e.g. ``"this client"``.
    """
    return RuntimeError(
        f"{what} belongs to the trio run of another thread; nothing was done. Call it there by "
        "trio.from_thread.run, or connect in this thread too"
    )


class Home:
    """The thread in which this object was made, for checks that are not on a hot path."""

    __slots__ = ("_thread",)

    def __init__(self) -> None:
        self._thread = get_ident()

    def check(self, what: str) -> None:
        """Refuse a caller in another thread.

        Args:
            what: The object that it uses, e.g. ``"this client"``.

        Raises:
            RuntimeError: This is another thread.
        """
        if get_ident() != self._thread:
            raise not_at_home(what)
