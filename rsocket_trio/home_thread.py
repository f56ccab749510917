"""The thread in which a connection lives: `get_ident`, `not_at_home`.

An object of trio belongs to one run, and a run to one thread. A task that waits for a connection of
another run would be woken in the wrong run, which crashes the tasks of the connection. So a
connection remembers its thread. Where its users come in, it compares that with `get_ident`, which
is the cheapest question of all: some 40 ns.
"""

from __future__ import annotations

from threading import get_ident

__all__ = ["get_ident", "not_at_home"]


def not_at_home(what: str) -> RuntimeError:
    """Return the error for a caller in another thread than that of the connection.

    Args:
        what: The object that it uses, e.g. ``"this client"``.
    """
    return RuntimeError(
        f"{what} belongs to the trio run of another thread; nothing was done. Call it there by "
        "trio.from_thread.run, or connect in this thread too"
    )
