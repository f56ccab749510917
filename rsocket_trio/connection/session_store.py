"""Stores in which a server finds sessions by their tokens: `SessionStore`, `MemorySessionStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, final

from trio.lowlevel import checkpoint

from ..sealed import Sealed

if TYPE_CHECKING:
    from .resume_server import ServerSession

__all__ = ["MemorySessionStore", "ResumableSession", "SessionStore", "session_of"]


@final
class ResumableSession(metaclass=Sealed, given="a server gives one to its SessionStore"):
    """A session that a client may resume: an opaque object, equal only to itself.

    It represents objects of this process (open streams, handlers, the frames kept for the client),
    so it has no meaning in another process: it cannot be serialized, copied or sent.
    """

    __slots__ = ("__weakref__", "_session")

    def __init__(self, session: ServerSession) -> None:
        self._session = session


def session_of(found: object) -> ServerSession | None:
    """The session that a store has returned; ``None`` if it returned something else."""
    if isinstance(found, ResumableSession):
        return found._session  # noqa: SLF001 - a class of this module
    return None


class SessionStore(ABC):
    """Finds the sessions of a server by their tokens; pass your own as `ServerResume.store`.

    *What is stored*: a token, as the client has sent it, and its `ResumableSession`. Anyone who
    knows a token may take the session over: treat it as a password. The session itself cannot
    leave the process. A store may share sessions between the servers of one process, keep hashes
    of tokens instead of tokens, count, log, or tell a directory which process has which session,
    so that a proxy sends the client there. It cannot let another process resume a session.

    *When*: `add` is called for each SETUP that asks for resumption, before the acceptor is called;
    `find` for each RESUME; `remove` when a session is over, once for each `add` that has not
    returned False, also if `add` raised or was cancelled.

    *Atomicity*: any number of these calls may run at the same time, also for one token. Of all
    calls of `add` for a token only one returns True, until its session is removed.

    *Expiry*: the store has none. A session ends after `ServerResume.session_lifetime` and is
    removed then. If a store forgets a session earlier, the server only refuses its client; the
    session uses memory until its end.

    *Limits*: the server enforces `ServerResume.max_sessions` with any store. A call that takes
    longer than `ConnectionConfig.setup_timeout` (`remove`: than `ConnectionConfig.close_timeout`)
    is cancelled, and counts as failed.

    *Failure*: an exception of a method is logged. Then a SETUP is refused with REJECTED_SETUP, and
    a RESUME with CONNECTION_ERROR, which tells the client to try again. A session that could not
    be removed is over all the same.
    """

    @abstractmethod
    async def add(self, token: bytes, session: ResumableSession) -> bool:
        """Keep a session, unless the store has a session with that token.

        Returns:
            Whether it is kept; if not, the client is refused.

        Checkpoint: as you like.
        If cancelled: the session may be kept or not; `remove` follows.
        """

    @abstractmethod
    async def find(self, token: bytes) -> ResumableSession | None:
        """Return the session that is kept under exactly that token; ``None`` if there is none.

        Checkpoint: as you like.
        If cancelled: nothing has happened.
        """

    @abstractmethod
    async def remove(self, token: bytes, session: ResumableSession) -> None:
        """Remove a session; do nothing if it is not the session kept under that token.

        Called in a scope that is shielded from cancellation, with a timeout.

        Checkpoint: as you like.
        If cancelled: the session may be kept or not; the server does not call again.
        """


class MemorySessionStore(SessionStore):
    """Keeps sessions in a dictionary. ``len(store)`` is their number."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, ResumableSession] = {}

    async def add(self, token: bytes, session: ResumableSession) -> bool:
        """See `SessionStore.add`.

        Checkpoint: always.
        If cancelled: it is not kept.
        """
        await checkpoint()
        return self._sessions.setdefault(token, session) is session

    async def find(self, token: bytes) -> ResumableSession | None:
        """See `SessionStore.find`.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        await checkpoint()
        return self._sessions.get(token)

    async def remove(self, token: bytes, session: ResumableSession) -> None:
        """See `SessionStore.remove`. The session is removed before any other task runs.

        Checkpoint: always.
        If cancelled: the session is removed.
        """
        if self._sessions.get(token) is session:
            del self._sessions[token]
        await checkpoint()

    def __len__(self) -> int:
        return len(self._sessions)
